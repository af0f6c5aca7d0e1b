"""The costs of a run: benchmarks measured once and kept, then corrected by every finished run.

The order of precedence: benchmarks of this very request, options and kind of machine; if there are none and none can be
made, the grid file's values. Overhead is fitted to the history, starting from launches of the benchmark (or the grid
file). The mathematics is in `apples.learning`; here it meets the platform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apples.errors import ConfigError
from apples.learning.benchmarkstore import CalibrationStore
from apples.learning.corrections import correct, outdated, with_growth_of_runs
from apples.learning.history import History
from apples.learning.learnedcosts import learned_costs
from apples.learning.runs import TrainingRuns
from apples.model.launchrequest import Notify
from apples.model.plan import Plan, Record
from apples.model.template import Costs, Deployable
from apples.platforms.platform import Platform
from apples.run.benchmarks import SlabBenchmarks
from apples.run.measuring import measure, measure_second
from apples.run.request import RunRequest

#: Records that teach one prediction; older ones have lost their weight anyway. Fewer of slabs of each other size.
_NEWEST, _NEWEST_OTHERS = 200, 50


class Costing:
    """Kept costs of applications.

    stated : costs a grid file states, by application; they are used where nothing was measured
    """

    def __init__(
        self, store: CalibrationStore, history: History, stated: Mapping[str, Costs] | None = None
    ) -> None:
        self._store, self._history, self._stated = store, history, stated or {}

    def of(self, platform: Platform, request: RunRequest, rows: int | None = None) -> SlabCosts:
        """Return the costs of a request on slabs of so many rows, by default on equal slabs on all slots."""
        stated = self._stated.get(request.template.name)
        return SlabCosts(
            SlabBenchmarks(self._store, platform, request, stated=stated, rows=rows), self._history
        )


class SlabCosts:
    """Costs of one request on slabs of one size: benchmarks corrected by runs."""

    def __init__(self, benchmarks: SlabBenchmarks, history: History) -> None:
        self.benchmarks, self._history = benchmarks, history
        self._request = benchmarks.request

    def record_key(self) -> str:
        """Return the key of records: runs of the same costs on the same grid are the best evidence."""
        return _record_key(self.benchmarks)

    def like(self, plan: Plan) -> SlabCosts:
        """Return the costs on slabs like those of a plan (`SlabBenchmarks.like`); this object if they are these."""
        found = self.benchmarks.like(plan)
        return self if found is self.benchmarks else SlabCosts(found, self._history)

    def costs(self, notify: Notify, *, between: bool = False) -> Costs:
        """Return corrected benchmarks and fitted overhead; benchmarks that are missing are run (and kept).

        Args:
            notify: Receives progress messages.
            between: Whether slabs between two sizes need the benchmarks of both.

        Raises:
            ConfigError: A user's program was not measured, and may not be started now.
            HistoryError: The kept benchmarks or runs cannot be read.
            LaunchError: A benchmark failed.
        """
        # Read the history first: an unreadable one must not show only after minutes of benchmarks.
        found = self._found()
        if self.benchmarks.measurable():
            for host in (hosts := self.benchmarks.within_reach()):
                measure(self.benchmarks, host, notify)
            for host in hosts if between else ():
                measure_second(self.benchmarks, host, notify)
            self._refresh(*_priced(found), notify)
        elif isinstance(self._request.template, Deployable):
            self._require(self._request.template)
        return self._corrected(*_priced(found))

    def known(self) -> Costs:
        """Return the same without measuring anything; CPU types of which nothing is known are missing."""
        return self._corrected(*self.training_runs())

    def training_runs(self) -> tuple[TrainingRuns, list[TrainingRuns]]:
        """Return training runs on slabs of the same size, and those on slabs of others, with their benchmarks."""
        return _priced(self._found())

    def _found(self) -> list[tuple[SlabBenchmarks, Sequence[Record]]]:
        """Return the runs on slabs of this size, and those on slabs of each other size that has some."""
        own = self._history.records(self.record_key(), newest=_NEWEST)
        others = [
            (slabs, self._history.records(_record_key(slabs), newest=_NEWEST_OTHERS))
            for slabs in self.benchmarks.near()
        ]
        return [(self.benchmarks, own), *((slabs, records) for slabs, records in others if records)]

    def _require(self, template: Deployable) -> None:
        """Raise `ConfigError` if a user's program was not measured: it is started by a run or a check only."""
        if not self.benchmarks.in_use():
            name, size = self._request.template.name, self._request.size
            raise ConfigError(
                f"{template.source}: {name} has not been measured on these hosts; measure it with: "
                f"apples app check {template.source} {size}"
            )

    def _refresh(self, own: TrainingRuns, others: Sequence[TrainingRuns], notify: Notify) -> None:
        """Measure benchmarks again if the newest runs contradict them."""
        hosts = {host.cpu_type: host for host in self.benchmarks.within_reach()}
        for cpu_type, found in outdated(correct(own, others), own).items():
            if cpu_type not in hosts or cpu_type not in (own.since or {}):
                continue
            how = f"{abs(found.factor - 1):.0%} {'longer' if found.factor > 1 else 'shorter'}"
            notify(
                f"the benchmark of {self._request.template.name} on {cpu_type} no longer holds: "
                f"the last {found.runs} runs computed {how} than it says"
            )
            measure(self.benchmarks, hosts[cpu_type], notify, anew=True)
            measure_second(self.benchmarks, hosts[cpu_type], notify, anew=True)

    def _corrected(self, own: TrainingRuns, others: Sequence[TrainingRuns]) -> Costs:
        workload = self._request.template.workload(self._request.size, self._request.settings)
        return learned_costs(own, others, workload.iterations).at(self.benchmarks.slab_rows)


def _priced(
    found: Sequence[tuple[SlabBenchmarks, Sequence[Record]]],
) -> tuple[TrainingRuns, list[TrainingRuns]]:
    """Return the runs with the benchmarks that are kept now."""
    runs = []
    for slabs, records in found:
        benchmarks, since = slabs.costs()
        runs.append(TrainingRuns(records=records, benchmarks=benchmarks, since=since))
    return with_growth_of_runs(runs[0], runs[1:])


def _record_key(slabs: SlabBenchmarks) -> str:
    return f"{slabs.key} on {slabs.platform.pool.name}"
