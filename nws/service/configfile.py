"""The settings file of a weather service: YAML, all mistakes reported at once with file and line.

`load_config` reads it; paths in it are relative to the file. The keys are described in docs/weather-service.md.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from nws.base.durations import Period_s
from nws.base.errors import ConfigError
from nws.base.quantities import Count, Memory_bytes
from nws.base.reader import Document, read_yaml, validate
from nws.base.yamltree import Location, Problem
from nws.memory import Keep
from nws.series import HOST_NAME_LEGAL, is_host_name
from nws.service.serviceconfig import CliqueConfig, Every, Limits, Listen, ServiceConfig, Tls, TokenFiles
from nws.sources.prometheussettings import PrometheusSettings

T = TypeVar("T")

_DEFAULT = ServiceConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEntry:
    """Section `tokens`: files by role."""

    read: list[str] = field(default_factory=list)
    write: list[str] = field(default_factory=list)
    admin: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsEntry:
    """Section `tls`."""

    certificate: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepEntry:
    """Section `keep`."""

    samples: Period_s = _DEFAULT.keep.samples_s
    minutes: Period_s = _DEFAULT.keep.minutes_s
    ten_minutes: Period_s = _DEFAULT.keep.ten_minutes_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsEntry:
    """Section `limits`."""

    body: Memory_bytes = float(_DEFAULT.limits.body_bytes)
    requests_per_minute: Count = _DEFAULT.limits.requests_per_minute
    series_per_host: Count = _DEFAULT.limits.series_per_host
    hosts: Count = _DEFAULT.limits.hosts
    ahead: Period_s = _DEFAULT.limits.ahead_s
    streams_per_host: Count = _DEFAULT.limits.streams_per_host
    composed_pairs: Count = _DEFAULT.limits.composed_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryEntry:
    """Section `every`."""

    cpu: Period_s = _DEFAULT.every.cpu_s
    memory: Period_s = _DEFAULT.every.memory_s
    deliver: Period_s = _DEFAULT.every.deliver_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CliqueEntry:
    """One entry of `cliques`."""

    members: list[str]
    every: Period_s | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusEntry:
    """One entry of `prometheus`."""

    url: str
    every: Period_s = 30.0
    hosts: dict[str, str] = field(default_factory=dict)
    match: str = ""
    over: Period_s | None = None
    nice_counts: bool = False
    timeout: Period_s = 5.0
    token_file: str | None = None
    user: str | None = None
    password_file: str | None = None
    ca: str | None = None

    def settings(self, folder: Path) -> PrometheusSettings:
        """Return the settings with paths relative to `folder`; raises `ConfigError` with all problems."""

        def at(path: str | None) -> Path | None:
            return None if path is None else folder / Path(path).expanduser()

        return PrometheusSettings(
            url=self.url,
            every_s=self.every,
            hosts=self.hosts,
            match=self.match,
            over_s=self.over,
            nice_counts=self.nice_counts,
            timeout_s=self.timeout,
            token_file=at(self.token_file),
            user=self.user,
            password_file=at(self.password_file),
            ca=at(self.ca),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEntry:
    """The complete file."""

    grid: str = _DEFAULT.grid
    listen: str = str(_DEFAULT.listen)
    store: str | None = None
    tokens: TokenEntry = TokenEntry()
    tls: TlsEntry | None = None
    keep: KeepEntry = KeepEntry()
    limits: LimitsEntry = LimitsEntry()
    every: EveryEntry = EveryEntry()
    frame: Period_s = _DEFAULT.frame_s
    guard: Period_s = _DEFAULT.guard_s
    clique_most: Count = _DEFAULT.clique_most
    lost_after: Period_s = _DEFAULT.lost_after_s
    sites: dict[str, list[str]] = field(default_factory=dict)
    cliques: dict[str, CliqueEntry] | None = None
    prometheus: list[PrometheusEntry] = field(default_factory=list)


def load_config(path: Path | str) -> ServiceConfig:
    """Return the settings in a file; raises `ConfigError` with all problems, one line each."""
    document = read_yaml(path)
    entry = validate(document, ServiceEntry)
    problems = list(_problems(document, entry))
    if problems:
        document.fail(problems)
    return _config(entry, Path(path).absolute().parent)


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


def _problems(document: Document, entry: ServiceEntry) -> Iterator[Problem]:
    """Yield the problems that involve more than one key or more than its type."""
    try:
        parse_listen(entry.listen)
    except ConfigError as error:
        yield document.problem(("listen",), str(error).partition(": ")[2])
    if not entry.grid.strip() or len(entry.grid) > 80:
        yield document.problem(("grid",), f"should be a name of 1 to 80 characters; got {entry.grid!r}")
    if not entry.keep.samples <= entry.keep.minutes <= entry.keep.ten_minutes:
        yield document.problem(
            ("keep",), "the periods of samples, minutes and ten_minutes should increase in this order"
        )
    for name in ("cpu", "memory", "deliver"):
        period_s = getattr(entry.every, name)
        if not 0.1 <= period_s <= 86400:
            yield document.problem(("every", name), f"should be 0.1 s to 1 d; got {period_s:g} s")
    if entry.lost_after < 2 * entry.every.deliver:
        yield document.problem(
            ("lost_after",),
            f"should be at least twice every.deliver ({entry.every.deliver:g} s), or hosts are lost between "
            f"deliveries; got {entry.lost_after:g} s",
        )
    if not 4 * entry.guard <= entry.frame <= 3600:
        yield document.problem(
            ("frame",),
            f"should be at least four times guard ({entry.guard:g} s) and at most an hour; got {entry.frame:g} s",
        )
    if not 2 <= entry.clique_most <= 64:
        yield document.problem(("clique_most",), f"should be 2 to 64; got {entry.clique_most}")
    yield from _host_problems(document, entry)
    for i, source in enumerate(entry.prometheus):
        try:
            source.settings(Path())
        except ConfigError as error:
            for problem in error.problems:
                # file and line identify the source
                yield document.problem(("prometheus", i), problem.partition(": ")[2])


def _host_problems(document: Document, entry: ServiceEntry) -> Iterator[Problem]:
    site_of: dict[str, str] = {}
    for site, hosts in entry.sites.items():
        for i, host in enumerate(hosts):
            at: Location = ("sites", site, i)
            yield from _name_problems(document, at, host)
            if host in site_of:
                yield document.problem(at, f"host {host} is at site {site_of[host]} already; keep one")
            site_of[host] = site
    for name, clique in (entry.cliques or {}).items():
        at = ("cliques", name, "members")
        if not is_host_name(name):
            yield document.problem(("cliques", name), f"{name!r} is not a name; legal are {HOST_NAME_LEGAL}")
        if len(set(clique.members)) < 2:
            yield document.problem(at, "a clique has at least two hosts; leave a clique of one out")
        for i, host in enumerate(clique.members):
            yield from _name_problems(document, (*at, i), host)
            if host in clique.members[:i]:
                yield document.problem((*at, i), f"host {host} is in this clique already; keep one")


def _name_problems(document: Document, at: Location, name: str) -> Iterator[Problem]:
    if not is_host_name(name):
        yield document.problem(at, f"{name!r} is not a host name; legal are {HOST_NAME_LEGAL}")


def _config(entry: ServiceEntry, folder: Path) -> ServiceConfig:
    def at(path: str) -> Path:
        return folder / Path(path).expanduser()

    def seconds(part: Any, kind: type[T]) -> T:
        """Return a record of `kind` from an entry; its field names have `_s` appended."""
        return kind(**{f"{f.name}_s": getattr(part, f.name) for f in dataclasses.fields(part)})

    limits = entry.limits
    sites: Mapping[str, str] = {host: site for site, hosts in entry.sites.items() for host in hosts}
    return ServiceConfig(
        grid=entry.grid,
        listen=parse_listen(entry.listen),
        store=None if entry.store is None else at(entry.store),
        tokens=TokenFiles(
            read=tuple(map(at, entry.tokens.read)),
            write=tuple(map(at, entry.tokens.write)),
            admin=tuple(map(at, entry.tokens.admin)),
        ),
        tls=None if entry.tls is None else Tls(certificate=at(entry.tls.certificate), key=at(entry.tls.key)),
        keep=seconds(entry.keep, Keep),
        limits=Limits(
            body_bytes=int(limits.body),
            requests_per_minute=limits.requests_per_minute,
            series_per_host=limits.series_per_host,
            hosts=limits.hosts,
            ahead_s=limits.ahead,
            streams_per_host=limits.streams_per_host,
            composed_pairs=limits.composed_pairs,
        ),
        every=seconds(entry.every, Every),
        frame_s=entry.frame,
        guard_s=entry.guard,
        clique_most=entry.clique_most,
        lost_after_s=entry.lost_after,
        sites=sites,
        cliques=None
        if entry.cliques is None
        else {
            name: CliqueConfig(members=tuple(c.members), every_s=c.every) for name, c in entry.cliques.items()
        },
        prometheus=tuple(p.settings(folder) for p in entry.prometheus),
    )
