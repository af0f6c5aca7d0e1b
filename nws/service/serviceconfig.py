"""The settings of a weather service, with every default.

Plain records, read from a file by `nws.service.configfile` or built in a program by keyword arguments. Sizes are in
bytes, times in seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal
from urllib.parse import urlsplit

from nws.base.durations import Period_s
from nws.base.errors import ConfigError
from nws.base.quantities import Count, Memory_bytes, ReadFrom, without_units
from nws.memory import Keep
from nws.sources.prometheussettings import PrometheusSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """The address of the service. `port`: 0 lets the system choose."""

    host: str = "127.0.0.1"
    port: int = 8090

    @property
    def loopback(self) -> bool:
        """Return whether only programs of this host can connect."""
        return self.host == "localhost" or self.host == "::1" or self.host.startswith("127.")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen(text: str) -> Listen:
    """Return the address in ``HOST:PORT``, ``[::1]:PORT`` or ``:PORT`` (loopback); raises `ConfigError`."""
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
        host = parts.hostname or "127.0.0.1"
        plain = not (parts.path or parts.query or parts.fragment or "@" in parts.netloc)
    except ValueError:
        port, host, plain = None, "", False
    if port is None or not plain or any(c.isspace() for c in text):
        raise ConfigError(
            f"listen {text!r}: expected HOST:PORT, such as 127.0.0.1:8090 or [::1]:8090, with a port of 0 to 65535"
        )
    return Listen(host=host, port=port)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFiles:
    """Files with one bearer token each, by role."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    admin: tuple[Path, ...] = ()

    def __bool__(self) -> bool:
        """Return whether any token file is set."""
        return bool(self.read or self.write or self.admin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificate (with its chain) and key, in PEM form."""

    certificate: Path
    key: Path


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on clients' requests and data.

    body_bytes: per request.  requests_per_minute: per client.  hosts: that may register
    series_per_host: a pair counts for the host that measures it
    ahead_s: maximum lead of a sample's time over the service's clock
    streams_per_host: numbered streams remembered per host; the oldest are dropped
    composed_pairs: maximum number of pairs composed for one snapshot
    """

    body_bytes: Annotated[int, ReadFrom(int, Memory_bytes)] = 4_000_000
    requests_per_minute: Count = 1200
    series_per_host: Count = 5000
    hosts: Count = 5000
    ahead_s: Period_s = 7200.0
    streams_per_host: Count = 16
    composed_pairs: Count = 20_000


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Periods in seconds at which sensors measure CPU and memory, and deliver."""

    cpu_s: Period_s = 10.0
    memory_s: Period_s = 10.0
    deliver_s: Period_s = 10.0

    def as_json(self) -> dict[Literal["cpu", "memory", "deliver"], float]:
        """Return a JSON-ready document."""
        return {"cpu": self.cpu_s, "memory": self.memory_s, "deliver": self.deliver_s}


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class CliqueConfig:
    """Hosts among which every pair is measured.

    every_s: period in which each pair is probed once; None: as often as possible
    """

    members: tuple[str, ...]
    every_s: Period_s | None = None


def _site_of(hosts_by_site: Mapping[str, list[str]]) -> Mapping[str, str]:
    return {host: site for site, hosts in hosts_by_site.items() for host in hosts}


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """All settings; without arguments, a service for this machine only.

    grid: displayed name.  store: file of the memory, None for the default
    frame_s, guard_s: frame of the measuring schedule, and the time left free at both ends of each slot
    lost_after_s: a host without contact for longer is lost
    sites: site by host; takes precedence over the sensors' values
    keep: retention of samples, roll-ups and (as long as the longest of them) events
    cliques: by name; None builds them from the registered hosts and their sites, each of at most `clique_most`
    hosts
    """

    grid: str = "grid"
    listen: Annotated[Listen, ReadFrom(parse_listen, named=True)] = Listen()
    store: Path | None = None
    tokens: TokenFiles = TokenFiles()
    tls: Tls | None = None
    keep: Keep = field(default_factory=Keep)
    limits: Limits = Limits()
    every: Every = Every()
    frame_s: Period_s = 4.0
    guard_s: Period_s = 0.1
    clique_most: Count = 16
    lost_after_s: Period_s = 45.0
    sites: Annotated[Mapping[str, str], ReadFrom(_site_of, dict[str, list[str]])] = field(
        default_factory=lambda: MappingProxyType({})
    )
    cliques: Mapping[str, CliqueConfig] | None = None
    prometheus: tuple[Annotated[PrometheusSettings, ReadFrom(entry=PrometheusSettings, named=True)], ...] = ()
