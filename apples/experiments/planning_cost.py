"""What scheduling 34 hosts costs: forecasts fetched, hosts ordered, schedules made, the best chosen (A7).

Measured on the machine this runs on, so no two runs agree to the last bit. The forecasts come from a weather service
in the same process: what the paper's 4 s were spent on, a server across the country, is not part of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

from apples.experiments.catalogue import Progress
from apples.experiments.mock_runs import PLANNERS, Session, calibrated, constants
from apples.experiments.result import Curve, Figure, Result, Row
from apples.experiments.settings import load_settings
from apples.planning.planner import make_plan

#: §4.1: "on average less than 4 seconds", "on average roughly 1 second".
_PAPER_FETCH_S, _PAPER_PLAN_S = 4.0, 1.0
_REPEATS = 5


def planning_cost(progress: Progress) -> Result:
    """A7: medians over sizes and repeats."""
    settings = load_settings()
    seed = settings.loaded.first_seed
    session = Session(settings, seed=seed, load="loaded")
    session.world.observe()
    progress("fetching the forecasts of all hosts and pairs")
    fetch_s = statistics.median(
        _seconds(lambda: session.world.snapshot(lambda line: None)) for _ in range(20)
    )
    snapshot = session.world.snapshot(lambda line: None)
    medians: dict[str, list[float]] = {}
    candidates: dict[str, int] = {}
    for planner, options in PLANNERS.items():
        costs = calibrated(settings, planner, progress)
        progress(f"planning with the {planner} planner")
        for size in settings.sizes:
            workload = session.world.workload(size)
            candidates[planner] = make_plan(snapshot, workload, costs, options).candidates
            work = partial(make_plan, snapshot, workload, costs, options)
            took = [_seconds(work) for _ in range(_REPEATS)]
            medians.setdefault(planner, []).append(statistics.median(took))
    sizes = tuple(map(float, settings.sizes))
    return Result(
        id="A7",
        title="cost of scheduling 34 hosts",
        rows=(
            Row(name="forecasts fetched", paper=_PAPER_FETCH_S, ours=fetch_s, unit="s"),
            Row(
                name="order and plan", paper=_PAPER_PLAN_S, ours=statistics.median(medians["paper"]), unit="s"
            ),
            Row(
                name="order and plan, our planner",
                paper=_PAPER_PLAN_S,
                ours=statistics.median(medians["apples"]),
                unit="s",
            ),
            Row(name="schedules compared", paper=None, ours=candidates["paper"], unit="schedules"),
            Row(name="hosts", paper=34, ours=len(snapshot.hosts), unit="hosts"),
        ),
        constants=constants(settings, calibrated(settings, "paper", progress)),
        seeds=(seed,),
        figure=Figure(
            title="Time to order and plan for 34 hosts",
            x_label="size",
            y_label="planning time [s]",
            curves=tuple(Curve(label=p, x=sizes, y=tuple(m)) for p, m in medians.items()),
        ),
        notes=(
            "Paper: machines of 1999, forecasts from a server at another university. Ours: the machine this ran on, "
            "the weather in the same process.",
        ),
    )


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
