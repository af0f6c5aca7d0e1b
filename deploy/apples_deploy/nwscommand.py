"""`nws deploy` puts sensors, and a server, on hosts over ssh; `nws units` prints their unit files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apples.hosts.hostmessages import HostCheckError
from apples_deploy.options import DeployRequest, deploy_options, further_settings, units_command
from apples_deploy.weather import SENSOR, SENSOR_TOKEN, SERVER, not_measuring, sensor_role, server_role
from nws.base.command import FILE
from nws.base.errors import DeploymentFailed, UsageError
from nws.base.paths import state_dir

if TYPE_CHECKING:
    from apples_deploy.deployment import HostDeployment, HostResult
    from apples_deploy.records import DaemonRole

#: Seconds between two looks at the service while sensors start, and for one look.
_LOOK_S, _ASK_S = 2.0, 60.0

units = units_command((SERVER, SENSOR), "/etc/nws")


@click.command()
@click.option(
    "--server", metavar="HOST", help="Put the server on this host, with TLS and a token for each sensor."
)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8090, show_default=True, help="Port of the server."
)
@click.option(
    "--settings", type=FILE, help="Further settings of the server (YAML), without listen, tokens and tls."
)
@click.option("--url", help="Use the service at this address instead of --server.")
@click.option("--token-file", type=FILE, help="With --url: token of the role `write`.")
@click.option("--ca", type=FILE, help="With --url: certificates to trust.")
@click.option("--site", help="Site of the hosts; hosts of a site probe each other.")
@click.option("--wait", metavar="TIME", default="3m", show_default=True, help="For all sensors to measure.")
@deploy_options
def deploy(
    *,
    request: DeployRequest,
    server: str | None,
    port: int,
    settings: Path | None,
    url: str | None,
    token_file: Path | None,
    ca: Path | None,
    site: str | None,
    wait: str,
) -> int:
    """Install, configure and start a sensor on each of HOSTS (alpha, node[01-08]) over your own ssh.

    With --server HOST also the server there. A second call changes differences only. Returns when all hosts measure.

    Exit codes: 0 done, 1 with --check a host differs, 2 usage, 5 a host failed.
    """
    from nws.base.durations import parse_duration
    from nws.service.configfile import load_config

    if (server is None) == (url is None):
        raise UsageError(
            "name the server's host with --server HOST, or a service that is there with --url URL"
        )
    hosts = request.names(server)
    wait_s = parse_duration(wait, what="--wait")
    if server is not None:
        if token_file or ca:
            raise UsageError("--token-file and --ca are for --url; --server makes its own")
        further = further_settings(settings, load_config, ("listen", "tokens", "tls"))
        phases = _with_server(hosts, server, port, further, site, forget=request.remove)
    else:
        assert url is not None
        phases = [_with_service(hosts, url, token_file, ca, site)]
    deployment = request.deployment()
    results = request.carry_out(deployment, phases)
    if server is not None and not request.check and not request.remove:
        _await_measurements(deployment, hosts, results, server, port, wait_s)
    return request.summary(results)


def _with_server(
    hosts: list[str], server: str, port: int, settings: dict[str, Any], site: str | None, *, forget: bool
) -> list[dict[str, tuple[DaemonRole, ...]]]:
    """Return the daemons of each host: first the server's, then the others."""
    from apples_deploy.authority import Authority

    authority = Authority(state_dir() / "deploy" / server)
    certificate = authority.certificate(list(dict.fromkeys([server, "localhost"])))
    tokens = {host: authority.secret(f"{host}{SENSOR_TOKEN}") for host in hosts}
    role = server_role(
        port=port,
        settings=settings,
        tokens=authority.secrets(SENSOR_TOKEN),
        admin=authority.secret("admin.token"),
        read=authority.secret("read.token"),
        certificate=certificate,
    )
    url = f"https://{server}:{port}"
    sensors: dict[str, tuple[DaemonRole, ...]] = {
        host: (sensor_role(host, url=url, token=tokens[host], authority=certificate.authority, site=site),)
        for host in hosts
    }
    if forget:
        for host in hosts:
            authority.forget(f"{host}{SENSOR_TOKEN}")
        if hosts and authority.secrets(SENSOR_TOKEN):
            # other hosts measure on
            return [sensors]
    return [{server: (role, *sensors.pop(server, ()))}, sensors]


def _with_service(
    hosts: list[str], url: str, token_file: Path | None, ca: Path | None, site: str | None
) -> dict[str, tuple[DaemonRole, ...]]:
    from nws.client.endpoint import Endpoint

    at = Endpoint.of(url, token_file=token_file, ca=ca)
    token = None if at.token is None else f"{at.token}\n"
    authority = None if ca is None else ca.read_text(encoding="utf-8")
    return {
        host: (sensor_role(host, url=at.url, token=token, authority=authority, site=site),) for host in hosts
    }


def _await_measurements(
    deployment: HostDeployment,
    hosts: list[str],
    results: list[HostResult],
    server: str,
    port: int,
    wait_s: float,
) -> None:
    """Ask the server until it has measurements of all hosts; raises `DeploymentFailed` with those that are missing."""

    plan = next(result.plan for result in results if result.host == server)
    assert plan is not None
    layout = plan.layout
    command = [f"{layout.bin}/nws", "show", "--hosts", "--json", "--server", f"https://{server}:{port}"]
    command += ["--token-file", layout.path(SERVER, "read.token")]
    command += ["--ca", layout.path(SERVER, "ca.pem")]
    until = time.monotonic() + wait_s
    while True:
        try:
            missing = not_measuring(hosts, json.loads(deployment.run(server, command, _ASK_S)))
            why = f"does not measure after {wait_s:g} s; see the log of nws-sensor there"
        except (HostCheckError, ValueError) as error:
            missing, why = [server], f"does not answer: {error}"
        if not missing:
            click.echo(f"· all of {len(hosts)} hosts measure", err=True)
            return
        if time.monotonic() > until:
            raise DeploymentFailed([f"{host}: {why}" for host in missing])
        time.sleep(_LOOK_S)
