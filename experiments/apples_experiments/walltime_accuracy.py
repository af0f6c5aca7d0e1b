"""W1-W5 of Tang et al. 2013: inaccuracy of requests, and gain from adjusting them by similar jobs.

No simulation: every job of a log is evaluated at its submission with the jobs that had ended in the log by then. The
paper's figures are from another machine's log; they are shown beside ours for orientation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from apples.queueing.metrics import EstimateAccuracy, judge
from apples_experiments.result import Curve, Figure, Progress, Result, Row
from apples_experiments.walltime_logs import (
    Log,
    TangSettings,
    estimates,
    groups,
    load_log,
    load_settings,
    past_ratios,
    spread_in_groups,
)

OTHER_LOG = "the paper's figures are of ANL Intrepid, whose log is not to be had with users and projects"
ACKNOWLEDGED = (
    "logs of the Parallel Workloads Archive; Curie's was provided by Joseph Emeras (CEA/CNRS), "
    "RICC's by Motoyoshi Kurokawa (RIKEN)"
)

_SPREAD_ON_PAPER = {"all": 0.335, "project": 0.308, "user": 0.294, "double": 0.285, "triple": 0.253}
_MONTH_S = 30 * 86400.0


def ratio(progress: Progress) -> Result:
    """Return W1: run time over request."""
    rows, curves = [], []
    for log in load_settings().logs:
        progress(f"{log.name}: reading")
        trace = load_log(log)
        used = np.minimum(trace.run / trace.request, 1.0)
        for what, paper, ours in (
            ("mean of R", 0.50, float(used.mean())),
            ("standard deviation of R", 0.33, float(used.std())),
            ("jobs under half of their request", 0.50, float((used < 0.5).mean())),
            ("jobs under a fifth", 0.28, float((used < 0.2).mean())),
            ("jobs over 0.8", 0.25, float((used > 0.8).mean())),
        ):
            rows.append(Row(name=f"{log.name}: {what}", paper=paper, ours=ours, unit=""))
        edges = np.linspace(0, 1, 21)
        share = np.searchsorted(np.sort(used), edges, side="right") / len(used)
        curves.append(Curve(label=log.name, x=tuple(edges.tolist()), y=tuple(share.tolist())))
    return _result(rows, _figure("R of jobs", "R", "share of jobs up to R", curves))


def spread(progress: Progress) -> Result:
    """Return W2: standard deviation of R inside groups of similar jobs."""
    settings = load_settings()
    rows, curves = [], []
    for log in settings.logs:
        values = []
        for key, paper in _SPREAD_ON_PAPER.items():
            progress(f"{log.name}: groups by {key}")
            trace = load_log(log)
            value, count = spread_in_groups(trace, groups(trace, key), settings.minimum)
            values.append(value)
            rows.append(Row(name=f"{log.name}: {key} ({count} groups)", paper=paper, ours=value, unit=""))
        places = tuple(float(place) for place in range(len(values)))
        curves.append(Curve(label=log.name, x=places, y=tuple(values), style="points"))
    title = "spread of R in groups: " + ", ".join(_SPREAD_ON_PAPER)
    return _result(rows, _figure(title, "key", "mean standard deviation of R", curves))


def by_key(progress: Progress) -> Result:
    """Return W3: accuracy by key and percentile, all history, no floor (section 4.2.2)."""
    settings = load_settings()
    rows, curves, further = [], [], {}
    for log in settings.logs:
        trace = load_log(log)
        before = judge(trace.request, trace.run, trace.request)
        rows.append(Row(name=f"{log.name}: requests", paper=0.50, ours=before.accuracy.mean, unit=""))
        for key in ("project", "user", "double", "triple"):
            found = _judged(log, settings, key, math.inf, 0.0, progress)
            further[f"{log.name} {key}"] = _plain(settings, found)
            values = tuple(one.accuracy.mean for one in found)
            curves.append(Curve(label=f"{log.name}, {key}", x=settings.percentiles, y=values))
            for percentile, value in zip(settings.percentiles, values, strict=True):
                paper = 0.679 if (key, percentile) == ("triple", 70) else None
                rows.append(Row(name=f"{log.name}: {key}, p{percentile:g}", paper=paper, ours=value, unit=""))
    figure = _figure("accuracy by key and percentile", "percentile", "mean accuracy", curves)
    return _result(rows, figure, further)


def shares(progress: Progress) -> Result:
    """Return W4: shares of jobs by extent of adjustment; floor, minimum and a month of history."""
    settings = load_settings()
    rows, curves, further = [], [], {}
    for log in settings.logs:
        for key in ("double", "triple"):
            found = _judged(log, settings, key, _MONTH_S, settings.floor, progress)
            further[f"{log.name} {key}"] = _plain(settings, found)
            for percentile, one in zip(settings.percentiles, found, strict=True):
                name = f"{log.name}: {key}, p{percentile:g}"
                limits = (0.10, 0.015) if key == "triple" and percentile == 85 else (None, None)
                rows += [
                    Row(name=f"{name}, NA", paper=None, ours=one.not_adjusted, unit=""),
                    Row(name=f"{name}, OE", paper=None, ours=one.over, unit=""),
                    Row(
                        name=f"{name}, UE + BE (paper: under)",
                        paper=limits[0],
                        ours=one.under + one.bad,
                        unit="",
                    ),
                    Row(name=f"{name}, BE (paper: under)", paper=limits[1], ours=one.bad, unit=""),
                ]
            for what, of in _KINDS.items():
                label = f"{log.name}, {what}"
                if key == "triple":
                    curves.append(Curve(label=label, x=settings.percentiles, y=tuple(map(of, found))))
    figure = _figure("jobs by extent of adjustment, triple key", "percentile", "share of jobs", curves)
    return _result(rows, figure, further)


def by_window(progress: Progress) -> Result:
    """Return W5: accuracy and underestimates by window of history, triple key, without the floor and with it."""
    settings = load_settings()
    rows, curves, further = [], [], {}
    for log in settings.logs:
        for window in (*settings.windows, math.inf):
            label = f"{log.name}: " + ("all" if math.isinf(window) else f"{window / 86400:.0f} days")
            for floor in (0.0, settings.floor):
                found = _judged(log, settings, "triple", window, floor, progress)
                further[f"{label}, floor {floor:g}"] = _plain(settings, found)
                for percentile, one in zip(settings.percentiles, found, strict=True):
                    name = f"{label}, p{percentile:g}, floor {floor:g}"
                    rows.append(Row(name=f"{name}, accuracy", paper=None, ours=one.accuracy.mean, unit=""))
                    rows.append(Row(name=f"{name}, UE", paper=None, ours=one.under, unit=""))
                    rows.append(Row(name=f"{name}, BE", paper=None, ours=one.bad, unit=""))
                if floor == 0.0:
                    values = tuple(one.accuracy.mean for one in found)
                    curves.append(Curve(label=label, x=settings.percentiles, y=values))
    figure = _figure(
        "accuracy by window of history, triple key, no floor", "percentile", "mean accuracy", curves
    )
    return _result(rows, figure, further)


_KINDS: dict[str, Callable[[EstimateAccuracy], float]] = {
    "NA": lambda one: one.not_adjusted,
    "OE": lambda one: one.over,
    "UE": lambda one: one.under,
    "BE": lambda one: one.bad,
}


def _judged(
    log: Log, settings: TangSettings, key: str, window_s: float, floor: float, progress: Progress
) -> list[EstimateAccuracy]:
    """Return the accuracy for every percentile of the settings."""
    trace = load_log(log)
    ratios = past_ratios(log, key, window_s, settings.percentiles, progress)
    return [judge(estimates(trace, column, floor), trace.run, trace.request) for column in ratios.T]


def _plain(settings: TangSettings, accuracies: list[EstimateAccuracy]) -> dict[str, object]:
    return {
        f"p{p:g}": dataclasses.asdict(one) for p, one in zip(settings.percentiles, accuracies, strict=True)
    }


def _figure(title: str, x: str, y: str, curves: list[Curve]) -> Figure:
    return Figure(title=title, x_label=x, y_label=y, curves=tuple(curves))


def _result(rows: list[Row], figure: Figure, further: Mapping[str, object] | None = None) -> Result:
    return Result(
        rows=tuple(rows),
        constants=dataclasses.asdict(load_settings()),
        seeds=(),
        figure=figure,
        further={} if further is None else {"judged": dict(further)},
        notes=(OTHER_LOG, ACKNOWLEDGED),
    )
