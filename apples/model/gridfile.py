"""Grid files: the hosts a user allows, their links, and known costs of applications on them.

A grid file is YAML (schema in docs/configuration.md). It becomes an `apples.model.grid.Grid` and a `KnownApplication`
for each application in it (benchmarks, overhead, demands), so that a published system can be planned for without
measuring it. All errors are reported at once with file and line. The present load of the hosts is not part of the
file; the weather service measures it. Source of the entries: Wolski et al. 2000, §3.1, §4.1.

Names that clash or do not exist are looked for in the document as written, so that these problems are reported together
with wrong types and unknown keys. A value that is no mapping, list or text is left to the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from apples.errors import ConfigError
from apples.model.grid import Grid, Host, LinkRule
from apples.model.limits import Limits
from apples.model.template import Costs, Overhead, Workload
from nws.base.arguments import checked_arguments
from nws.base.cpulist import CpuList, overlaps
from nws.base.hostlist import expand
from nws.base.quantities import (
    SECONDS,
    Amount_bytes,
    Bandwidth_Bps,
    Count,
    Latency_s,
    Loss,
    Parsed,
    Within,
    without_units,
)
from nws.base.reader import Document, did_you_mean, read_yaml, validate
from nws.base.records import copied
from nws.base.yamltree import Location, Problem


def clashes(document: Document) -> list[Problem]:
    """Return empty pools, hosts named twice, sites named like hosts, links and benchmarks of unknown names."""
    return _Check(document).problems()


def addresses(text: str) -> list[str]:
    """Return the addresses of an entry: a bracket expression expanded, any other text unchanged.

    Raises `ConfigError`. An address may be an invalid host name (``user@alpha``, ``fe80::1``), but not a text that a
    command would take for an option.
    """
    if set("[],") & set(text):
        return list(expand(text))
    if not text or text.startswith("-") or any(c.isspace() for c in text):
        raise ConfigError(f"{text!r} is no address: it is empty, has a blank or begins with -")
    return [text]


class _Check:
    """A pass through one document that remembers the names it has seen, with their locations."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._hosts: dict[str, Location] = {}
        self._sites: dict[str, Location] = {}
        self._cpu_types: set[str] = set()

    def problems(self) -> list[Problem]:
        top = _mapping(self._document.value)
        problems_of_file = list(self._pool(top))
        problems_of_file += self._links(_mapping(top.get("links")))
        problems_of_file += self._applications(_mapping(top.get("applications")))
        return problems_of_file

    def _pool(self, top: Mapping[str, Any]) -> Iterator[Problem]:
        if top.get("hosts") == []:
            yield self._document.problem(
                ("hosts",), "no hosts; a grid needs one at least, such as - name: alpha"
            )
        for index, raw in enumerate(_sequence(top.get("hosts"))):
            at: Location = ("hosts", index)
            entry = _mapping(raw)
            for kind in _kinds(entry):
                self._cpu_types.add(str(entry.get("cpu_type", "default")) + kind)
            if isinstance(entry.get("site"), str):
                self._sites.setdefault(entry["site"], (*at, "site"))
            yield from self._names(entry, at)
            if "cpus" in entry and isinstance(entry.get("slots"), dict):
                yield self._document.problem((*at, "cpus"), "slots say the CPUs of each kind; leave out cpus")
        for site in self._sites.keys() & self._hosts.keys():
            line = self._document.tree.line(self._hosts[site])
            text = f"{site} is the name of a host as well (line {line}); give the site another name"
            yield self._document.problem(self._sites[site], text)

    def _names(self, entry: Mapping[str, Any], at: Location) -> Iterator[Problem]:
        names = yield from self._expanded(entry, (*at, "name"), expand)
        for name in names:
            if name in self._hosts:
                line = self._document.tree.line(self._hosts[name])
                text = f"host {name} stands in line {line} already; a host is listed once, its slots say how often"
                yield self._document.problem((*at, "name"), text)
            self._hosts |= {name + kind: (*at, "name") for kind in _kinds(entry) if name not in self._hosts}
        reached = yield from self._expanded(entry, (*at, "address"), addresses)
        if reached and names and len(reached) != len(names):
            text = f"{len(reached)} addresses for {len(names)} hosts; write a bracket expression of as many"
            yield self._document.problem((*at, "address"), text)

    def _expanded(
        self, entry: Mapping[str, Any], at: Location, read: Callable[[str], Sequence[str]]
    ) -> Generator[Problem, None, Sequence[str]]:
        """Yield problems and return the names; none where there is a problem."""
        text = entry.get(str(at[-1]))
        if not isinstance(text, str):
            return []
        try:
            return read(text)
        except ConfigError as error:
            for problem in error.problems:
                yield self._document.problem(at, problem)
            return []

    def _links(self, links: Mapping[str, Any]) -> Iterator[Problem]:
        known = [*self._hosts, *self._sites]
        seen: dict[tuple[str, ...], Location] = {}
        for index, raw in enumerate(_sequence(links.get("between"))):
            at: Location = ("links", "between", index, "ends")
            ends = [end for end in _sequence(_mapping(raw).get("ends")) if isinstance(end, str)]
            for end in ends:
                if end not in known:
                    text = f"{end} is no host and no site of this grid{did_you_mean(end, known)}"
                    legal = ", ".join(self._sites) or "none"
                    yield self._document.problem(at, f"{text}; sites are {legal}, hosts are under hosts")
            if len(ends) == 2 and ends[0] == ends[1] and ends[0] in self._hosts:
                text = f"both ends are the host {ends[0]}; a link joins two hosts, or a site with itself"
                yield self._document.problem(at, text)
            one_way = _mapping(raw).get("one_way") is True
            pair = (*ends, "one way") if one_way else tuple(sorted(ends))
            if pair in seen:
                line = self._document.tree.line(seen[pair])
                yield self._document.problem(at, f"this pair stands in line {line} already; keep one")
            seen.setdefault(pair, at)

    def _applications(self, applications: Mapping[str, Any]) -> Iterator[Problem]:
        for name, raw in applications.items():
            for cpu_type in _mapping(_mapping(raw).get("seconds_per_row")):
                if cpu_type not in self._cpu_types:
                    legal = ", ".join(sorted(self._cpu_types)) or "none"
                    text = f"no host has this CPU type{did_you_mean(cpu_type, self._cpu_types)}; hosts have {legal}"
                    yield self._document.problem(("applications", name, "seconds_per_row", cpu_type), text)


def _kinds(entry: Mapping[str, Any]) -> list[str]:
    """Return what the kinds of cores of an entry add to its name and its CPU type."""
    return [f".{kind}" for kind in _mapping(entry.get("slots"))] or [""]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class _Slots(Parsed):
    """A number of slots, or kind of cores → its CPUs, of which it has one slot each."""

    def parse(self, value: object) -> int | dict[str, tuple[int, ...]]:
        if not isinstance(value, dict):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"{value!r} is no number of slots; legal are whole numbers from 1, or kinds of cores"
                )
            return value
        kinds: dict[str, tuple[int, ...]] = {}
        for name, cpus in value.items():
            if not str(name).isidentifier():
                raise ValueError(
                    f"{name!r} is no name of a kind of cores; legal are letters and digits, as fast"
                )
            # A number of CPUs takes those that follow the kinds before.
            first = max((max(known) + 1 for known in kinds.values()), default=0)
            counted = type(cpus) is int and cpus > 0
            kinds[name] = CpuList().parse(f"{first}-{first + cpus - 1}" if counted else cpus)
        if not kinds or overlaps(kinds):
            raise ValueError(
                "a CPU of two kinds, or no kind; write as fast: 0-7, slow: 8-23, or fast: 8, slow: 16"
            )
        return kinds


class _RowTimes(Parsed):
    """Seconds for a row: one value, or ranks sharing the host → value."""

    def parse(self, value: object) -> dict[int, float]:
        table = value if isinstance(value, dict) else {"1": value}
        if not table:
            raise ValueError("no times; give one time, or a mapping of ranks on the host to times")
        times = {}
        for ranks, time in table.items():
            if not str(ranks).isdecimal() or int(ranks) < 1:
                raise ValueError(f"{ranks!r} is no number of ranks; legal are whole numbers from 1")
            times[int(ranks)] = SECONDS.parse(time)
        return times


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEntry:
    """Nominal latency (one way), bandwidth, and share of packets lost."""

    latency_s: Latency_s
    bandwidth_Bps: Bandwidth_Bps
    loss: Loss = 0.0


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class PairEntry(LinkEntry):
    """Nominal link between two ends, each a host or a site; a site with itself is the link within it.

    one_way : only from the first end to the second
    """

    ends: tuple[str, str]
    one_way: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksEntry:
    """All links: the default for any two hosts, and the pairs that differ."""

    default: LinkEntry | None = None
    between: tuple[PairEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """Demands of one run of the application, of any size; fields as in `apples.model.template.Workload`."""

    iterations: Count = 1
    messages: Annotated[int, Within(ge=0)] = 0
    bytes_exchanged: Amount_bytes = 0.0
    bytes_per_row: Amount_bytes = 0.0
    bytes_fixed: Amount_bytes = 0.0
    max_rows: Count | None = None
    min_rows: Count = 1
    row: str = "row"
    bytes_shared: Amount_bytes = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownApplication:
    """Stated costs of an application on these hosts, without measurements.

    seconds_per_row : CPU type → ranks on the host → seconds for one row and one iteration (BM)
    overhead : Over of the performance model.  demands : inputs of the model where no template gives them
    """

    seconds_per_row: dict[str, Annotated[dict[int, float], _RowTimes()]] = field(default_factory=dict)
    overhead: Overhead = field(default_factory=Overhead)
    demands: Demands | None = None

    @property
    def costs(self) -> Costs | None:
        """Return benchmarks and overhead; None if the file states no benchmark."""
        if not self.seconds_per_row:
            return None
        return Costs(seconds_per_row=self.seconds_per_row, overhead=self.overhead)


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class HostEntry(Host):
    """One host or several; `name` and `address` may be bracket expressions such as ``c[01-34]``.

    slots : their number, or kind of cores → its CPUs; each kind becomes a host of its own, such as ``alpha.fast``
    """

    slots: Annotated[int | dict[str, tuple[int, ...]], _Slots()] = 1  # type: ignore[assignment]

    def hosts(self) -> Iterator[Host]:
        """Yield the hosts."""
        names = expand(self.name)
        reached = [None] * len(names) if self.address is None else addresses(self.address)
        for name, address in zip(names, reached, strict=True):
            if isinstance(self.slots, int):
                yield copied(Host, self, name=name, address=address, slots=self.slots)
                continue
            memory, total = self.memory_bytes, sum(map(len, self.slots.values()))
            for kind, cpus in self.slots.items():
                yield copied(
                    Host,
                    self,
                    name=f"{name}.{kind}",
                    address=address or name,
                    slots=len(cpus),
                    cpus=cpus,
                    cpu_type=f"{self.cpu_type}.{kind}",
                    memory_bytes=None if memory is None else memory * len(cpus) / total,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class GridEntry:
    """A whole grid file."""

    name: str
    hosts: tuple[HostEntry, ...]
    links: LinksEntry = field(default_factory=LinksEntry)
    applications: dict[str, KnownApplication] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridFile:
    """A grid, the applications its file describes, and limits on the choice of its hosts."""

    grid: Grid
    applications: Mapping[str, KnownApplication]
    limits: Limits = field(default_factory=Limits)

    def workload(self, application: str, size: int) -> Workload | None:
        """Return the demands of a run of `size` rows; None if the file does not state them."""
        known = self.applications.get(application)
        if known is None or known.demands is None:
            return None
        return copied(Workload, known.demands, application=application, size=size)


@checked_arguments(ConfigError)
def load_grid(path: str | Path) -> Grid:
    """Return the hosts and links of a grid file; raises `ConfigError` with every problem of the file."""
    return load_grid_file(path).grid


def load_grid_file(path: str | Path) -> GridFile:
    """Return the parsed grid file; raises `ConfigError` with every problem of the file."""
    document = read_yaml(path)
    entry = validate(document, GridEntry, clashes(document))
    nominal = () if entry.links.default is None else (entry.links.default,)
    links = tuple(copied(LinkRule, rule) for rule in (*nominal, *entry.links.between))
    hosts = tuple(host for part in entry.hosts for host in part.hosts())
    grid = Grid(name=entry.name, hosts=hosts, links=links, source=str(path))
    unknown = entry.limits.unknown(hosts)
    if unknown:
        raise ConfigError(f"{path}:{document.tree.line(('limits',))}: {problem}" for problem in unknown)
    return GridFile(grid=grid, applications=entry.applications, limits=entry.limits)
