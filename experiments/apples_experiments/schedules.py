"""Checks of schedules on loaded machines: their constraints (A8), and their agreement with Figure 2 (A9).

Plans are made but not run. Memory is checked twice: against the forecast of the plan, and against the memory that is
truly free at that instant, which no planner can know. Source: Wolski et al. 2000, §3.3 and Figure 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from apples.model.grid import Snapshot
from apples.model.plan import Plan
from apples.model.template import Workload
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PAPER
from apples_experiments.figure_2 import read_figure_2
from apples_experiments.mock_runs import Session, calibrated, constants
from apples_experiments.result import Curve, Figure, Progress, Result, Row
from apples_experiments.settings import load_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """One plan checked against the limits. `over_forecast`, `over_truth`: ranks that do not fit in free memory."""

    placed: bool
    largest: int
    over_forecast: int
    over_truth: int
    relaxed: bool
    spread: float


def constraints(progress: Progress) -> Result:
    """Return A8: every size and pool once, on loaded machines, in as many worlds as A4 uses."""
    settings = load_settings()
    costs = calibrated(settings, "paper", progress)
    seeds = tuple(settings.loaded.first_seed + k for k in range(settings.loaded.repeats))
    checks: list[_Check] = []
    limit = 0
    for k, seed in enumerate(seeds):
        session = Session(settings, seed=seed, load="loaded")
        snapshot = session.world.snapshot(lambda line: None)
        limit = session.world.workload(1).max_rows or 0
        cases = settings.combinations(limit)[k :: len(seeds)]
        progress(f"{len(cases)} plans in world {seed}")
        for size, pool in cases:
            workload = session.world.workload(size)
            plan = make_plan(snapshot, workload, costs, replace(PAPER, max_ranks=pool))
            checks.append(_check(session, snapshot, plan, workload))
    return Result(
        rows=_constraint_rows(checks, limit),
        constants={**constants(settings, costs), "tolerance": PAPER.tolerance, "array_limit_rows": limit},
        seeds=seeds,
        figure=Figure(
            title="Largest slab of each plan",
            x_label="plan",
            y_label="rows",
            curves=(
                Curve(
                    label="largest slab",
                    x=tuple(map(float, range(len(checks)))),
                    y=tuple(float(c.largest) for c in checks),
                    style="points",
                ),
            ),
        ),
        notes=("The largest slab may be anything up to the array limit; the paper's figure is that limit.",),
    )


def _constraint_rows(checks: list[_Check], limit: int) -> tuple[Row, ...]:
    placed = 100 * float(np.mean([c.placed for c in checks]))
    return (
        Row(name="plans that place all work in whole rows", paper=100, ours=placed, unit="%"),
        Row(
            name="ranks over the forecast of free memory",
            paper=0,
            ours=sum(c.over_forecast for c in checks),
            unit="ranks",
        ),
        Row(
            name="ranks over what was truly free",
            paper=0,
            ours=sum(c.over_truth for c in checks),
            unit="ranks",
        ),
        Row(name="largest slab", paper=limit, ours=max(c.largest for c in checks), unit="rows"),
        Row(name="plans", paper=None, ours=len(checks), unit="plans"),
        Row(
            name="plans with the balance tolerance widened",
            paper=None,
            ours=sum(c.relaxed for c in checks),
            unit="plans",
        ),
        Row(
            name="median spread of finish times",
            paper=None,
            ours=100 * float(np.median([c.spread for c in checks])),
            unit="%",
        ),
    )


def figure_2(progress: Progress) -> Result:
    """Return A9: the planner with the paper's options against a second implementation of the pseudo-code."""
    settings = load_settings()
    costs = calibrated(settings, "paper", progress)
    seeds = (settings.loaded.first_seed, settings.loaded.first_seed + 1)
    same, worst, looked, cases = 0, 0.0, set(), 0
    planned, read = [], []
    expected = 0
    for seed in seeds:
        session = Session(settings, seed=seed, load="loaded")
        snapshot = session.world.snapshot(lambda line: None)
        expected = 3 * (len(snapshot.hosts) // 2)
        for size in settings.sizes:
            progress(f"size {size}, world {seed}")
            workload = session.world.workload(size)
            plan = make_plan(snapshot, workload, costs, PAPER)
            reading = read_figure_2(snapshot, workload, costs)
            cases += 1
            same += len(plan.hosts) == reading.hosts
            looked.add(plan.candidates)
            worst = max(worst, abs(plan.predicted_s / reading.seconds - 1))
            planned.append(plan.predicted_s)
            read.append(reading.seconds)
    return Result(
        rows=(
            Row(
                name="schedules compared: 3 orders, even n",
                paper=expected,
                ours=max(looked),
                unit="schedules",
            ),
            Row(name="cases with the same number of hosts", paper=cases, ours=same, unit="cases"),
            Row(name="largest difference of predicted time", paper=0, ours=100 * worst, unit="%"),
        ),
        constants=constants(settings, costs),
        seeds=seeds,
        figure=Figure(
            title="Predicted run time: planner and a second reading of Figure 2",
            x_label="second reading [s]",
            y_label="planner [s]",
            curves=(Curve(label="cases", x=tuple(read), y=tuple(planned), style="points"),),
        ),
        notes=("The second reading stays in real rows; whole rows cost the planner up to one row's time.",),
    )


def _check(session: Session, snapshot: Snapshot, plan: Plan, workload: Workload) -> _Check:
    truth = session.world.truth
    processes = truth.processes(truth.now + 1.0)
    over_forecast = over_truth = 0
    for a in plan.assignments:
        h = truth.host_index(a.host)
        need = workload.bytes_fixed + workload.bytes_per_row * a.rows
        over_forecast += need > snapshot.conditions[h].memory_bytes.value
        over_truth += need > float(truth.free_memory(h, processes[h][1].at(truth.now)))
    finishes = [a.predicted_s for a in plan.assignments]
    return _Check(
        placed=sum(plan.rows) == workload.size,
        largest=max(plan.rows),
        over_forecast=over_forecast,
        over_truth=over_truth,
        relaxed=bool(plan.relaxed),
        spread=1 - min(finishes) / max(finishes),
    )
