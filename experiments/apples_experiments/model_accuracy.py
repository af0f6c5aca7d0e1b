"""Accuracy of the performance model for runs on idle machines that it was not calibrated on (A2).

As Wolski et al. 2000, §3.1 and §4.2: the overhead is fitted to 106 runs, then 62 other runs are predicted. Here the
62 are in a world of another seed. The experiment also draws Figure 3 of the paper.
"""

from __future__ import annotations

import numpy as np

from apples.model.template import PAPER_OVERHEAD
from apples_experiments.mock_runs import (
    PLANNERS,
    Scored,
    Session,
    calibrated,
    constants,
    exact_runs,
    shuffled,
)
from apples_experiments.result import Curve, Figure, Progress, Result, Row
from apples_experiments.settings import WolskiSettings, load_settings


def model_accuracy(progress: Progress) -> Result:
    """Return A2: mean |predicted / observed - 1| over the scored runs."""
    settings = load_settings()
    costs = calibrated(settings, "paper", progress)
    scored = score(settings, "paper", progress)
    exchange_score = score(settings, "apples", progress)
    overhead = costs.overhead
    return Result(
        rows=(
            Row(name="mean |error|", paper=1.5, ours=_mean_error(scored), unit="%"),
            Row(name="runs", paper=62, ours=len(scored), unit="runs"),
            Row(
                name="mean |error| of the exchange model",
                paper=None,
                ours=_mean_error(exchange_score),
                unit="%",
            ),
            Row(name="largest |error|", paper=None, ours=100 * max(abs(s.error) for s in scored), unit="%"),
            Row(
                name="mean error", paper=None, ours=100 * float(np.mean([s.error for s in scored])), unit="%"
            ),
            Row(
                name="overhead per P²",
                paper=PAPER_OVERHEAD.per_rank2_s,
                ours=overhead.per_rank2_s,
                unit="s",
            ),
            Row(
                name="overhead, constant", paper=PAPER_OVERHEAD.constant_s, ours=overhead.constant_s, unit="s"
            ),
            Row(
                name="overhead per 1000 rows",
                paper=1000 * PAPER_OVERHEAD.per_row_s,
                ours=1000 * overhead.per_row_s,
                unit="s",
            ),
        ),
        constants=constants(settings, costs),
        seeds=(settings.calibration.seed, settings.scored.seed),
        figure=_figure_3(settings, scored),
        further={"runs": [_run_json(s) for s in scored]},
        notes=(
            "Calibration runs and scored runs live in worlds of different seeds, on the same machines.",
            "The scenario's look-up time is the paper's factor of P², its start-up time is near the paper's constant: "
            "these two rows show that calibration finds them through a queue and noise, and nothing more.",
        ),
    )


def score(settings: WolskiSettings, planner: str, progress: Progress) -> list[Scored]:
    """Return the scored runs, predicted with the costs of the calibration runs."""
    costs = calibrated(settings, planner, progress)
    progress(f"{settings.scored.runs} scored runs, {planner} model")
    session = Session(settings, seed=settings.scored.seed, load="unloaded")
    pairs = settings.combinations(session.world.workload(1).max_rows)
    runs = shuffled(pairs, settings.scored.runs, seed=settings.scored.seed)
    return exact_runs(settings, runs, session, costs, PLANNERS[planner])


def _mean_error(scored: list[Scored]) -> float:
    return 100 * float(np.mean([abs(s.error) for s in scored]))


def _run_json(scored: Scored) -> dict[str, float]:
    return {
        "size": scored.size,
        "hosts": scored.pool,
        "predicted_s": scored.record.plan.predicted_s,
        "observed_s": scored.observed_s,
    }


def _figure_3(settings: WolskiSettings, scored: list[Scored]) -> Figure:
    curves = []
    for size in settings.sizes:
        mine = sorted((s for s in scored if s.size == size), key=lambda s: s.pool)
        x = tuple(float(s.pool) for s in mine)
        curves.append(Curve(label=f"size {size}", x=x, y=tuple(s.observed_s for s in mine)))
        predicted = tuple(s.record.plan.predicted_s for s in mine)
        curves.append(Curve(label="", x=x, y=predicted, style="dashed"))
    return Figure(
        title="Predicted (dashed) and observed run time on idle machines (Figure 3)",
        x_label="hosts",
        y_label="run time [s]",
        curves=tuple(curves),
    )
