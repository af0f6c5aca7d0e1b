"""Results of a sweep: rows with the paper's figures, tables by load, and the paper's curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from apples_experiments.coscheduled_tables import ALGORITHMS
from apples_experiments.dynamic_runs import DynamicCase, Sweep
from apples_experiments.dynamicjobs.measures import WorkloadFigures, by_length
from apples_experiments.result import Curve, Figure, Row

#: Name and unit of every figure that is compared at one load.
SHOWN: Mapping[str, tuple[str, Callable[[WorkloadFigures], float]]] = {
    "mean response": ("s", lambda figures: figures.response.mean),
    "mean bounded slowdown": ("", lambda figures: figures.slowdown.mean),
    "median response": ("s", lambda figures: figures.response.median),
    "median bounded slowdown": ("", lambda figures: figures.slowdown.median),
    "median response, short half of the jobs": ("s", lambda figures: figures.short.median),
    "median response, long half of the jobs": ("s", lambda figures: figures.long.median),
    "utilisation": ("%", lambda figures: 100 * figures.utilisation),
}
_PANELS = ("mean response", "mean bounded slowdown", "median response", "median bounded slowdown")
_CDF_POINTS = 200


def algorithms(sweep: Sweep) -> dict[str, str]:
    """Return the policies that were run, by the paper's name."""
    return {name: policy for name, policy in ALGORITHMS.items() if policy in sweep.policies}


def saturation_rows(sweep: Sweep, keeps_up: float, paper: Mapping[str, float]) -> list[Row]:
    """Return the saturation of each policy and of an ideal machine without waste. `paper`: by algorithm, %."""
    rows = [
        Row(
            name=f"{name}, saturation",
            paper=paper.get(name),
            ours=100 * sweep.saturation(policy, keeps_up).load,
            unit="% offered",
        )
        for name, policy in algorithms(sweep).items()
    ]
    ours = 100 * sweep.ideal_saturation(keeps_up).load
    return [
        *rows,
        Row(name="a machine that wastes nothing, saturation", paper=None, ours=ours, unit="% offered"),
    ]


def throughput_rows(sweep: Sweep) -> list[Row]:
    """Return for each policy the work done per time, as jobs in isolation, while its queue is full."""
    return [
        Row(
            name=f"{name}, throughput with a full queue",
            paper=None,
            ours=100 * sweep.mean(policy, sweep.full, _throughput),
            unit="% of the machine",
        )
        for name, policy in algorithms(sweep).items()
    ]


def gain_rows(sweep: Sweep, keeps_up: float, paper: float) -> list[Row]:
    """Return FCS's saturation and throughput over FCFS's, if both were run. `paper`: value for saturation."""
    if not {"fcs", "batch"} <= set(sweep.policies):
        return []
    saturation = sweep.saturation("fcs", keeps_up).load / sweep.saturation("batch", keeps_up).load
    full = sweep.mean("fcs", sweep.full, _throughput) / sweep.mean("batch", sweep.full, _throughput)
    return [
        Row(name="FCS over FCFS, saturation", paper=paper, ours=saturation, unit=""),
        Row(name="FCS over FCFS, throughput with a full queue", paper=None, ours=full, unit=""),
    ]


def shown_rows(sweep: Sweep, load: float) -> list[Row]:
    """Return every figure at one load, means over the seeds; the paper has them as curves without numbers."""
    return [
        Row(
            name=f"{name}, {what} at {load:.0%}",
            paper=None,
            ours=sweep.mean(policy, load, figure),
            unit=unit,
        )
        for what, (unit, figure) in SHOWN.items()
        for name, policy in algorithms(sweep).items()
    ]


def best_rows(sweep: Sweep, load: float) -> list[Row]:
    """Return FCS over the best of the others; the paper's curves show values below 1."""
    others = [policy for policy in sweep.policies if policy != "fcs"]
    if len(others) in (0, len(sweep.policies)):
        return []
    rows = []
    for what in ("mean response", "mean bounded slowdown"):
        figure = SHOWN[what][1]
        best = min(sweep.mean(policy, load, figure) for policy in others)
        ours = sweep.mean("fcs", load, figure) / best
        rows.append(
            Row(name=f"FCS over the best other, {what} at {load:.0%}", paper=None, ours=ours, unit="")
        )
    return rows


def saturation_notes(sweep: Sweep, keeps_up: float) -> list[str]:
    """Return notes on the saturations that the sweep did not reach, and on the spread over the seeds."""
    notes = []
    for name, policy in algorithms(sweep).items():
        found = sweep.saturation(policy, keeps_up)
        if found.bound != "at":
            notes.append(f"{name} saturates {found.bound} {found.load:.0%}, the end of the sweep.")
        if len(sweep.seeds) > 1:
            loads = sorted(sweep.saturation(policy, keeps_up, seed).load for seed in sweep.seeds)
            done = sorted(sweep.over_seeds(policy, sweep.full, _throughput))
            notes.append(
                f"{name}, single seeds: saturation {loads[0]:.0%} to {loads[-1]:.0%}, "
                f"throughput with a full queue {done[0]:.0%} to {done[-1]:.0%}."
            )
    return notes


def as_json(sweep: Sweep, keeps_up: float) -> dict[str, Any]:
    """Return tables by policy and load: means over the seeds, every seed's figures, and saturation of each."""
    return {
        "saturation": {
            policy: {
                **asdict(sweep.saturation(policy, keeps_up)),
                "by_seed": [asdict(sweep.saturation(policy, keeps_up, seed)) for seed in sweep.seeds],
            }
            for policy in sweep.policies
        },
        "sweep": [
            {
                "policy": policy,
                "load": load,
                "accepted": sweep.mean(policy, load, lambda figures: figures.accepted),
                "throughput": sweep.mean(policy, load, _throughput),
                **{what: sweep.mean(policy, load, figure) for what, (_, figure) in SHOWN.items()},
                "seeds": [
                    asdict(sweep.figures[DynamicCase(policy=policy, load=load, seed=seed)])
                    for seed in sweep.seeds
                ],
            }
            for policy in sweep.policies
            for load in (*sweep.loads, sweep.full)
        ],
    }


def panels(sweep: Sweep, figure: int) -> list[Figure]:
    """Return the four panels of the paper's Figure 7 or 9, and a panel of the accepted load."""
    found = [
        Figure(
            title=f"Figure {figure}{letter}: {what}",
            x_label="offered load [%]",
            y_label=f"{what} [{unit}]" if (unit := SHOWN[what][0]) else what,
            curves=_by_load(sweep, SHOWN[what][1]),
        )
        for letter, what in zip("abcd", _PANELS, strict=True)
    ]
    accepted = Figure(
        title="Accepted load",
        x_label="offered load [%]",
        y_label="accepted load [%]",
        curves=_by_load(sweep, lambda figures: 100 * figures.accepted),
    )
    return [*found, accepted]


def distributions(sweep: Sweep, load: float) -> list[Figure]:
    """Return Figure 8: response times of the short and of the long half of the jobs, all seeds together."""
    return [
        Figure(
            title=f"Figure 8{letter}: {half} half of the jobs at {load:.0%}",
            x_label="response [s]",
            y_label="share of jobs",
            curves=tuple(_distribution(sweep, name, policy, (load, half)) for name, policy in named),
            log_x=True,
        )
        for named in (algorithms(sweep).items(),)
        for letter, half in (("a", "short"), ("b", "long"))
    ]


def _by_load(sweep: Sweep, figure: Callable[[WorkloadFigures], float]) -> tuple[Curve, ...]:
    x = tuple(100 * load for load in sweep.loads)
    return tuple(
        Curve(label=name, x=x, y=tuple(sweep.mean(policy, load, figure) for load in sweep.loads))
        for name, policy in algorithms(sweep).items()
    )


def _distribution(sweep: Sweep, name: str, policy: str, what: tuple[float, str]) -> Curve:
    load, half = what
    responses = []
    for seed in sweep.seeds:
        course = sweep.courses[DynamicCase(policy=policy, load=load, seed=seed)]
        order = by_length(course)
        middle = len(order) // 2
        chosen = order[:middle] if half == "short" else order[middle:]
        responses.append(course.response[chosen])
    levels = np.linspace(0.0, 1.0, _CDF_POINTS)
    values = np.quantile(np.concatenate(responses), levels)
    return Curve(label=name, x=tuple(values.tolist()), y=tuple(levels.tolist()), style="plain")


def _throughput(figures: WorkloadFigures) -> float:
    return figures.throughput
