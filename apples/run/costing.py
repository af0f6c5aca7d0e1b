"""What a run will cost: benchmarks measured once and kept, then corrected by every run that finished.

The order of trust: benchmarks of this very application, options and kind of machine; where there are none and
none can be made, what the grid file states. Overhead: fitted to the history, starting from what launches of
the benchmark (or the grid file) showed. The mathematics is `apples.calibration`'s; here it meets the platform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from apples.launching.launcher import Notify
from apples.learning.benchmarkstore import CalibrationStore
from apples.learning.corrections import correct, outdated
from apples.learning.history import History
from apples.learning.runs import TrainingRuns
from apples.learning.teaching import taught
from apples.model.grid import Host
from apples.model.plan import Record
from apples.model.template import BenchmarkRequest, Costs, Overhead, Template
from apples.platforms.platform import Platform

#: Records that teach one prediction; older ones have lost their weight anyway. Fewer of slabs of each other size.
_NEWEST, _NEWEST_OTHERS = 200, 50

#: Slabs of other sizes are asked for this many powers of two to either side; caches hold others very differently.
_NEAR = 2

#: Slabs of benchmarks are no larger than this, in bytes: beyond it no cache holds anything of the slab.
LARGEST_SLAB_BYTES = 400e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What is to be priced: an application with its options, at one size."""

    template: Template
    settings: Mapping[str, str]
    size: int


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

    def key(self, platform: Platform, application: Application, rows: int | None = None) -> str:
        """What benchmarks are filed under: the platform and all that changes what a row costs.

        rows : of a slab, default those of an equal share
        """
        template, settings = application.template, dict(sorted(application.settings.items()))
        rows = slab_class(platform, application) if rows is None else rows
        # The first word is the interpreter's place, which costs nothing; iterations are not part of a benchmark.
        words = template.benchmark_command(Path("-"), settings, rows)
        return f"{platform.name} {template.name} {' '.join(words[1:])}"

    def record_key(self, platform: Platform, application: Application, rows: int | None = None) -> str:
        """What records are filed under: runs teach runs of the same costs on the same grid most."""
        return f"{self.key(platform, application, rows)} on {platform.grid.name}"

    def costs(self, platform: Platform, application: Application, notify: Notify) -> Costs:
        """Corrected benchmarks and fitted overhead; benchmarks that are missing are run (and kept)."""
        # The history comes first: one that cannot be read must not show only after minutes of benchmarks.
        records, others = self._records(platform, application), self._others(platform, application)
        for host in _one_of_each_type(platform):
            if platform.reaches(host):
                self._measure(platform, application, host, notify)
        self._refresh(platform, application, self._own(platform, application, records), others, notify)
        return self._taught(application, self._own(platform, application, records), others)

    def known(self, platform: Platform, application: Application) -> Costs:
        """The same without measuring anything; CPU types of which nothing is known are missing."""
        return self._taught(application, *self.lessons(platform, application))

    def calibrate(self, platform: Platform, application: Application, notify: Notify) -> None:
        """Measure every benchmark anew, whatever is kept."""
        for host in _one_of_each_type(platform):
            if platform.reaches(host):
                self._measure(platform, application, host, notify, anew=True)

    def lessons(
        self, platform: Platform, application: Application
    ) -> tuple[TrainingRuns, list[TrainingRuns]]:
        """What teaches: benchmarks and runs on slabs of the same size, and those on slabs of others."""
        records = self._records(platform, application)
        return self._own(platform, application, records), self._others(platform, application)

    def _records(self, platform: Platform, application: Application) -> list[Record]:
        return self._history.records(self.record_key(platform, application), newest=_NEWEST)

    def _own(self, platform: Platform, application: Application, records: Sequence[Record]) -> TrainingRuns:
        benchmarks, since = self.measured(platform, application)
        return TrainingRuns(records=records, benchmarks=benchmarks, since=since)

    def _others(self, platform: Platform, application: Application) -> list[TrainingRuns]:
        others = []
        for rows in near_classes(platform, application):
            key = self.record_key(platform, application, rows)
            found = self._history.records(key, newest=_NEWEST_OTHERS)
            if found:
                benchmarks, since = self.measured(platform, application, rows)
                others.append(TrainingRuns(records=found, benchmarks=benchmarks, since=since))
        return others

    def _refresh(
        self,
        platform: Platform,
        application: Application,
        own: TrainingRuns,
        others: Sequence[TrainingRuns],
        notify: Notify,
    ) -> None:
        """Measure again what the newest runs contradict."""
        hosts = {host.cpu_type: host for host in _one_of_each_type(platform) if platform.reaches(host)}
        for cpu_type, found in outdated(correct(own, others), own).items():
            if cpu_type not in hosts or cpu_type not in (own.since or {}):
                continue
            how = f"{abs(found.factor - 1):.0%} {'longer' if found.factor > 1 else 'shorter'}"
            notify(
                f"the benchmark of {application.template.name} on {cpu_type} no longer holds: "
                f"the last {found.runs} runs computed {how} than it says"
            )
            self._measure(platform, application, hosts[cpu_type], notify, anew=True)

    def measured(
        self, platform: Platform, application: Application, rows: int | None = None
    ) -> tuple[Costs, Mapping[str, float]]:
        """Benchmarks without what runs have taught, and CPU type → when each was measured (none that is stated).

        rows : of a slab, default those of an equal share
        """
        key = self.key(platform, application, rows)
        kept = {h.cpu_type: self._store.get(key, platform.machine(h)) for h in _one_of_each_type(platform)}
        since = {cpu_type: one.measured_at for cpu_type, one in kept.items() if one is not None}
        return self._benchmarks(platform, application, key), since

    def _taught(self, application: Application, own: TrainingRuns, others: Sequence[TrainingRuns]) -> Costs:
        iterations = application.template.workload(application.size, application.settings).iterations
        return taught(own, others, iterations)

    def _benchmarks(self, platform: Platform, application: Application, key: str) -> Costs:
        """What is kept under a key, over what the grid file states."""
        types = {host.cpu_type: platform.machine(host) for host in _one_of_each_type(platform)}
        measured = self._store.costs(key, types)
        stated = self._stated.get(application.template.name)
        if measured is None:
            return stated or Costs(seconds_per_row={})
        if stated is None:
            return measured
        return Costs(
            seconds_per_row={**stated.seconds_per_row, **measured.seconds_per_row},
            overhead=measured.overhead if stated.overhead == Overhead() else stated.overhead,
        )

    def _measure(
        self, platform: Platform, application: Application, host: Host, notify: Notify, *, anew: bool = False
    ) -> None:
        """Run the benchmarks that are not kept, or all `anew`; each is kept at once, whatever ends the next."""
        name, key, machine = (
            application.template.name,
            self.key(platform, application),
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
            request = BenchmarkRequest(
                template=application.template,
                options=application.settings,
                host=host,
                ranks=ranks,
                rows=slab_class(platform, application),
                notify=notify,
            )
            self._store.put(key, machine, [platform.benchmark(request)], platform.now())


def slab_class(platform: Platform, application: Application) -> int:
    """Rows of the slabs to benchmark: an equal share of the size, as a power of two, within `LARGEST_SLAB_BYTES`.

    What a row costs depends on how much of a slab stays in the caches.
    """
    share = application.size / sum(host.slots for host in platform.grid.hosts)
    return _class(application, round(math.log2(max(share, 1.0))))


def near_classes(platform: Platform, application: Application) -> list[int]:
    """Rows of slabs of other sizes, up to four times as many and down to a quarter: a row costs much the same."""
    own = slab_class(platform, application)
    exponent = round(math.log2(own))
    near = {_class(application, max(0, exponent + step)) for step in range(-_NEAR, _NEAR + 1)}
    return sorted(near - {own})


def _class(application: Application, exponent: int) -> int:
    rows: int = 2**exponent
    workload = application.template.workload(application.size, application.settings)
    most = LARGEST_SLAB_BYTES / workload.bytes_per_row if workload.bytes_per_row > 0 else rows
    return max(1, min(rows, int(most)))


def rank_counts(slots: int) -> list[int]:
    """Numbers of ranks to benchmark on a host: powers of two, and all slots."""
    counts, ranks = [], 1
    while ranks < slots:
        counts.append(ranks)
        ranks *= 2
    return [*counts, slots]


def _one_of_each_type(platform: Platform) -> list[Host]:
    """The host with most slots of every CPU type, those within reach first."""
    best: dict[str, Host] = {}
    for host in platform.grid.hosts:
        rival = best.get(host.cpu_type)
        if rival is None or (platform.reaches(host), host.slots) > (platform.reaches(rival), rival.slots):
            best[host.cpu_type] = host
    return list(best.values())
