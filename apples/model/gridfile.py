"""Grid files: the hosts a user allows, their links, and known costs of applications on them.

A grid file is YAML (schema in docs/configuration.md). It becomes an `apples.model.grid.Grid` and a `KnownApplication`
for each application in it (benchmarks, overhead, demands), so that a published system can be planned for without
measuring it. All errors are reported at once with file and line. The present load of the hosts is not part of the
file; the weather service measures it. Source of the entries: Wolski et al. 2000, §3.1, §4.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from apples.errors import ConfigError
from apples.model.grid import Grid, Host, LinkRule
from apples.model.gridcheck import addresses, clashes
from apples.model.limits import Limits
from apples.model.template import Costs, Overhead, Workload
from nws.base.hostlist import expand
from nws.base.quantities import (
    SECONDS,
    Amount_bytes,
    Bandwidth_Bps,
    Count,
    Latency_s,
    Loss,
    Memory_bytes,
    WholeNumber,
)
from nws.base.reader import read_yaml, validate

if TYPE_CHECKING:
    from pydantic_core.core_schema import CoreSchema


@dataclass(frozen=True, slots=True)
class _RowTimes:
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

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.parse)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEntry:
    """One host, or several alike: `name` and `address` may be bracket expressions such as ``c[01-34]``."""

    name: str
    slots: Count = 1
    cpu_type: str = "default"
    site: str | None = None
    address: str | None = None
    memory: Memory_bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEntry:
    """Nominal latency (one way), bandwidth, and share of packets lost."""

    latency: Latency_s
    bandwidth: Bandwidth_Bps
    loss: Loss = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEntry:
    """Nominal link between two ends, each a host or a site; a site with itself is the link within it.

    one_way : only from the first end to the second
    """

    ends: tuple[str, str]
    latency: Latency_s
    bandwidth: Bandwidth_Bps
    loss: Loss = 0.0
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
    messages: Annotated[int, WholeNumber(0)] = 0
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
        demands = known.demands
        return Workload(
            application=application,
            size=size,
            iterations=demands.iterations,
            messages=demands.messages,
            bytes_exchanged=demands.bytes_exchanged,
            bytes_per_row=demands.bytes_per_row,
            bytes_fixed=demands.bytes_fixed,
            max_rows=demands.max_rows,
            min_rows=demands.min_rows,
            row=demands.row,
            bytes_shared=demands.bytes_shared,
        )


def load_grid(path: str | Path) -> Grid:
    """Return the hosts and links of a grid file; raises `ConfigError` with every problem of the file."""
    return load_grid_file(path).grid


def load_grid_file(path: str | Path) -> GridFile:
    """Return the parsed grid file; raises `ConfigError` with every problem of the file."""
    document = read_yaml(path)
    entry = validate(document, GridEntry, clashes(document))
    links = [
        LinkRule(
            ends=(p.ends[0], p.ends[1]),
            latency_s=p.latency,
            bandwidth_Bps=p.bandwidth,
            loss=p.loss,
            one_way=p.one_way,
        )
        for p in entry.links.between
    ]
    if entry.links.default is not None:
        default = entry.links.default
        nominal = LinkRule(latency_s=default.latency, bandwidth_Bps=default.bandwidth, loss=default.loss)
        links.insert(0, nominal)
    hosts = tuple(host for part in entry.hosts for host in _hosts(part))
    grid = Grid(name=entry.name, hosts=hosts, links=tuple(links), source=str(path))
    unknown = entry.limits.unknown(hosts)
    if unknown:
        raise ConfigError(f"{path}:{document.tree.line(('limits',))}: {problem}" for problem in unknown)
    return GridFile(grid=grid, applications=entry.applications, limits=entry.limits)


def _hosts(entry: HostEntry) -> Iterator[Host]:
    names = expand(entry.name)
    reached = [None] * len(names) if entry.address is None else addresses(entry.address)
    for name, address in zip(names, reached, strict=True):
        yield Host(
            name=name,
            slots=entry.slots,
            cpu_type=entry.cpu_type,
            site=entry.site,
            address=address,
            memory_bytes=entry.memory,
        )
