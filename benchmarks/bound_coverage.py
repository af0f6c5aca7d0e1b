"""Share of runs that end between the bounds of their predictions, on the mock grid (should be 8 of 10).

    python -m benchmarks bound_coverage [--seeds 40]             # README's examples
    python -m benchmarks bound_coverage --rows [--worlds 16] [--futures 16]

README's examples are `apples-run 2000 --mock` with each of three schedulers: 34 loaded hosts of the paper's cluster,
each run with a seed and a fresh state of its own.

`--rows` varies one of the period of the load, the number of hosts and the length of the run. Hosts have one CPU; other
processes arrive at random (Poisson) and stay for an exponential time, half a period each in the mean. Each plan runs
in many *futures*: the same state of all hosts at the decision, and another draw of the load's law, of traffic and of
noise. Their central 80 % is the range of an oracle that knows law and state. Before a *first* run, none has been seen
under load. A *learnt* one follows 20 or more in other worlds of the row, one future of each. Of these there are 256
with the defaults, with four futures each.
*mean error* is that of the prediction against the mean of the futures, in the mean of the worlds.
*gain* is the mean time of plans by forecasts of the next measurement over that of ours in the same futures, less one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from apples.applications.catalogue import known_by_model
from apples.costs.posterior import learn
from apples.costs.ranges import MOST, calibrate_range, is_loaded, judged_run
from apples.costs.runs import TrainingRuns, finished_runs, training_run
from apples.costs.store import History
from apples.model.config import find_config
from apples.model.grid import FloatArray, Grid, Host, Snapshot
from apples.model.gridfile import load_grid_file
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import Outcome, Plan, Record
from apples.model.runrequest import RunRequest
from apples.model.snapshotdocument import snapshot_document
from apples.model.template import Costs, Workload
from apples.planning.planner import make_plan
from apples.planning.planningoptions import Horizon
from apples.platforms.mock import DEFAULT_SCENARIO, MockPlatform, open_mock
from apples.run.agent import Agent
from apples.simulation.mock_launcher import run_on_grid
from apples.simulation.scenario import LoadTruth, RegimeTruth, Scenario, load_scenario
from apples_experiments.mock_runs import PLANNERS
from benchmarks.common.report import say

#: README's examples.
SIZE, EXAMPLES = 2000, ("apples", "default", "smart-user")


def example(scheduler: str, seed: int) -> Futures:
    """Return a first run of README's example as the command makes it, with a fresh state."""
    platform = open_mock(DEFAULT_SCENARIO, seed=seed)
    name = platform.scenario.application.name
    stated = load_grid_file(find_config(platform.scenario.grid)).applications[name].costs
    template = known_by_model(name, platform.workload, "the scenario")
    request = RunRequest(size=SIZE, template=template, scheduler=scheduler)
    with TemporaryDirectory() as directory:
        history = History(Path(directory) / "history.db", _silent)
        agent = Agent(platform, history, _silent, stated={} if stated is None else {name: stated})
        decision = agent.decide(request)
        history.close()
    outcome = platform.run(request_of(decision.plan, decision.workload), _silent)
    return Futures.of(decision.plan, [outcome.observed_s])


def learnt(costs: Costs, records: list[Record]) -> Costs:
    """Return costs of benchmarks moved by runs."""
    return learn(TrainingRuns(runs=finished_runs(records), benchmarks=costs)).costs


def calibrated_range(record: Record, before: list[Record]) -> Plan:
    """Return the plan of a run with its range by those before it on hosts as loaded, as the agent gives it."""
    loaded = is_loaded(training_run(record).slowness)
    alike = [one for one in before if is_loaded(training_run(one).slowness) == loaded]
    judged = [run for run in map(judged_run, alike) if run is not None]
    return calibrate_range(record.plan, judged[-MOST:])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Futures:
    """A prediction, and the seconds that its plan took in each future, float64[F]."""

    plan: Plan
    observed_s: FloatArray

    @classmethod
    def of(cls, plan: Plan, observed_s: list[float]) -> Futures:
        """Return the futures of a plan."""
        return cls(plan=plan, observed_s=np.array(observed_s))


def oracle_width(runs: list[Futures]) -> float:
    """Return the median length of the central 80 % of the futures over their mean."""
    ends = [np.quantile(r.observed_s, (0.1, 0.9)) / r.observed_s.mean() for r in runs]
    return float(np.median([high - low for low, high in ends]))


def judged(runs: list[Futures]) -> str:
    """Return shares inside and beyond the bounds, mean error of the prediction, and median width, as a text."""
    inside = np.mean(
        [np.mean((r.plan.low_s <= r.observed_s) & (r.observed_s <= r.plan.high_s)) for r in runs]
    )
    beyond = np.mean([np.mean(r.observed_s > r.plan.high_s) for r in runs])
    error = np.mean([r.plan.predicted_s / r.observed_s.mean() - 1 for r in runs])
    width = np.median([(r.plan.high_s - r.plan.low_s) / r.plan.predicted_s for r in runs])
    return f"inside {inside:4.0%}  longer {beyond:4.0%}  mean error {error:+6.1%}  width {width:.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row. `period_s`: of the load, 0 for idle hosts. `work_s`: computation on all hosts of the pool, if idle."""

    period_s: float = 60.0
    hosts: int = 8
    work_s: float = 60.0

    def __str__(self) -> str:
        load = f"period {self.period_s:3.0f} s" if self.period_s else "idle        "
        return f"{load}  {self.hosts:2} hosts  work {self.work_s:3.0f} s"


ROWS = (
    *(Row(period_s=p) for p in (0.0, 15.0, 60.0, 300.0)),
    *(Row(hosts=n) for n in (1, 4, 26)),
    *(Row(work_s=s) for s in (5.0, 15.0, 600.0)),
)
#: Rows of the application on each host of the pool, and runs on idle hosts that the overhead is fitted to.
ROWS_A_HOST, FITTED = 500, 8
#: Runs that a learnt one follows, at least, and its futures. What is learnt changes slowly, so many worlds count.
LEARNT, FEW = 20, 4
FIRST_ROW_SEED = 97_000


def world(row: Row, *, seed: int) -> MockPlatform:
    """Return a world of hosts with one CPU under the load of the row."""
    base = load_scenario("workstations")[0]
    types = {name: replace(kind, cpus=1) for name, kind in base.hosts.cpu_types.items()}
    truth = replace(base, hosts=replace(base.hosts, cpu_types=types), loads=_loads(base, row.period_s))
    grid = Grid(name="row", hosts=tuple(Host(name=f"h{k}") for k in range(row.hosts)))
    return MockPlatform(grid, truth, load="loaded" if row.period_s else "unloaded", seed=seed)


def _loads(base: Scenario, period_s: float) -> dict[str, LoadTruth]:
    """Return no load, and one process in the mean that comes and goes within a period."""
    idle = replace(base.loads["unloaded"], campaigns=None)
    half_s = max(period_s, 1.0) / 2
    steady = RegimeTruth(mean_stay_s=1e9, interval_s=half_s, duration_s=half_s)
    return {"unloaded": idle, "loaded": replace(idle, regimes=(steady,))}


def workload(row: Row, of: MockPlatform) -> Workload:
    """Return the run of a row: `ROWS_A_HOST` rows on each host, as many iterations as its length takes."""
    plain = of.workload(ROWS_A_HOST * row.hosts)
    row_s = of.scenario.hosts.cpu_types["default"].seconds_per_row
    iterations = round(row.work_s / (ROWS_A_HOST * row_s))
    return replace(
        plain,
        iterations=iterations,
        messages=plain.messages / plain.iterations * iterations,
        bytes_exchanged=plain.bytes_exchanged / plain.iterations * iterations,
    )


def request_of(plan: Plan, work: Workload) -> LaunchRequest:
    """Return the request to run a plan."""
    return LaunchRequest(plan=plan, workload=work, command=(work.application,), run_dir=Path())


def record_of(
    of: MockPlatform, number: int, plan: Plan, work: Workload, snapshot: Snapshot, outcome: Outcome
) -> Record:
    """Return the record of a run. number : unlike that of any other run it is judged with"""
    return Record(
        id=f"{number:06d}",
        started_at=of.now(),
        world=of.name,
        key="row",
        plan=plan,
        outcome=outcome,
        snapshot=snapshot_document(snapshot.over(plan.horizon_s)),
        workload=asdict(work),
    )


def outcomes(of: MockPlatform, plan: Plan, work: Workload, seeds: range) -> list[Outcome]:
    """Return the outcomes of a plan in futures with these seeds."""
    return [run_on_grid(of.truth.continued(seed), request_of(plan, work), _silent) for seed in seeds]


def on_idle_hosts(row: Row) -> tuple[Costs, list[Record]]:
    """Return the costs of a benchmark, and the records of `FITTED` runs on idle hosts."""
    idle = world(replace(row, period_s=0.0), seed=FIRST_ROW_SEED - 1)
    work = workload(row, idle)
    benchmark = idle.measure(work, idle.pool.hosts[0], 1)
    costs = Costs(seconds_per_row={"default": {1: benchmark.seconds_per_row}})
    snapshot = idle.snapshot(_silent)
    plan = make_plan(snapshot, work, costs, PLANNERS["apples"])
    ended = outcomes(idle, plan, work, range(FITTED))
    return costs, [record_of(idle, k, plan, work, snapshot, outcome) for k, outcome in enumerate(ended)]


def futures(
    row: Row, worlds: int, count: int, *, horizon: Horizon = "run", learns: bool = False
) -> Iterator[Futures]:
    """Yield the futures of the plan in each world.

    horizon : of the forecasts.  learns : from the first future of the plan in each world before
    """
    costs, idle = on_idle_hosts(row)
    records = list[Record]()
    first = learnt(costs, idle)
    options = replace(PLANNERS["apples"], horizon=horizon)
    for k in range(worlds):
        here = world(row, seed=FIRST_ROW_SEED + k)
        work, snapshot = workload(row, here), here.snapshot(_silent)
        known = learnt(costs, [*idle, *records]) if learns else first
        plan = make_plan(snapshot, work, known, options)
        ended = outcomes(here, plan, work, range(k * count, (k + 1) * count))
        record = record_of(here, FITTED + k, plan, work, snapshot, ended[0])
        plan = calibrated_range(record, records if learns else [])
        records.append(replace(record, plan=plan))
        yield Futures.of(plan, [outcome.observed_s for outcome in ended])


def report_row(row: Row, worlds: int, count: int) -> None:
    """Print the lines of a row: first runs, and runs that have learnt from `LEARNT` or more."""
    ours = list(futures(row, worlds, count))
    others = futures(row, worlds, count, horizon="next")
    gain = sum(other.observed_s.sum() for other in others) / sum(our.observed_s.sum() for our in ours) - 1
    say(f"{row}  first   {judged(ours)}  oracle {oracle_width(ours):.2f}  gain {gain:+6.1%}")
    late = list(futures(row, LEARNT + worlds * count, FEW, learns=True))[LEARNT:]
    say(f"{row}  learnt  {judged(late)}")


def _silent(line: str) -> None:
    """Ignore a progress line."""


def main(*, rows: bool = False, seeds: int = 40, worlds: int = 16, futures: int = 16) -> None:
    """Print README's examples, or the rows.

    rows: by period, hosts and length
    seeds: of the examples
    worlds: of a row
    futures: of a plan
    """
    if rows:
        for row in ROWS:
            report_row(row, worlds, futures)
        return
    for scheduler in EXAMPLES:
        runs = [example(scheduler, seed) for seed in range(1, seeds + 1)]
        say(f"{scheduler:<10} runs {len(runs):4}  {judged(runs)}")
