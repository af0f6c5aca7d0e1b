"""The simple methods: last value, running mean, exponential smoothing, and windows that adapt.

Each adds the new value to the record of its series and writes its forecast of the next one. Nothing here judges a
method. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nws.forecasting.jit import compiled
from nws.forecasting.layout import (
    ADAPT_SCORE,
    ADAPTIVE_MEAN,
    ADAPTIVE_MEDIAN,
    EXPONENTIAL,
    GAINS,
    LAST,
    MAE,
    MEAN,
    MEDIAN,
    RUN_MEAN,
    SLIDING,
)

_GAIN = np.array(GAINS)
_TOP = len(SLIDING)


@compiled
def predict_last(state: Any, value: float) -> None:
    """Forecast the next value by this one."""
    state["predicted"][LAST] = value


@compiled
def predict_running_mean(state: Any, value: float) -> None:
    """Mean of everything seen; `samples` counts `value` already."""
    state["run_mean"] += (value - state["run_mean"]) / state["samples"]
    state["predicted"][RUN_MEAN] = state["run_mean"]


@compiled
def predict_exponential(state: Any, value: float) -> None:
    """Smoothed value of every gain: s += gain·(value - s), beginning at the first value."""
    smoothed, predicted = state["smoothed"], state["predicted"]
    for i in range(len(_GAIN)):
        if state["samples"] == 1:
            smoothed[i] = value
        else:
            smoothed[i] += _GAIN[i] * (value - smoothed[i])
        predicted[EXPONENTIAL + i] = smoothed[i]


@compiled
def rung_method(first: int, rung: int) -> int:
    """Return method on a rung of the ladder: the last value, then the windows from the shortest, from `first` on."""
    return LAST if rung == 0 else first + rung - 1


@compiled
def next_rung(loss: Any, first: int, rung: int) -> int:
    """Return one step towards the neighbouring window that did better lately, up or down alike; or stay.

    loss : uint32[methods], recent absolute errors
    """
    best, lowest = rung, loss[rung_method(first, rung)]
    for neighbour in (rung - 1, rung + 1):
        if 0 <= neighbour <= _TOP and loss[rung_method(first, neighbour)] < lowest:
            best, lowest = neighbour, loss[rung_method(first, neighbour)]
    return best


@compiled
def predict_adaptive(state: Any) -> None:
    """Forecast by mean and median over a window that grows and shrinks by one rung at a time, by its errors."""
    loss, predicted, rung = state["fading_loss"][ADAPT_SCORE, MAE], state["predicted"], state["rung"]
    rung[0] = next_rung(loss, MEAN, rung[0])
    rung[1] = next_rung(loss, MEDIAN, rung[1])
    predicted[ADAPTIVE_MEAN] = predicted[rung_method(MEAN, rung[0])]
    predicted[ADAPTIVE_MEDIAN] = predicted[rung_method(MEDIAN, rung[1])]
