"""The daemons of a weather service, and the files that each of them needs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from apples_deploy.authority import Certificate
from apples_deploy.records import DaemonRole
from apples_deploy.units import Daemon

SERVER = Daemon(
    name="nws-server",
    title="Network Weather Service: server",
    program="nws",
    words=("server", "--config", "{weather.yaml}"),
    files=("weather.yaml",),
    memory="4G",
)
SENSOR = Daemon(
    name="nws-sensor",
    title="Network Weather Service: sensor of this host",
    program="nws",
    words=(
        "sensor",
        "--server",
        "https://weather:8090",
        "--token-file",
        "{sensor.token}",
        "--ca",
        "{ca.pem}",
    ),
    files=("sensor.token", "ca.pem"),
)

#: Ending of the file with a host's token.
SENSOR_TOKEN = ".sensor.token"


def server_role(
    *,
    port: int,
    settings: Mapping[str, Any],
    tokens: Mapping[str, str],
    admin: str,
    read: str,
    certificate: Certificate,
) -> DaemonRole:
    """Return a server on all interfaces with TLS. settings : of the user, for all other keys.  tokens : of each host"""
    # a host may be called read or admin
    files = {f"{host}{SENSOR_TOKEN}": token for host, token in tokens.items()}
    document = {
        **settings,
        "listen": f"0.0.0.0:{port}",
        "tokens": {"read": ["read.token"], "write": sorted(files), "admin": ["admin.token"]},
        "tls": {"certificate": "server.pem", "key": "server.key"},
    }
    return DaemonRole(
        daemon=SERVER,
        words=SERVER.words,
        files={
            "weather.yaml": yaml.safe_dump(document, sort_keys=False),
            "read.token": read,
            "admin.token": admin,
            **files,
            "server.pem": certificate.certificate,
            "server.key": certificate.key,
            "ca.pem": certificate.authority,
        },
    )


def sensor_role(
    host: str, *, url: str, token: str | None, authority: str | None, site: str | None
) -> DaemonRole:
    """Return the sensor of a host. token, authority : None for a service without"""
    words = ["sensor", "--server", url, "--host", host]
    files = {}
    if token is not None:
        words += ["--token-file", "{sensor.token}"]
        files["sensor.token"] = token
    if authority is not None:
        words += ["--ca", "{ca.pem}"]
        files["ca.pem"] = authority
    if site is not None:
        words += ["--site", site]
    return DaemonRole(daemon=SENSOR, words=tuple(words), files=files)


def not_measuring(hosts: Sequence[str], document: Mapping[str, Any]) -> list[str]:
    """Return the hosts that a service does not have, or without measurements. document : of `nws show --hosts`"""
    alive = {one["host"] for one in document["hosts"] if not one["lost"] and one["series"] > 0}
    return [host for host in hosts if host not in alive]
