"""What is known of the errors of forecasts before their own outcomes: from shorter horizons and from other series.

A horizon with few outcomes borrows from the next shorter one: errors in a shape that comes closer to Laplace's
distribution with each rung, as averaging tames spikes. A new series borrows from others of its kind: the mean of their
errors relative to their levels, its growth with the horizon, and the histogram of these relative errors over all of
them; at longer horizons, relative to each one's errors at the next shorter. Its own outcomes count from the first, and
outweigh the others' after a few. Without others the scale of errors is the largest value itself, and their shape is
Laplace's.

Source: Gelman et al., Bayesian Data Analysis, 2013, chapter 5 (partial pooling).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nws.forecasting.compiling import compiled, run
from nws.forecasting.histograms import COUNT, MEMORY, PRIOR, stretch
from nws.forecasting.ladder import BINS, RUNGS

#: Weights, in outcomes, of the scale of the next shorter horizon, of that of other series, and of the largest value.
_SHORTER, _OTHERS, _NOTHING = 8.0, 2.0, 1.0
#: Weights, in outcomes, of the shape of the shorter horizon's errors, and of that of other series.
_SHAPE, _LENT = 20.0, 10.0
#: Weight of the largest value beside the mean error of other series, in series.
_FEW = 0.5
_TAMED = 0.5
_LEAST_GROWTH, _MOST_GROWTH = 0.7, 1.0
#: Outcomes of a horizon from which on a series lends.
_LEARNT = 20
#: Series of one kind that are examined and pooled at most, and pooled at least if there is a wider kind.
_MOST_EXAMINED, _MOST_LENDERS, _FEWEST_LENDERS = 1024, 64, 3


@compiled
def first_scale(state: Any) -> Any:
    """Return the scale of errors before any outcome, and how it grows with the horizon: float64[2]."""
    scale = max(abs(state["last"]), abs(state["lowest"]), abs(state["highest"]))
    if state["lent"] > 0.0:
        # others' forecasts come from many values, those of a new series from few
        scale *= float(state["lent"]) * math.sqrt(1.0 + 1.0 / state["samples"])
    return np.array([scale, 1.0])


@compiled
def borrow_errors(state: Any, rung: int, scale: Any, histogram: Any) -> None:
    """Turn the known errors of the shorter rung into errors of this rung.

    scale : float64[2], scale of the errors and its ratio to that of the rung before;  histogram : float64[BINS], sum 1
    """
    n = state["outcomes"][rung]
    counted = state["histogram"][rung].sum()
    # a lent histogram counts before the first outcome
    known = float(min(max(n, counted // COUNT), MEMORY))
    measured = known / max(counted, 1)
    for b in range(BINS):
        borrowed_share = histogram[b] + _TAMED * (PRIOR[b] - histogram[b])
        histogram[b] = (measured * state["histogram"][rung, b] + _SHAPE * borrowed_share) / (known + _SHAPE)
    # errors of means are not taken to shrink further far beyond the length of the series
    shrinks = (1 << rung) <= 4 * state["samples"]
    if n == 0 and rung > 0 and state["scale"][rung] > 0.0:
        # before the first outcome this is the growth of others' errors
        scale[1] = float(state["scale"][rung])
        shrinks = (1 << rung) <= state["samples"]
    borrowed = scale[0] * (scale[1] if shrinks else max(scale[1], 1.0))
    measured = float(state["scale"][rung])
    if n == 0:
        scale[0] = borrowed
        return
    if borrowed <= 0.0:
        scale[0] = measured
        return
    weight = _SHORTER
    if rung == 0:
        weight = _OTHERS if state["lent"] > 0.0 else _NOTHING
    # a few outcomes without any error do not prove that there are none
    measured = max(measured, borrowed * math.exp(-float(min(n, 30))))
    logarithm = math.log(measured) if measured > 0.0 else -math.inf
    before = scale[0]
    scale[0] = math.exp((n * logarithm + weight * math.log(borrowed)) / (n + weight))
    if rung > 0:
        scale[1] = min(max(scale[0] / before, _LEAST_GROWTH), _MOST_GROWTH)


def lend(states: NDArray[np.void], borrowers: NDArray[np.int64], kinds: NDArray[np.int64]) -> None:
    """Let series without values start from the errors of others; without any that has learnt, they stay as they are.

    states : STATE[series];  borrowers : int64[n] of series
    kinds : int64[k, series], a series borrows from those with the same number in a row; the first rows are preferred,
    and negative numbers are no kind
    """
    for row, kind in enumerate(kinds):
        waiting = kind[borrowers]
        served = np.zeros(len(borrowers), np.bool_)
        for one in np.unique(waiting[waiting >= 0]):
            lenders = _evenly(np.flatnonzero(kind == one), _MOST_EXAMINED)
            lenders = _evenly(lenders[states["outcomes"][lenders, 0] >= _LEARNT], _MOST_LENDERS)
            if len(lenders) >= (1 if row == len(kinds) - 1 else _FEWEST_LENDERS):
                run(lend_pooled, len(lenders), states, lenders, borrowers[waiting == one])
                served |= waiting == one
        borrowers = borrowers[~served]


def _evenly(places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return at most so many of the places, evenly spaced."""
    # a strided array is another type to the compiler
    return np.ascontiguousarray(places[:: max(math.ceil(len(places) / most), 1)])


@compiled
def lend_pooled(states: Any, lenders: Any, borrowers: Any) -> None:
    """Let series without values start from the pooled errors of others.

    states : STATE[series];  lenders, borrowers : int64[n] of series
    """
    before = 0.0
    for rung in range(RUNGS):
        mean, count = 0.0, 0
        for i in range(len(lenders)):
            relative = _relative_scale(states[lenders[i]], rung)
            if relative >= 0.0:
                mean += min(relative, 1.0)
                count += 1
        if mean == 0.0:
            return
        mean /= count
        pooled = np.zeros(BINS)
        for i in range(len(lenders)):
            relative = _relative_scale(states[lenders[i]], rung)
            if relative >= 0.0:
                # own errors at shorter horizons show how large those of the borrower are
                shorter = _relative_scale(states[lenders[i]], rung - 1) if rung > 0 else 0.0
                usual = mean * shorter / before if shorter > 0.0 else mean
                stretch(states[lenders[i]]["histogram"][rung], relative / usual, pooled)
        for i in range(len(borrowers)):
            state = states[borrowers[i]]
            if rung == 0:
                state["lent"] = mean ** (count / (count + _FEW))
            else:
                state["scale"][rung] = mean / before
            for b in range(BINS):
                state["histogram"][rung, b] = int(pooled[b] / count * _LENT * COUNT + 0.5)
        before = mean


@compiled
def _relative_scale(state: Any, rung: int) -> float:
    """Return the scale of a series' errors divided by its level; negative before it has learnt.

    The level is the mean of the series, or its largest value if values of both signs occur.
    """
    level = abs(state["run_mean"])
    if state["lowest"] < 0.0 < state["highest"]:
        level = max(-state["lowest"], state["highest"])
    if state["outcomes"][rung] < _LEARNT or level == 0.0:
        return -1.0
    return float(float(state["scale"][rung]) / level)
