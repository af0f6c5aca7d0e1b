"""Runs on the mock grid by the paper's method: plan from forecasts, run, rest; calibrate on some, score on others.

A *session* is one world in which runs follow each other. Costs are learnt as on real hosts: a dedicated benchmark of
one host of each CPU type, and the overhead fitted to finished runs (Wolski et al. 2000, §3.1). The planners have no
access to the scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from apples.costs.runs import finished_runs
from apples.errors import NoFeasiblePlan
from apples.model.config import find_config
from apples.model.grid import Snapshot
from apples.model.gridfile import load_grid
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import Plan, Record
from apples.model.snapshotdocument import snapshot_document
from apples.model.template import Costs, Workload
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PAPER, PlanningOptions
from apples.platforms.mock import MockPlatform, open_mock
from apples_experiments.overheadfit import fit_overhead
from apples_experiments.result import Progress
from apples_experiments.settings import WolskiSettings

Planner = Callable[[Snapshot, Workload, Costs, PlanningOptions], Plan]

#: The two planners that are scored: the paper's, line for line, and ours.
PLANNERS: dict[str, PlanningOptions] = {"paper": PAPER, "apples": PlanningOptions()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One finished run. `record`: prediction and observation. `size`, `pool`: as requested."""

    size: int
    pool: int
    record: Record

    @property
    def observed_s(self) -> float:
        """Return the wall time of the run, in s."""
        assert self.record.outcome is not None
        return self.record.outcome.observed_s

    @property
    def error(self) -> float:
        """Return predicted / observed - 1."""
        return self.record.plan.predicted_s / self.observed_s - 1


class Session:
    """One mock world in which runs follow each other."""

    def __init__(self, settings: WolskiSettings, *, seed: int, load: str) -> None:
        grid = load_grid(find_config(settings.grid))
        self.world: MockPlatform = open_mock(settings.scenario, seed=seed, load=load, grid=grid)
        self._settings = settings
        self._count = 0

    def run(self, size: int, costs: Costs, planner: Planner, options: PlanningOptions) -> Record:
        """Plan from the current forecasts, and run; raises `NoFeasiblePlan`."""
        workload = self.world.workload(size)
        snapshot = self.world.snapshot(_silent)
        plan = planner(snapshot, workload, costs, options)
        started_at = self.world.now()
        request = LaunchRequest(plan=plan, workload=workload, command=(workload.application,), run_dir=Path())
        outcome = self.world.run(request, _silent)
        self._count += 1
        return Record(
            id=f"{self._count:06d}",
            started_at=started_at,
            world=self.world.name,
            key=f"{workload.application} {self._settings.scenario}",
            plan=plan,
            outcome=outcome,
            snapshot=snapshot_document(snapshot.over(plan.horizon_s)),
            workload=asdict(workload),
        )

    def rest(self) -> None:
        """Advance the world by the pause between two runs."""
        self.world.rest(self._settings.rest_s)


def benchmarks(settings: WolskiSettings, *, seed: int) -> Costs:
    """Return the benchmark of one host of each CPU type on dedicated machines, without an overhead."""
    world = Session(settings, seed=seed, load="unloaded").world
    one_of = {host.cpu_type: host for host in reversed(world.pool.hosts)}
    table = {
        cpu_type: {1: world.measure(world.workload(1), host, 1).seconds_per_row}
        for cpu_type, host in sorted(one_of.items())
    }
    return Costs(seconds_per_row=table)


def exact_runs(
    settings: WolskiSettings,
    runs: Sequence[tuple[int, int]],
    session: Session,
    costs: Costs,
    options: PlanningOptions,
) -> list[Scored]:
    """Return a run on exactly `pool` hosts for every (size, pool), with a rest after each."""
    done = []
    for size, pool in runs:
        try:
            record = session.run(size, costs, make_plan, replace(options, ranks=pool))
        except NoFeasiblePlan:
            # The background load's memory keeps such a pool from holding the size. It may fit at the next moment.
            session.rest()
            record = session.run(size, costs, make_plan, replace(options, ranks=pool))
        done.append(Scored(size=size, pool=pool, record=record))
        session.rest()
    return done


def shuffled(pairs: Sequence[tuple[int, int]], count: int, *, seed: int) -> list[tuple[int, int]]:
    """Return that many of the pairs, each equally often, in an order that confounds nothing with time."""
    order = np.random.default_rng(seed).permutation(count)
    return [pairs[k % len(pairs)] for k in order]


@lru_cache(maxsize=8)
def calibrated(settings: WolskiSettings, planner: str, progress: Progress) -> Costs:
    """Return costs learnt from benchmarks and the calibration runs, all on idle machines (§3.1)."""
    calibration_settings = settings.calibration
    progress(f"{calibration_settings.runs} calibration runs, {planner} model")
    costs = benchmarks(settings, seed=calibration_settings.seed)
    session = Session(settings, seed=calibration_settings.seed, load="unloaded")
    pairs = settings.combinations(session.world.workload(1).max_rows)
    runs = shuffled(pairs, calibration_settings.runs, seed=calibration_settings.seed)
    scored = exact_runs(settings, runs, session, costs, PLANNERS[planner])
    return replace(costs, overhead=fit_overhead(finished_runs(s.record for s in scored), costs))


def constants(settings: WolskiSettings, costs: Costs) -> dict[str, Any]:
    """Return the constants of the runs for a result, JSON-ready."""
    overhead = costs.overhead
    return {
        "scenario": f"configs/mock/{settings.scenario}.yaml",
        "settings": "apples_experiments/configs/wolski2000.yaml",
        "calibration_runs": settings.calibration.runs,
        "seconds_per_row": {cpu: dict(table) for cpu, table in costs.seconds_per_row.items()},
        "overhead": asdict(overhead),
    }


def _silent(line: str) -> None:
    """Ignore a progress line."""
