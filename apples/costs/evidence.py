"""Benchmarks of applications on slabs of one size: run once for each kind of machine, and kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from apples.applications.known import KnownByModel
from apples.learning.benchmarkstore import CalibrationStore
from apples.learning.growth import setup_of, with_growth
from apples.model.grid import Host
from apples.model.plan import Plan
from apples.model.template import Benchmark, Costs, Deployable, Overhead, Workload
from apples.platforms.platform import Platform
from apples.run.request import Benchmarks, RunRequest
from nws.base.ownpython import OWN_PYTHON

#: Slabs of other sizes are asked for this many powers of two to either side: caches hold others very differently.
_NEAR = 2

#: Rows of slabs within a tenth of a power of two of those of a benchmark cost the same; others lie between two.
_SAME = 0.1

#: Slabs of user's programs are looked for up to this power of two.
_LARGEST_EXPONENT = 32

#: Slabs of benchmarks are no larger than this, in bytes: beyond it no cache holds anything of the slab.
LARGEST_SLAB_BYTES = 400e6


class SlabBenchmarks:
    """Benchmarks of one request on one platform, on slabs of one size, and costs of slabs of similar ones.

    slab_rows : rows of the slabs whose costs are wanted; by default those of equal slabs on all slots
    rows : of the slabs of the benchmarks; by default the nearest size (`_class`)
    store : of the benchmarks.  stated : costs that are used for CPU types without a benchmark
    bytes_per_row : as measured; 0 if that is unknown
    """

    def __init__(
        self,
        store: CalibrationStore,
        platform: Platform,
        request: RunRequest,
        *,
        stated: Costs | None = None,
        slab_rows: float | None = None,
        rows: int | None = None,
        bytes_per_row: float = 0.0,
    ) -> None:
        self.store, self._stated = store, stated
        self.platform, self.request = platform, request
        equal = request.size / sum(host.slots for host in platform.pool.hosts)
        self.slab_rows = max(slab_rows or rows or equal, 1.0)
        self.rows = rows or _class(request, self.slab_rows, bytes_per_row)

    def of(self, slab_rows: float) -> SlabBenchmarks:
        """Return the benchmarks nearest to slabs of so many rows, for the same request and platform."""
        return SlabBenchmarks(
            self.store,
            self.platform,
            self.request,
            stated=self._stated,
            slab_rows=slab_rows,
            bytes_per_row=self._bytes_per_row(),
        )

    def sized(self, rows: int) -> SlabBenchmarks:
        """Return the benchmarks of slabs of exactly so many rows."""
        return SlabBenchmarks(self.store, self.platform, self.request, stated=self._stated, rows=rows)

    @property
    def key(self) -> str:
        """Return the key of benchmarks: the platform and all options that change the cost of a row."""
        template, settings = self.request.template, dict(sorted(self.request.settings.items()))
        # The first word is the interpreter's place, which costs nothing; iterations are not part of a benchmark.
        words = template.benchmark_command(Path("-"), settings, self.rows)
        if tuple(words[: len(OWN_PYTHON)]) == OWN_PYTHON:
            words = words[len(OWN_PYTHON) - 1 :]
        return f"{self.platform.name} {template.name} {' '.join(words[1:])}"

    def costs(self) -> tuple[Costs, Mapping[str, float]]:
        """Return benchmarks without corrections, and CPU type → time of its measurement (none that is stated)."""
        used = self._slabs_in_use()
        types = {host.cpu_type: self.platform.machine(host) for host in self._one_of_each_type()}
        kept = {cpu_type: self.store.get(used.key, machine) for cpu_type, machine in types.items()}
        since = {cpu_type: one.measured_at for cpu_type, one in kept.items() if one is not None}
        measured = self.store.costs(used.key, types)
        if measured is not None and self.platform.costs_vary_with_slab:
            near = {slabs.rows: self.store.costs(slabs.key, types) for slabs in used.near()}
            known = {rows: costs for rows, costs in near.items() if costs is not None}
            measured = replace(with_growth(measured, used.rows, known), start_row_cpu_s=self.setup_cpu_s()[1])
        return _completed(measured, self._stated), since

    def demands(self, workload: Workload) -> Workload:
        """Return the workload with the messages and the memory that short runs of a user's program have measured."""
        if not isinstance(self.request.template, Deployable):
            return workload
        found = self.in_use()
        sent = [b.messages for b in found if b.messages is not None]
        carried = [b.bytes_exchanged for b in found if b.bytes_exchanged is not None]
        return replace(
            workload,
            messages=max(sent, default=0.0) * workload.iterations,
            bytes_exchanged=max(carried, default=0.0) * workload.iterations,
            bytes_per_row=workload.bytes_per_row or max((b.bytes_per_row for b in found), default=0.0),
            bytes_fixed=max((b.bytes_fixed for b in found), default=0.0),
        )

    def by_type(self) -> dict[str, list[Benchmark]]:
        """Return CPU type → the benchmarks that are kept for this request, by ascending ranks."""
        key, machine = self._slabs_in_use().key, self.platform.machine
        kept = {h.cpu_type: self.store.get(key, machine(h)) for h in self.platform.pool.hosts}
        return {cpu_type: list(one.benchmarks) for cpu_type, one in kept.items() if one is not None}

    def setup_cpu_s(self) -> tuple[float, float]:
        """Return CPU seconds of a rank beside its iterations and those of each of its rows; 0 if they are unknown."""
        if not isinstance(self.request.template, Deployable):
            return 0.0, 0.0
        used = self._slabs_in_use()
        kept = {slabs.rows: slabs.kept() for slabs in (used, *used.near())}
        setups = {rows: max(b.setup_cpu_s for b in found) for rows, found in kept.items() if found}
        return setup_of(setups, self.slab_rows)

    def counted_each(self) -> float | None:
        """Return the iterations that the monitor counts for each of the program's; None if they are unknown."""
        found = reversed(self.in_use())
        return next((b.counted_each for b in found if b.counted_each is not None), None)

    def likely(self) -> list[SlabBenchmarks]:
        """Return the benchmarks of other slabs that plans of this size may have had, but for the second size."""
        second, bytes_per_row = self.second(), self._bytes_per_row()
        found = {self.rows} if second is None else {self.rows, second.rows}
        sizes = {_class(self.request, 2.0**e, bytes_per_row) for e in range(_LARGEST_EXPONENT)} - found
        return [self.sized(n) for n in sorted(sizes) if self.rows / 2 <= n < 2 * self.request.size]

    def like(self, plan: Plan) -> SlabBenchmarks:
        """Return the benchmarks of slabs like those of a plan.

        These themselves where rows cost the same in all slabs, and where slabs of another size were not
        measured and may not be measured now.
        """
        if not self.platform.costs_vary_with_slab:
            return self
        slabs = self.of(plan.typical_rows)
        return slabs if slabs.rows == self.rows or slabs._available() else self

    def second(self) -> SlabBenchmarks | None:
        """Return the benchmarks on the other side of these slabs, for the costs between; None if these are enough."""
        steps = math.log2(self.slab_rows / self.rows)
        if not self.platform.costs_vary_with_slab or abs(steps) < _SAME:
            return None
        found = self.of(self.rows * 2.0 ** math.copysign(1.0, steps))
        return None if found.rows == self.rows else found

    def near(self) -> list[SlabBenchmarks]:
        """Return the benchmarks of other slabs, of a quarter to four times these rows: caches hold them similarly."""
        bytes_per_row = self._bytes_per_row()
        steps = range(-_NEAR, _NEAR + 1)
        near = {_class(self.request, self.rows * 2.0**step, bytes_per_row) for step in steps}
        return [self.sized(rows) for rows in sorted(near - {self.rows})]

    def measurable(self) -> bool:
        """Return whether benchmarks may be run: of an application without a program only where none is started."""
        template, missing = self.request.template, self.request.benchmarks
        if isinstance(template, KnownByModel):
            return not self.platform.starts_programs
        return missing is Benchmarks.ALL or (
            missing is Benchmarks.BUILT_IN and not isinstance(template, Deployable)
        )

    def within_reach(self) -> list[Host]:
        """Return a host of each CPU type that has one where benchmarks can be run."""
        return [host for host in self._one_of_each_type() if self.platform.reaches(host)]

    def kept(self) -> list[Benchmark]:
        """Return the benchmarks that are kept for slabs of this size and machines of this platform."""
        machines = {self.platform.machine(host) for host in self.platform.pool.hosts}
        return [b for c in self.store.entries(self.key) if c.machine in machines for b in c.benchmarks]

    def in_use(self) -> list[Benchmark]:
        """Return the same for the slabs whose benchmarks are used: these, or the nearest that were measured."""
        return self._slabs_in_use().kept()

    def _slabs_in_use(self) -> SlabBenchmarks:
        """Return these, or those of the nearest size that were measured if these were not.

        Where the program may be started, those of this size are measured, and the others do not matter.
        """
        if not isinstance(self.request.template, Deployable) or self.measurable():
            return self
        classes = {_class(self.request, 2.0**e) for e in range(_LARGEST_EXPONENT)}
        nearest = sorted(classes, key=lambda rows: abs(math.log(rows / self.rows)))
        return next((slabs for slabs in map(self.sized, nearest) if slabs.kept()), self)

    def _bytes_per_row(self) -> float:
        """Return the memory of a row by the program's description or short runs; 0 if it is unknown."""
        return self.demands(
            self.request.template.workload(self.request.size, self.request.settings)
        ).bytes_per_row

    def _available(self) -> bool:
        """Return whether every CPU type has a benchmark of these slabs, or can have one."""
        key, machine, measurable = self.key, self.platform.machine, self.measurable()
        return all(
            (measurable and self.platform.reaches(host)) or self.store.get(key, machine(host)) is not None
            for host in self._one_of_each_type()
        )

    def _one_of_each_type(self) -> list[Host]:
        """Return the host with most slots of every CPU type, those within reach first."""
        best: dict[str, Host] = {}
        reaches = self.platform.reaches
        for host in self.platform.pool.hosts:
            rival = best.get(host.cpu_type)
            if rival is None or (reaches(host), host.slots) > (reaches(rival), rival.slots):
                best[host.cpu_type] = host
        return list(best.values())


def _completed(measured: Costs | None, stated: Costs | None) -> Costs:
    """Return measured costs, and the grid file's for CPU types without a benchmark."""
    if measured is None or stated is None:
        return measured or stated or Costs(seconds_per_row={})
    return replace(
        measured,
        seconds_per_row={**stated.seconds_per_row, **measured.seconds_per_row},
        overhead=measured.overhead if stated.overhead == Overhead() else stated.overhead,
    )


def _class(request: RunRequest, rows: float, bytes_per_row: float = 0.0) -> int:
    """Return rows of the slabs to benchmark for slabs of these: a power of two, within the limits.

    The cost of a row depends on the part of a slab that stays in the caches.

    bytes_per_row : as measured; 0 if that is unknown
    """
    workload = request.template.workload(request.size, request.settings)
    power = 2.0 ** max(round(math.log2(rows)), 0) if rows > 1 else 1.0
    if bytes_per_row := workload.bytes_per_row or bytes_per_row:
        power = min(power, LARGEST_SLAB_BYTES / bytes_per_row)
    return max(1, workload.min_rows, int(min(power, workload.max_rows or power)))
