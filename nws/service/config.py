"""What the user of a weather service sets, with every default.

Plain records: made from a file by `nws.service.configfile`, or in a program by keyword. Sizes in bytes, times in
seconds. Decides nothing; what a limit means is said beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from nws.memory import Keep
from nws.sources.settings import PrometheusSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where the service listens. `port`: 0 lets the system choose."""

    host: str = "127.0.0.1"
    port: int = 8090

    @property
    def loopback(self) -> bool:
        """Whether only programs of this host can reach it."""
        return self.host == "localhost" or self.host == "::1" or self.host.startswith("127.")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFiles:
    """Files with one bearer token each, by role."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    admin: tuple[Path, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.read or self.write or self.admin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificate (with its chain) and key, in PEM form."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what clients can ask of the service.

    body_bytes : of one request.  requests_per_minute : of one client.  hosts : that may register
    series_per_host : that one host may have, pairs counted at the host that measures them
    ahead_s : how far a sample's time may be ahead of the service's clock
    streams_per_host : numbered streams remembered of one host; the oldest are forgotten
    composed_pairs : most pairs that one snapshot composes
    """

    body_bytes: int = 4_000_000
    requests_per_minute: int = 1200
    series_per_host: int = 5000
    hosts: int = 5000
    ahead_s: float = 7200.0
    streams_per_host: int = 16
    composed_pairs: int = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """How often sensors measure their CPU and memory, and deliver; seconds."""

    cpu_s: float = 10.0
    memory_s: float = 10.0
    deliver_s: float = 10.0

    def as_json(self) -> dict[str, float]:
        """JSON-ready document."""
        return {"cpu": self.cpu_s, "memory": self.memory_s, "deliver": self.deliver_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class CliqueConfig:
    """Hosts among which every pair is measured. every_s : time in which each has had its turn; None: often."""

    members: tuple[str, ...]
    every_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """Everything that can be set; without arguments, a service for one's own machine.

    grid : name shown.  store : file of the memory, None for the default
    frame_s, guard_s : frame of the measuring schedule, and what is left free at the ends of each turn
    lost_after_s : a host not heard of for so long is lost
    sites : site of hosts, before what their sensors say
    keep : how long samples, roll-ups and (as long as the last of them) events are kept
    cliques : by name; None makes them from the registered hosts and their sites, of at most `clique_most`
    """

    grid: str = "grid"
    listen: Listen = Listen()
    store: Path | None = None
    tokens: TokenFiles = TokenFiles()
    tls: Tls | None = None
    keep: Keep = field(default_factory=Keep)
    limits: Limits = Limits()
    every: Every = Every()
    frame_s: float = 4.0
    guard_s: float = 0.1
    clique_most: int = 16
    lost_after_s: float = 45.0
    sites: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cliques: Mapping[str, CliqueConfig] | None = None
    prometheus: tuple[PrometheusSettings, ...] = ()
