"""Runs of the heat stencil on a grid of sites: the settings of B1, the costs given to planners, and one run.

Costs are learnt as on real hosts: dedicated benchmarks with every number of ranks a host has slots for, and the
overhead fitted to runs on idle machines. Those runs have a world of their own, once for each performance model (Wolski
et al. 2000, §3.1). The planners get only forecasts. `two_sites` and `ablation` define the comparisons.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from apples import applications
from apples.costs.benchmark import rank_counts
from apples.costs.runs import finished_runs
from apples.model.config import find_config
from apples.model.grid import Grid
from apples.model.gridfile import load_grid
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import Plan, Record
from apples.model.snapshotdocument import snapshot_document
from apples.model.template import Costs
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PAPER, ModelName, PlanningOptions
from apples.platforms.mock import MockPlatform, open_mock
from apples_experiments.mock_runs import Planner, shuffled
from apples_experiments.overheadfit import fit_overhead
from apples_experiments.result import Progress
from apples_experiments.settings import RunSet, read_settings

#: The settings file.
SETTINGS = "two-sites"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWorlds:
    """Worlds under load; the file explains each value."""

    worlds: int
    first_seed: int
    lost_beyond: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """Contents of `configs/two-sites.yaml`."""

    grid: str
    scenario: str
    sizes: tuple[int, ...]
    calibration: RunSet
    rest_s: float
    loaded: LoadedWorlds
    ablation_worlds: int

    def seeds(self, size: int) -> tuple[int, ...]:
        """Return the seeds of the worlds in which a size is run; no two sizes share one."""
        first = self.loaded.first_seed + self.loaded.worlds * self.sizes.index(size)
        return tuple(range(first, first + self.loaded.worlds))


def load_site_settings() -> SiteSettings:
    """Return the settings; raise `ConfigError` with every problem of the file."""
    return read_settings(SETTINGS, SiteSettings)


OURS = PlanningOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """A scheduler in the comparison. `learns`: the performance model under which its overhead was fitted."""

    planner: Planner = make_plan
    options: PlanningOptions = OURS
    learns: ModelName = OURS.model


def open_site(settings: SiteSettings, *, seed: int, load: str) -> MockPlatform:
    """Return the grid under the scenario's truth, with this load."""
    grid = load_grid(find_config(settings.grid))
    return open_mock(settings.scenario, seed=seed, load=load, grid=grid)


def run(world: MockPlatform, size: int, costs: Costs, scheduler: Scheduler) -> Record:
    """Plan from the current forecasts, and run; raises `NoFeasiblePlan`."""
    workload = applications.get("heat").workload(size, {})
    snapshot = world.snapshot(_silent)
    plan = scheduler.planner(snapshot, workload, costs, scheduler.options)
    started_at = world.now()
    request = LaunchRequest(plan=plan, workload=workload, command=(workload.application,), run_dir=Path())
    outcome = world.run(request, _silent)
    return Record(
        id=f"{started_at:.0f}",
        started_at=started_at,
        world=world.name,
        key=f"{workload.application} {world.scenario.name}",
        plan=plan,
        outcome=outcome,
        snapshot=snapshot_document(snapshot.over(plan.horizon_s)),
        workload=asdict(workload),
    )


def observed_s(record: Record) -> float:
    """Return the wall time of a run, from launch to end, in s."""
    assert record.outcome is not None
    return record.outcome.observed_s


def crossings(plan: Plan, grid: Grid) -> int:
    """Return how often the chain of a plan goes from one site to another."""
    chain = [grid.host(a.host).site for a in plan.assignments]
    return sum(a != b for a, b in pairwise(chain))


@lru_cache(maxsize=4)
def learnt_costs(settings: SiteSettings, model: ModelName, progress: Progress) -> Costs:
    """Return benchmarks, and the overhead fitted to the calibration runs under a performance model."""
    calibration_settings = settings.calibration
    progress(f"{calibration_settings.runs} calibration runs, {model} model")
    world = open_site(settings, seed=calibration_settings.seed, load="unloaded")
    one_of = {host.cpu_type: host for host in reversed(world.pool.hosts)}
    costs = Costs(
        seconds_per_row={
            cpu_type: {
                ranks: world.measure(applications.get("heat").workload(1, {}), host, ranks).seconds_per_row
                for ranks in rank_counts(host.slots)
            }
            for cpu_type, host in sorted(one_of.items())
        }
    )
    slots = sum(host.slots for host in world.pool.hosts)
    pairs = [(size, ranks) for size in settings.sizes for ranks in range(2, slots + 1, 2)]
    planning = PAPER if model == PAPER.model else OURS
    records = []
    for size, ranks in shuffled(pairs, calibration_settings.runs, seed=calibration_settings.seed):
        records.append(run(world, size, costs, Scheduler(options=replace(planning, ranks=ranks))))
        world.rest(settings.rest_s)
    return replace(costs, overhead=fit_overhead(finished_runs(records), costs))


def _silent(line: str) -> None:
    """Ignore a progress line."""
