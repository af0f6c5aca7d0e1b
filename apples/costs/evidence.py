"""Evidence: all that is known about the costs of one request on one platform, listed and read once.

`load` reads benchmarks and finished runs of all slab sizes in two queries. `apples.costs.costs` prices with them, and
`apples.costs.benchmark` adds the benchmarks that are missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from apples.costs.growth import startup_overhead
from apples.costs.runs import TrainingRun
from apples.costs.store import History, MeasuredBenchmarks
from apples.model.grid import Host
from apples.model.plan import Plan
from apples.model.runrequest import Benchmarks, RunRequest
from apples.model.template import Benchmark, Costs, Workload
from apples.platforms.platform import Platform
from nws.base.sealed import fingerprint

#: Slabs of other sizes are used for this many powers of two to either side: caches hold others very differently.
_NEAR = 2

#: Slabs of benchmarks are no larger than this, in bytes: beyond it no cache holds anything of the slab.
LARGEST_SLAB_BYTES = 400e6


class Slab(NamedTuple):
    """Slabs whose costs are in question. rows : of the slabs of the benchmarks.  height : rows of the slabs"""

    rows: int
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known about one request on one platform.

    key : platform, application, and all options that change the cost of a row.  pool : name of the grid
    workload : demands of the run by the program's description
    equal_height : rows of equal slabs on all slots
    hosts, machines : CPU type → host with most slots, preferably within reach; its kind of machine
    reachable : CPU types of which a host can be measured; none if no benchmark may be run
    sized : costs are those of the size of the run
    measurable : benchmarks may be run.  by_slab : the cost of a row depends on the size of its slab
    benchmarks : rows of a slab → CPU type → benchmarks.  tables : the same as costs
    runs : rows of a slab → finished runs, oldest first
    stated : costs that are used for CPU types without a benchmark
    """

    key: str
    pool: str
    workload: Workload
    equal_height: float
    hosts: Mapping[str, Host]
    machines: Mapping[str, str]
    reachable: frozenset[str]
    sized: bool
    measurable: bool
    by_slab: bool
    runs: Mapping[int, Sequence[TrainingRun]]
    stated: Costs | None = None
    benchmarks: Mapping[int, Mapping[str, MeasuredBenchmarks]] = field(default_factory=dict)
    tables: Mapping[int, Costs] = field(default_factory=dict)

    @property
    def record_key(self) -> str:
        """Return the key of records: runs of the same program on the same grid are the best evidence."""
        return _record_key(self.key, self.pool)

    @property
    def bytes_per_row(self) -> float:
        """Return the memory of a row by the program's description or short runs; 0 if it is unknown."""
        measured = (b.bytes_per_row for table in self.benchmarks.values() for b in _all(table.values()))
        return self.workload.bytes_per_row or max(measured, default=0.0)

    def observed_s(self, plan: Plan, iterations: float) -> float | None:
        """Return wall seconds of the newest run with the pieces of a plan and so many iterations; None without one."""
        runs = (
            run
            for runs in self.runs.values()
            for run in runs
            if (run.size, run.iterations) == (plan.size, iterations)
            and sorted((one.host, one.rows) for one in run.ranks) == sorted(plan.pieces)
        )
        newest = max(runs, key=lambda run: run.started_at, default=None)
        return None if newest is None else newest.wall_s

    def with_benchmarks(self, benchmarks: Mapping[int, Mapping[str, MeasuredBenchmarks]]) -> Evidence:
        """Return the evidence with these benchmarks, by rows and kind of machine."""
        by_type = {
            rows: {t: table[machine] for t, machine in self.machines.items() if machine in table}
            for rows, table in benchmarks.items()
        }
        by_type = {rows: table for rows, table in by_type.items() if table}
        tables = {rows: _costs(table) for rows, table in by_type.items()}
        return replace(self, benchmarks=by_type, tables=tables)

    def slab(self, height: float | None = None) -> Slab:
        """Return the slabs of so many rows, by default equal ones, with the size that is measured for them.

        The cost of a row depends on the part of a slab that stays in the caches. So that is a power of two, within the
        limits.
        """
        height = max(height or self.equal_height, 1.0)
        if self.sized:
            return Slab(rows=self.workload.size, height=height)
        power = 2.0 ** max(round(math.log2(height)), 0)
        if bytes_per_row := self.bytes_per_row:
            power = min(power, LARGEST_SLAB_BYTES / bytes_per_row)
        work = self.workload
        return Slab(rows=max(1, work.min_rows, int(min(power, work.max_rows or power))), height=height)

    def in_use(self, slab: Slab) -> int:
        """Return the size whose benchmarks are used: that of the slabs, or the nearest that was measured.

        Where benchmarks may be run, the size itself is measured, and the others do not matter.
        """
        if self.measurable or not self.benchmarks:
            return slab.rows
        return min(self.benchmarks, key=lambda rows: (abs(math.log(rows / slab.rows)), rows))

    def near(self, rows: int) -> list[int]:
        """Return the other sizes with evidence, of a quarter to four times these rows: caches hold them similarly."""
        if not self.by_slab:
            return []
        sizes = sorted({*self.benchmarks, *self.runs} - {rows})
        return [n for n in sizes if abs(math.log2(n / rows)) < _NEAR + 0.5]

    def used_benchmarks(self, slab: Slab) -> list[Benchmark]:
        """Return the benchmarks that are used for slabs."""
        return _all(self.benchmarks.get(self.in_use(slab), {}).values())

    def available(self, slab: Slab) -> bool:
        """Return whether each CPU type has a benchmark of these slabs, or can have one."""
        return self.machines.keys() <= self.reachable | self.benchmarks.get(slab.rows, {}).keys()


def load(platform: Platform, request: RunRequest, history: History, stated: Costs | None = None) -> Evidence:
    """Return all that is known about the costs of a request on the present pool of a platform.

    stated : costs that a grid file states.  Raises `HistoryError` if nothing can be read.
    """
    hosts: dict[str, Host] = {}
    for host in platform.pool.hosts:
        rival = hosts.get(host.cpu_type)
        if rival is None or (platform.reaches(host), host.slots) > (platform.reaches(rival), rival.slots):
            hosts[host.cpu_type] = host
    key, measurable = _key(platform, request), _measurable(platform, request)
    evidence = Evidence(
        key=key,
        pool=platform.pool.name,
        workload=request.template.workload(request.size, request.settings),
        equal_height=request.size / sum(host.slots for host in platform.pool.hosts),
        hosts=hosts,
        machines={cpu_type: platform.machine(host) for cpu_type, host in hosts.items()},
        reachable=frozenset(t for t, host in hosts.items() if measurable and platform.reaches(host)),
        sized=request.template.sized,
        measurable=measurable,
        by_slab=platform.costs_vary_with_slab and not request.template.sized,
        runs=history.training_runs(_record_key(key, platform.pool.name)),
        stated=stated,
    )
    return evidence.with_benchmarks(history.benchmarks(key))


def _key(platform: Platform, request: RunRequest) -> str:
    template = request.template
    return f"{platform.name} {template.name} {fingerprint(template.price_key(request.settings))}"


def _record_key(key: str, pool: str) -> str:
    return f"{key} on {pool}"


def _measurable(platform: Platform, request: RunRequest) -> bool:
    """Return whether benchmarks may be run: of an application without a program only where none is started."""
    template, missing = request.template, request.benchmarks
    if template.start is None:
        return not platform.starts_programs
    return missing is Benchmarks.ALL or (missing is Benchmarks.BUILT_IN and not template.measured_by_monitor)


def _costs(table: Mapping[str, MeasuredBenchmarks]) -> Costs:
    """Return benchmarks as costs, with the overhead of their start-up. table : by CPU type"""
    benchmarks = _all(table.values())
    handled = (b.message_cpu_s for b in benchmarks if b.message_cpu_s is not None)
    return Costs(
        seconds_per_row={t: {b.ranks: b.seconds_per_row for b in of.benchmarks} for t, of in table.items()},
        overhead=startup_overhead(benchmarks),
        message_cpu_s=max(handled, default=0.0),
    )


def _all(measured: Iterable[MeasuredBenchmarks]) -> list[Benchmark]:
    return [b for of in measured for b in of.benchmarks]
