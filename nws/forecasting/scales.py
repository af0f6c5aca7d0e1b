"""Units of errors: how a value's distance from its forecast is measured, and how far values of a mean lie apart.

Above the forecast an error is the difference. Below it, errors of positive series are measured in the logarithm, so
that no quantile reaches zero. The spread of that logarithm is taken to grow with the root of the forecast, as that of
1 / (1 + n) does if n is the number of processes on a CPU: errors of an idle host must not be taken for those of a busy
one. Both kinds are of one size at the level of the series.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nws.forecasting.jit import compiled
from nws.forecasting.ladder import FADING

_MOST = np.float64(1e30)
#: Rungs from a horizon to the window whose mean is the level of the series.
_LEVEL = 5
#: Values after which a mean is not expected far beyond all of them.
_ENOUGH = 20
#: Largest difference between values, as a share of one, and smallest mean as such a share.
_FARTHEST, _NEAREST = 1e6, 1e-3


@compiled
def clip(value: float) -> float:
    """Return a value that float32 holds, and sums of 8192 of it."""
    return min(max(value, -_MOST), _MOST)


@compiled
def level_of(state: Any, rung: int) -> float:
    """Return the mean of a positive series over far more than the horizon; 0 if it is not positive."""
    if state["lowest"] <= 0.0:
        return 0.0
    return float(state["fading"][min(rung + _LEVEL, FADING - 1)])


@compiled
def error_of(value: float, forecast: float, level: float) -> float:
    """Return the error of a forecast. level : see `level_of`; with 0, errors below are differences too"""
    if value >= forecast or level <= 0.0 or forecast <= 0.0:
        return value - forecast
    return level * math.sqrt(level / forecast) * math.log(max(value, 1e-300) / forecast)


@compiled
def value_of(error: float, forecast: float, level: float) -> float:
    """Return the value at this error from the forecast; the inverse of `error_of`."""
    if error >= 0.0 or level <= 0.0 or forecast <= 0.0:
        return forecast + error
    return forecast * math.exp(error / (level * math.sqrt(level / forecast)))


@compiled
def within_reach(state: Any, value: float, scale: float, level: float) -> float:
    """Return the value, at most one scale of errors beyond all values so far once there are enough."""
    if state["samples"] < _ENOUGH:
        return value
    lowest, highest = value_of(-scale, state["lowest"], level), state["highest"] + scale
    return float(min(max(value, lowest), highest))


@compiled
def share_of(difference: float, origin: float) -> float:
    """Return a difference as a share of the origin, at most a million; 0 from an origin of 0."""
    return min(max(difference / abs(origin), -_FARTHEST), _FARTHEST) if origin != 0.0 else 0.0


@compiled
def learn_variation(state: Any, rung: int, slot: int, gain: float) -> None:
    """Take in how far the values of one complete mean lie apart."""
    k = 1 << rung
    mean = share_of(state["sum"][slot] / k, state["origin"][slot])
    level = max(abs(1.0 + mean), _NEAREST)
    seen = max(state["squares"][slot] / k - mean * mean, 0.0) / (level * level)
    state["variation"][rung] += gain * (min(seen, _FARTHEST) - state["variation"][rung])


@compiled
def variation(state: Any, rung: int) -> float:
    """Return the coefficient of variation of the values of a mean; of a shorter one before the first outcome."""
    while rung > 0 and state["outcomes"][rung] == 0:
        rung -= 1
    return math.sqrt(state["variation"][rung])
