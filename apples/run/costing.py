"""The costs of a run: benchmarks measured once and kept, then corrected by every finished run.

The order of precedence: benchmarks of this very request, options and kind of machine; if there are none and none can be
made, the grid file's values. Overhead is fitted to the history, starting from launches of the benchmark (or the grid
file). The mathematics is in `apples.learning`; here it meets the platform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from apples.applications.known import KnownByModel
from apples.errors import ConfigError
from apples.launching.launcher import Notify
from apples.learning.benchmarkstore import CalibrationStore
from apples.learning.corrections import correct, outdated
from apples.learning.history import History
from apples.learning.learnedcosts import learned_costs
from apples.learning.runs import TrainingRuns
from apples.model.grid import Host
from apples.model.plan import Plan, Record
from apples.model.template import Benchmark, BenchmarkRequest, Costs, Deployable, Overhead, Workload
from apples.platforms.platform import Platform
from apples.run.request import RunRequest

#: Records that teach one prediction; older ones have lost their weight anyway. Fewer of slabs of each other size.
_NEWEST, _NEWEST_OTHERS = 200, 50

#: Slabs of other sizes are asked for this many powers of two to either side; caches hold others very differently.
_NEAR = 2

#: Slabs of user's programs are looked for up to this power of two.
_LARGEST_EXPONENT = 32

#: Slabs of benchmarks are no larger than this, in bytes: beyond it no cache holds anything of the slab.
LARGEST_SLAB_BYTES = 400e6


class Costing:
    """Kept costs of applications.

    stated : costs a grid file states, by application; they are used where nothing was measured
    """

    def __init__(
        self, store: CalibrationStore, history: History, stated: Mapping[str, Costs] | None = None
    ) -> None:
        self.store, self.history, self.stated = store, history, stated or {}

    def of(self, platform: Platform, request: RunRequest, plan: Plan | None = None) -> SlabCosts:
        """Return the costs of a request on slabs like those of a plan; without one, of equal slabs on all slots."""
        slots = sum(host.slots for host in platform.pool.hosts)
        rows = request.size / slots if plan is None else _typical_rows(plan)
        return SlabCosts(self, platform, request, _class(request, round(math.log2(max(rows, 1.0)))))


class SlabCosts:
    """Costs of one request on one platform, on slabs of one size. rows : of such a slab"""

    def __init__(self, known: Costing, platform: Platform, request: RunRequest, rows: int) -> None:
        self._store, self._history = known.store, known.history
        self._stated = known.stated.get(request.template.name)
        self._platform, self._request, self.rows = platform, request, rows

    def benchmark_key(self, rows: int | None = None) -> str:
        """Return the key of benchmarks: the platform and all options that change the cost of a row.

        rows : of another slab
        """
        template, settings = self._request.template, dict(sorted(self._request.settings.items()))
        # The first word is the interpreter's place, which costs nothing; iterations are not part of a benchmark.
        words = template.benchmark_command(Path("-"), settings, self.rows if rows is None else rows)
        return f"{self._platform.name} {template.name} {' '.join(words[1:])}"

    def record_key(self, rows: int | None = None) -> str:
        """Return the key of records: runs of the same costs on the same grid are the best evidence."""
        return f"{self.benchmark_key(rows)} on {self._platform.pool.name}"

    def costs(self, notify: Notify) -> Costs:
        """Return corrected benchmarks and fitted overhead; benchmarks that are missing are run (and kept).

        Raises:
            ConfigError: A user's program was not measured, and may not be started now.
            HistoryError: The kept benchmarks or runs cannot be read.
            LaunchError: A benchmark failed.
        """
        # Read the history first: an unreadable one must not show only after minutes of benchmarks.
        records, others = self._records(), self._others()
        if self._measurable():
            for host in self._within_reach():
                self._measure(host, notify)
            self._refresh(self._own(records), others, notify)
        elif isinstance(self._request.template, Deployable):
            self._require(self._request.template)
        return self._taught(self._own(records), others)

    def known(self) -> Costs:
        """Return the same without measuring anything; CPU types of which nothing is known are missing."""
        return self._taught(*self.lessons())

    def demands(self, workload: Workload) -> Workload:
        """Return the workload with the messages and the memory that short runs of a user's program have measured."""
        if not isinstance(self._request.template, Deployable):
            return workload
        found = self._kept()
        sent = [b.messages for b in found if b.messages is not None]
        carried = [b.bytes_exchanged for b in found if b.bytes_exchanged is not None]
        return replace(
            workload,
            messages=max(sent, default=0.0) * workload.iterations,
            bytes_exchanged=max(carried, default=0.0) * workload.iterations,
            bytes_per_row=workload.bytes_per_row or max((b.bytes_per_row for b in found), default=0.0),
            bytes_fixed=max((b.bytes_fixed for b in found), default=0.0),
        )

    def benchmarks(self) -> dict[str, list[Benchmark]]:
        """Return CPU type → the benchmarks that are kept for this request, by ascending ranks."""
        key, machine = self._measured_key(), self._platform.machine
        kept = {h.cpu_type: self._store.get(key, machine(h)) for h in self._platform.pool.hosts}
        return {cpu_type: list(one.benchmarks) for cpu_type, one in kept.items() if one is not None}

    def setup_cpu_s(self) -> float:
        """Return CPU seconds of a rank beside its iterations, by the short runs; 0 if they are unknown."""
        return max((b.setup_cpu_s for b in self._kept()), default=0.0)

    def counted_each(self) -> float | None:
        """Return the iterations that the monitor counts for each of the program's; None if they are unknown."""
        found = reversed(self._kept())
        return next((b.counted_each for b in found if b.counted_each is not None), None)

    def calibrate(self, notify: Notify) -> None:
        """Measure every benchmark anew."""
        for host in self._within_reach():
            self._measure(host, notify, anew=True)

    def lessons(self) -> tuple[TrainingRuns, list[TrainingRuns]]:
        """Return training runs on slabs of the same size, and those on slabs of others, with their benchmarks."""
        return self._own(self._records()), self._others()

    def near(self) -> list[int]:
        """Return rows of slabs of other sizes, up to four times as many and down to a quarter.

        A row costs much the same there.
        """
        exponent = round(math.log2(self.rows))
        near = {_class(self._request, max(0, exponent + step)) for step in range(-_NEAR, _NEAR + 1)}
        return sorted(near - {self.rows})

    def _measurable(self) -> bool:
        """Return whether benchmarks may be run: never of an application without a program, unless simulated."""
        template = self._request.template
        if isinstance(template, KnownByModel):
            return self._platform.simulated
        return self._request.starts_programs or not isinstance(template, Deployable)

    def _within_reach(self) -> list[Host]:
        return [host for host in _one_of_each_type(self._platform) if self._platform.reaches(host)]

    def _records(self) -> list[Record]:
        return self._history.records(self.record_key(), newest=_NEWEST)

    def _require(self, template: Deployable) -> None:
        """Raise `ConfigError` if a user's program was not measured: it is started by a run or a check only."""
        if not self._kept():
            name, size = self._request.template.name, self._request.size
            raise ConfigError(
                f"{template.source}: {name} has not been measured on these hosts; measure it with: "
                f"apples app check {template.source} {size}"
            )

    def _kept(self, key: str | None = None) -> list[Benchmark]:
        """Return the benchmarks that are kept under a key, by default the one in use, for machines of this platform."""
        machines = {self._platform.machine(host) for host in self._platform.pool.hosts}
        entries = self._store.entries(self._measured_key() if key is None else key)
        return [b for c in entries if c.machine in machines for b in c.benchmarks]

    def _measured_key(self) -> str:
        """Return the key of benchmarks to use: those of slabs of this size, else of the nearest size.

        Where the program may be started, those of this size are measured, and the others do not matter.
        """
        sizes = [self.rows]
        if isinstance(self._request.template, Deployable) and not self._request.starts_programs:
            classes = {_class(self._request, e) for e in range(_LARGEST_EXPONENT)}
            sizes = sorted(classes, key=lambda rows: abs(math.log(rows / self.rows)))
        keys = map(self.benchmark_key, sizes)
        return next((key for key in keys if self._kept(key)), self.benchmark_key())

    def _own(self, records: Sequence[Record]) -> TrainingRuns:
        benchmarks, since = self.measured()
        return TrainingRuns(records=records, benchmarks=benchmarks, since=since)

    def _others(self) -> list[TrainingRuns]:
        others = []
        for rows in self.near():
            found = self._history.records(self.record_key(rows), newest=_NEWEST_OTHERS)
            if found:
                benchmarks, since = self.measured(rows)
                others.append(TrainingRuns(records=found, benchmarks=benchmarks, since=since))
        return others

    def _refresh(self, own: TrainingRuns, others: Sequence[TrainingRuns], notify: Notify) -> None:
        """Measure benchmarks again if the newest runs contradict them."""
        hosts = {host.cpu_type: host for host in self._within_reach()}
        for cpu_type, found in outdated(correct(own, others), own).items():
            if cpu_type not in hosts or cpu_type not in (own.since or {}):
                continue
            how = f"{abs(found.factor - 1):.0%} {'longer' if found.factor > 1 else 'shorter'}"
            notify(
                f"the benchmark of {self._request.template.name} on {cpu_type} no longer holds: "
                f"the last {found.runs} runs computed {how} than it says"
            )
            self._measure(hosts[cpu_type], notify, anew=True)

    def measured(self, rows: int | None = None) -> tuple[Costs, Mapping[str, float]]:
        """Return benchmarks without corrections, and CPU type → time of its measurement (none that is stated).

        rows : of another slab
        """
        key = self._measured_key() if rows is None else self.benchmark_key(rows)
        types = {host.cpu_type: self._platform.machine(host) for host in _one_of_each_type(self._platform)}
        kept = {cpu_type: self._store.get(key, machine) for cpu_type, machine in types.items()}
        since = {cpu_type: one.measured_at for cpu_type, one in kept.items() if one is not None}
        return _completed(self._store.costs(key, types), self._stated), since

    def _taught(self, own: TrainingRuns, others: Sequence[TrainingRuns]) -> Costs:
        workload = self._request.template.workload(self._request.size, self._request.settings)
        return learned_costs(own, others, workload.iterations)

    def _measure(self, host: Host, notify: Notify, *, anew: bool = False) -> None:
        """Run the benchmarks that are not kept, or all `anew`; each is kept at once."""
        platform, name = self._platform, self._request.template.name
        key, machine = self.benchmark_key(), platform.machine(host)
        kept = None if anew else self._store.get(key, machine)
        known = set() if kept is None else {b.ranks for b in kept.benchmarks}
        for ranks in rank_counts(host.slots):
            if ranks in known:
                continue
            notify(
                f"benchmark of {name} on {host.name} with {ranks} rank{'s' * (ranks > 1)} (once, then kept)"
            )
            benchmark = BenchmarkRequest(
                template=self._request.template,
                options=self._request.settings,
                host=host,
                ranks=ranks,
                rows=self.rows,
                peer=_peer(platform, host) if platform.several_hosts else None,
                notify=notify,
            )
            self._store.put(key, machine, [platform.benchmark(benchmark)], platform.now())


def _completed(measured: Costs | None, stated: Costs | None) -> Costs:
    """Return measured costs, and the grid file's for CPU types without a benchmark."""
    if measured is None or stated is None:
        return measured or stated or Costs(seconds_per_row={})
    return Costs(
        seconds_per_row={**stated.seconds_per_row, **measured.seconds_per_row},
        overhead=measured.overhead if stated.overhead == Overhead() else stated.overhead,
        message_cpu_s=measured.message_cpu_s,
    )


def _typical_rows(plan: Plan) -> float:
    """Return the rows of the slab that a row of a plan is in, in the mean."""
    works = [a.work for a in plan.assignments]
    return sum(work * work for work in works) / sum(works)


def _class(request: RunRequest, exponent: int) -> int:
    """Return rows of the slabs to benchmark: a power of two, within `LARGEST_SLAB_BYTES`.

    The cost of a row depends on the part of a slab that stays in the caches.
    """
    rows: int = 2**exponent
    workload = request.template.workload(request.size, request.settings)
    most = LARGEST_SLAB_BYTES / workload.bytes_per_row if workload.bytes_per_row > 0 else rows
    return max(1, min(rows, int(most)))


def rank_counts(slots: int) -> list[int]:
    """Return numbers of ranks to benchmark on a host: powers of two, and all slots."""
    counts, ranks = [], 1
    while ranks < slots:
        counts.append(ranks)
        ranks *= 2
    return [*counts, slots]


def _peer(platform: Platform, host: Host) -> Host | None:
    """Return another host within reach, preferably of the same CPU type; None if there is none."""
    others = [one for one in platform.pool.hosts if one.name != host.name and platform.reaches(one)]
    return min(others, key=lambda one: one.cpu_type != host.cpu_type, default=None)


def _one_of_each_type(platform: Platform) -> list[Host]:
    """Return the host with most slots of every CPU type, those within reach first."""
    best: dict[str, Host] = {}
    for host in platform.pool.hosts:
        rival = best.get(host.cpu_type)
        if rival is None or (platform.reaches(host), host.slots) > (platform.reaches(rival), rival.slots):
            best[host.cpu_type] = host
    return list(best.values())
