"""The user's settings of a source of measurements; checked when they are made, before any query.

Plain records without heavy imports: the settings of the service include them. Nothing is read here; a password or
token that other users may read is refused when it is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from nws.base.durations import Period_s
from nws.base.errors import ConfigError, UsageError
from nws.base.quantities import without_units
from nws.client.endpoint import checked_url
from nws.series import HOST_NAME, HOST_NAME_LEGAL

#: Shortest and longest times that make sense, seconds.
_SHORTEST_S, _LONGEST_S = 0.1, 86400.0


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """A Prometheus server that scrapes node_exporter; raises `ConfigError` with every error.

    url : address, with its path if it has one.  every_s : seconds between readings
    hosts : instance (``10.0.0.1:9100``) → name of the host, no others are read; empty: every instance, named
        by its address without port
    match : label matchers that narrow every query, such as ``job="node"``
    over_s : CPU rates are means over this many seconds, at least two scrapes; None: between the two newest scrapes
    nice_counts : whether niced processes yield to those of other sessions: they do where the kernel does not group
        sessions (``sysctl kernel.sched_autogroup_enabled`` is 0) and no cgroups with CPU weights do
    timeout_s : for making a connection, and for each pause in an answer
    token_file : file with a bearer token.  user, password_file : for basic authentication instead
    ca : certificates for an https server instead of the system's
    """

    url: str
    every_s: Period_s = 30.0
    hosts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    match: str = ""
    over_s: Period_s | None = None
    nice_counts: bool = False
    timeout_s: Period_s = 5.0
    token_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    ca: Path | None = None

    def __post_init__(self) -> None:
        problems, who = [], "prometheus"
        try:
            object.__setattr__(self, "url", checked_url(self.url))
            who = f"prometheus {self.url}"
        except UsageError as error:
            problems.append(f"url: {error}")
        for name in ("every_s", "over_s", "timeout_s"):
            value = getattr(self, name)
            if value is not None and not _SHORTEST_S <= value <= _LONGEST_S:
                problems.append(f"{name}: expected {_SHORTEST_S:g} to {_LONGEST_S:g} seconds; got {value:g}")
        if (self.user is None) != (self.password_file is None):
            problems.append("user and password_file belong together; set both or none")
        if self.token_file is not None and self.user is not None:
            problems.append("token_file and user exclude each other; keep one")
        if self.user is not None and (not self.user or ":" in self.user):
            problems.append(f"user: expected a name without a colon; got {self.user!r}")
        if any(c in self.match for c in "{}"):
            problems.append(
                f'match: expected label matchers without braces, such as job="node"; got {self.match!r}'
            )
        twice = sorted({name for name in self.hosts.values() if list(self.hosts.values()).count(name) > 1})
        if twice:
            problems.append(f"hosts: two instances are called {', '.join(twice)}; one host has one instance")
        for instance, host in self.hosts.items():
            if not HOST_NAME.fullmatch(host):
                problems.append(
                    f"hosts: {instance} is called {host!r}, which is not a host name; legal are {HOST_NAME_LEGAL}"
                )
        if problems:
            raise ConfigError(f"{who}: {problem}" for problem in problems)
