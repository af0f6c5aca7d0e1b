"""The costs of a run: benchmarks measured once and kept, then corrected by every finished run.

The order of precedence: benchmarks of this very request, options and kind of machine; if there are none and none can be
made, the grid file's values. Overhead is fitted to the history, starting from launches of the benchmark (or the grid
file). The mathematics is in `apples.learning`; here it meets the platform.
"""

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
from apples.model.plan import Record
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


def benchmark_key(platform: Platform, request: RunRequest, rows: int | None = None) -> str:
    """Return the key of benchmarks: the platform and all options that change the cost of a row.

    rows : of a slab, default those of an equal share
    """
    template, settings = request.template, dict(sorted(request.settings.items()))
    rows = slab_class(platform, request) if rows is None else rows
    # The first word is the interpreter's place, which costs nothing; iterations are not part of a benchmark.
    words = template.benchmark_command(Path("-"), settings, rows)
    return f"{platform.name} {template.name} {' '.join(words[1:])}"


class Costing:
    """Costs of applications in a platform.

    stated : costs a grid file states, by application; they are used where nothing was measured
    """

    def __init__(
        self, store: CalibrationStore, history: History, stated: Mapping[str, Costs] | None = None
    ) -> None:
        self._store = store
        self._history = history
        self._stated = stated or {}

    def record_key(self, platform: Platform, request: RunRequest, rows: int | None = None) -> str:
        """Return the key of records: runs of the same costs on the same grid are the best evidence."""
        return f"{benchmark_key(platform, request, rows)} on {platform.pool.name}"

    def costs(self, platform: Platform, request: RunRequest, notify: Notify) -> Costs:
        """Return corrected benchmarks and fitted overhead; benchmarks that are missing are run (and kept)."""
        # Read the history first: an unreadable one must not show only after minutes of benchmarks.
        records, others = self._records(platform, request), self._others(platform, request)
        if _measurable(platform, request):
            for host in _one_of_each_type(platform):
                if platform.reaches(host):
                    self._measure(platform, request, host, notify)
            self._refresh(platform, request, self._own(platform, request, records), others, notify)
        elif isinstance(request.template, Deployable):
            self._require(platform, request, request.template)
        return self._taught(request, self._own(platform, request, records), others)

    def known(self, platform: Platform, request: RunRequest) -> Costs:
        """Return the same without measuring anything; CPU types of which nothing is known are missing."""
        return self._taught(request, *self.lessons(platform, request))

    def demands(self, platform: Platform, request: RunRequest, workload: Workload) -> Workload:
        """Return the workload with the messages and the memory that short runs of a user's program have measured."""
        if not isinstance(request.template, Deployable):
            return workload
        found = self._kept(platform, self._measured_key(platform, request))
        sent = [b.messages for b in found if b.messages is not None]
        carried = [b.bytes_exchanged for b in found if b.bytes_exchanged is not None]
        return replace(
            workload,
            messages=max(sent, default=0.0) * workload.iterations,
            bytes_exchanged=max(carried, default=0.0) * workload.iterations,
            bytes_per_row=workload.bytes_per_row or max((b.bytes_per_row for b in found), default=0.0),
            bytes_fixed=max((b.bytes_fixed for b in found), default=0.0),
        )

    def benchmarks(self, platform: Platform, request: RunRequest) -> dict[str, list[Benchmark]]:
        """Return CPU type → the benchmarks that are kept for this request, by ascending ranks."""
        key = self._measured_key(platform, request)
        kept = {h.cpu_type: self._store.get(key, platform.machine(h)) for h in platform.pool.hosts}
        return {cpu_type: list(one.benchmarks) for cpu_type, one in kept.items() if one is not None}

    def setup_cpu_s(self, platform: Platform, request: RunRequest) -> float:
        """Return CPU seconds of a rank beside its iterations, by the short runs; 0 if they are unknown."""
        found = self._kept(platform, self._measured_key(platform, request))
        return max((b.setup_cpu_s for b in found), default=0.0)

    def counted_each(self, platform: Platform, request: RunRequest) -> float | None:
        """Return the iterations that the monitor counts for each of the program's; None if they are unknown."""
        found = self._kept(platform, self._measured_key(platform, request))
        return next((b.counted_each for b in reversed(found) if b.counted_each is not None), None)

    def calibrate(self, platform: Platform, request: RunRequest, notify: Notify) -> None:
        """Measure every benchmark anew, whatever is kept."""
        for host in _one_of_each_type(platform):
            if platform.reaches(host):
                self._measure(platform, request, host, notify, anew=True)

    def lessons(self, platform: Platform, request: RunRequest) -> tuple[TrainingRuns, list[TrainingRuns]]:
        """Return training runs on slabs of the same size, and those on slabs of others, with their benchmarks."""
        records = self._records(platform, request)
        return self._own(platform, request, records), self._others(platform, request)

    def _records(self, platform: Platform, request: RunRequest) -> list[Record]:
        return self._history.records(self.record_key(platform, request), newest=_NEWEST)

    def _require(self, platform: Platform, request: RunRequest, template: Deployable) -> None:
        """Raise `ConfigError` if a user's program was not measured: it is started by a run or a check only."""
        if not self._kept(platform, self._measured_key(platform, request)):
            raise ConfigError(
                f"{template.source}: {request.template.name} has not been measured on these hosts; measure it with: "
                f"apples app check {template.source} {request.size}"
            )

    def _kept(self, platform: Platform, key: str) -> list[Benchmark]:
        """Return the benchmarks that are kept under a key for machines of this platform."""
        machines = {platform.machine(host) for host in platform.pool.hosts}
        return [b for c in self._store.entries(key) if c.machine in machines for b in c.benchmarks]

    def _measured_key(self, platform: Platform, request: RunRequest) -> str:
        """Return the key of benchmarks to use: those of slabs of this size, else of the nearest size.

        Where the program may be started, those of this size are measured, and the others do not matter.
        """
        own = slab_class(platform, request)
        sizes = [own]
        if isinstance(request.template, Deployable) and not request.starts_programs:
            sizes = sorted(
                {_class(request, e) for e in range(_LARGEST_EXPONENT)}, key=lambda r: abs(math.log(r / own))
            )
        keys = (benchmark_key(platform, request, rows) for rows in sizes)
        return next((key for key in keys if self._kept(platform, key)), benchmark_key(platform, request))

    def _own(self, platform: Platform, request: RunRequest, records: Sequence[Record]) -> TrainingRuns:
        benchmarks, since = self.measured(platform, request)
        return TrainingRuns(records=records, benchmarks=benchmarks, since=since)

    def _others(self, platform: Platform, request: RunRequest) -> list[TrainingRuns]:
        others = []
        for rows in near_classes(platform, request):
            key = self.record_key(platform, request, rows)
            found = self._history.records(key, newest=_NEWEST_OTHERS)
            if found:
                benchmarks, since = self.measured(platform, request, rows)
                others.append(TrainingRuns(records=found, benchmarks=benchmarks, since=since))
        return others

    def _refresh(
        self,
        platform: Platform,
        request: RunRequest,
        own: TrainingRuns,
        others: Sequence[TrainingRuns],
        notify: Notify,
    ) -> None:
        """Measure benchmarks again if the newest runs contradict them."""
        hosts = {host.cpu_type: host for host in _one_of_each_type(platform) if platform.reaches(host)}
        for cpu_type, found in outdated(correct(own, others), own).items():
            if cpu_type not in hosts or cpu_type not in (own.since or {}):
                continue
            how = f"{abs(found.factor - 1):.0%} {'longer' if found.factor > 1 else 'shorter'}"
            notify(
                f"the benchmark of {request.template.name} on {cpu_type} no longer holds: "
                f"the last {found.runs} runs computed {how} than it says"
            )
            self._measure(platform, request, hosts[cpu_type], notify, anew=True)

    def measured(
        self, platform: Platform, request: RunRequest, rows: int | None = None
    ) -> tuple[Costs, Mapping[str, float]]:
        """Return benchmarks without corrections, and CPU type → time of its measurement (none that is stated).

        rows : of a slab, default those of an equal share
        """
        key = (
            self._measured_key(platform, request) if rows is None else benchmark_key(platform, request, rows)
        )
        kept = {h.cpu_type: self._store.get(key, platform.machine(h)) for h in _one_of_each_type(platform)}
        since = {cpu_type: one.measured_at for cpu_type, one in kept.items() if one is not None}
        return self._benchmarks(platform, request, key), since

    def _taught(self, request: RunRequest, own: TrainingRuns, others: Sequence[TrainingRuns]) -> Costs:
        iterations = request.template.workload(request.size, request.settings).iterations
        return learned_costs(own, others, iterations)

    def _benchmarks(self, platform: Platform, request: RunRequest, key: str) -> Costs:
        """Return the benchmarks stored under a key, else the grid file's."""
        types = {host.cpu_type: platform.machine(host) for host in _one_of_each_type(platform)}
        measured = self._store.costs(key, types)
        stated = self._stated.get(request.template.name)
        if measured is None:
            return stated or Costs(seconds_per_row={})
        if stated is None:
            return measured
        return Costs(
            seconds_per_row={**stated.seconds_per_row, **measured.seconds_per_row},
            overhead=measured.overhead if stated.overhead == Overhead() else stated.overhead,
            message_cpu_s=measured.message_cpu_s,
        )

    def _measure(
        self, platform: Platform, request: RunRequest, host: Host, notify: Notify, *, anew: bool = False
    ) -> None:
        """Run the benchmarks that are not kept, or all `anew`; each is kept at once, whatever ends the next."""
        name, key, machine = (
            request.template.name,
            benchmark_key(platform, request),
            platform.machine(host),
        )
        kept = None if anew else self._store.get(key, machine)
        known = set() if kept is None else {b.ranks for b in kept.benchmarks}
        for ranks in rank_counts(host.slots):
            if ranks in known:
                continue
            notify(
                f"benchmark of {name} on {host.name} with {ranks} rank{'s' * (ranks > 1)} (once, then kept)"
            )
            benchmark = BenchmarkRequest(
                template=request.template,
                options=request.settings,
                host=host,
                ranks=ranks,
                rows=slab_class(platform, request),
                peer=_peer(platform, host) if platform.several_hosts else None,
                notify=notify,
            )
            self._store.put(key, machine, [platform.benchmark(benchmark)], platform.now())


def _measurable(platform: Platform, request: RunRequest) -> bool:
    """Return whether benchmarks may be run: never of an application without a program, unless simulated."""
    if isinstance(request.template, KnownByModel):
        return platform.simulated
    return request.starts_programs or not isinstance(request.template, Deployable)


def slab_class(platform: Platform, request: RunRequest) -> int:
    """Return rows of the slabs to benchmark: an equal share of the size, as a power of two, within
    `LARGEST_SLAB_BYTES`.

    The cost of a row depends on the part of a slab that stays in the caches.
    """
    share = request.size / sum(host.slots for host in platform.pool.hosts)
    return _class(request, round(math.log2(max(share, 1.0))))


def near_classes(platform: Platform, request: RunRequest) -> list[int]:
    """Return rows of slabs of other sizes, up to four times as many and down to a quarter: a row costs much
    the same.
    """
    own = slab_class(platform, request)
    exponent = round(math.log2(own))
    near = {_class(request, max(0, exponent + step)) for step in range(-_NEAR, _NEAR + 1)}
    return sorted(near - {own})


def _class(request: RunRequest, exponent: int) -> int:
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
