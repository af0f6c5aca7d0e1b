"""W6-W9 of Tang et al. 2013: effect of adjusted estimates on a queue, month by month.

Each month of a log is replayed from an empty machine, without adjustment and with it; WFP and FCFS, regular (adjusted
everywhere) and selective (running jobs keep their requests). A gain is 1 - adjusted / not adjusted of one month, and
the rows are means over months, as in the paper.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache

import numpy as np

from apples.queueing.jobs import OFF, SWITCHES
from apples.queueing.metrics import Metrics
from apples.queueing.settings import OVERRUNS, QueueSettings
from apples.simulation.batch.batchmachine import Replay, simulate
from apples_experiments.result import Curve, Figure, Progress, Result, Row
from apples_experiments.walltime_accuracy import ACKNOWLEDGED, OTHER_LOG
from apples_experiments.walltime_logs import Log, estimates, load_log, load_settings, month_masks, past_ratios

MEASURES = ("wait", "slowdown", "weighted wait")

#: The paper's mean gains at p85 in %, in the order of `MEASURES`; sections 6.2.1 and 6.2.2 (regular FCFS: none).
ON_PAPER: Mapping[tuple[str, str], tuple[float, float, float] | None] = {
    ("wfp", "regular"): (15.0, 16.0, 19.0),
    ("wfp", "selective"): (22.0, 22.0, 28.0),
    ("fcfs", "regular"): None,
    ("fcfs", "selective"): (20.0, 22.0, 15.0),
}


def gains(progress: Progress, priority: str, adjust: str) -> Result:
    """Return W6 to W9: gains under one priority and one adjustment."""
    settings = load_settings()
    rows, curves, further = [], [], {}
    for log in settings.logs:
        before = _months(log, priority, "off", None, settings.months.overrun, progress)
        further[f"{log.name} not adjusted"] = _plain(before)
        for percentile in settings.months.percentiles:
            after = _months(log, priority, adjust, percentile, settings.months.overrun, progress)
            further[f"{log.name} p{percentile:g}"] = _plain(after)
            paper = ON_PAPER[priority, adjust] if percentile == 85 else None
            rows += _gains(f"{log.name} p{percentile:g}", before, after, paper)
            ratios = [100 * b["wait"] / a["wait"] if a["wait"] else 100.0 for a, b in _pairs(before, after)]
            months = tuple(float(number) for number in before)
            curves.append(Curve(label=f"{log.name}, p{percentile:g}", x=months, y=tuple(ratios)))
        if adjust == "regular":
            rows += _other_rules(log, priority, before, progress)
    figure = Figure(
        title=f"{priority.upper()}, {adjust} adjustment",
        x_label="month of the log",
        y_label="mean wait, % of that without adjustment",
        curves=tuple(curves),
    )
    return Result(
        rows=tuple(rows),
        constants=dataclasses.asdict(settings.months),
        seeds=(),
        figure=figure,
        further={"months": further},
        notes=(
            "a gain is 1 - adjusted / not adjusted; a negative one is a loss",
            "months are of 30 days, replayed from an empty machine; jobs that outlive their request are ended by it",
            OTHER_LOG,
            ACKNOWLEDGED,
        ),
    )


Values = dict[int, dict[str, float]]
"""Month → measure → s, or slowdown."""


def _other_rules(log: Log, priority: str, before: Values, progress: Progress) -> list[Row]:
    """Return regular adjustment at p85 under the other rules for running jobs that outlive their estimates."""
    rows = []
    for rule in OVERRUNS:
        if rule != load_settings().months.overrun:
            after = _months(log, priority, "regular", 85.0, rule, progress)
            rows += _gains(f"{log.name} p85, overrun {rule}", before, after, None)
    return rows


@cache
def _months(
    log: Log, priority: str, adjust: str, percentile: float | None, overrun: str, progress: Progress
) -> Values:
    """Return the replays of all months. `percentile`: None for unadjusted requests."""
    months, floor = load_settings().months, load_settings().floor
    trace = load_log(log)
    known = trace.request
    if percentile is not None:
        percentiles = tuple(sorted({*months.percentiles, 85.0}))
        ratios = past_ratios(log, months.key, months.window, percentiles, progress)
        known = estimates(trace, ratios[:, percentiles.index(percentile)], floor)
    how = Replay(
        queue=QueueSettings(priority=priority, overrun=overrun, increment_s=months.increment),
        switches=OFF if percentile is None else SWITCHES[adjust],
    )
    measured = {}
    for number, chosen in month_masks(trace, months):
        label = (
            "requests as they are" if percentile is None else f"p{percentile:g} {adjust}, overrun {overrun}"
        )
        progress(f"{log.name}, month {number}: {priority}, {label}")
        schedule = simulate(trace.take(chosen), how, np.ascontiguousarray(known[chosen]))
        measured[number] = _measured(schedule.metrics(priority))
    return measured


def _measured(metrics: Metrics) -> dict[str, float]:
    values = (metrics.wait.mean, metrics.slowdown.mean, metrics.weighted_wait)
    further = {"bounded slowdown": metrics.bounded_slowdown.mean, "utilisation": metrics.utilisation}
    return {**dict(zip(MEASURES, values, strict=True)), **further, "jobs": float(metrics.jobs)}


def _pairs(before: Values, after: Values) -> list[tuple[dict[str, float], dict[str, float]]]:
    return [(before[number], after[number]) for number in before]


def _gains(name: str, before: Values, after: Values, paper: tuple[float, float, float] | None) -> list[Row]:
    """Return the mean gain over months and the share of months that got worse, for each measure."""
    rows = []
    for index, measure in enumerate(MEASURES):
        gains = [100 * (1 - b[measure] / a[measure]) for a, b in _pairs(before, after) if a[measure] > 0]
        if not gains:
            continue
        stated = paper[index] if paper else None
        rows.append(Row(name=f"{name}: {measure}, gain", paper=stated, ours=float(np.mean(gains)), unit="%"))
        worse = 100 * float(np.mean([gain < 0 for gain in gains]))
        rows.append(Row(name=f"{name}: {measure}, months worse", paper=None, ours=worse, unit="%"))
    return rows


def _plain(values: Values) -> dict[str, dict[str, float]]:
    return {str(number): measured for number, measured in values.items()}
