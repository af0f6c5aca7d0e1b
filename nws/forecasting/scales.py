"""Units of errors: how a value's distance from its forecast is measured, and how far values of a mean lie apart.

Above the forecast an error is the difference. Below it, errors of positive series are measured in the logarithm, so
that no quantile reaches zero. The spread of that logarithm is taken to grow with the root of the forecast, as that of
1 / (1 + n) does if n is the number of processes on a CPU: errors of an idle host must not be taken for those of a busy
one. Both kinds are of one size at the level of the series.

Tails of forecasts' errors, corrected by their outcomes: adaptive conformal inference at two paces.

A slow pace keeps the long-run share of ranges that hold; a fast one reacts to a change of load. The paces are weighted
by their losses lately. Source: Gibbs & Candès, Conformal Inference for Online Prediction with Arbitrary Distribution
Shifts, 2024.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nws.forecasting.compiling import compiled
from nws.forecasting.ladder import FADING, FIRST_SLOT, PACES, RUNGS

_MOST = np.float64(1e30)
#: Rungs from a horizon to the window whose mean is the level of the series.
_LEVEL = 5
#: Values after which a mean is not expected far beyond all of them.
_ENOUGH = 20
#: First of the pending forecasts of each horizon.
_FIRST = np.array(FIRST_SLOT)
#: Share of the error so far of forecasts that wait which is the least scale.
_ALARM = 0.8
#: Largest difference between values, as a share of one, and smallest mean as such a share.
_FARTHEST, _NEAREST = 1e6, 1e-3


@compiled
def clip(value: float) -> float:
    """Return a value that float32 holds, and sums of 8192 of it."""
    return min(max(value, -_MOST), _MOST)


@compiled
def approach(values: Any, at: int, outcome: float, gain: float) -> None:
    """Move one of the float32 values towards an outcome, by a share of the way."""
    # a float32 of numpy would turn the others into float32, where the compiler computes in float64
    value = float(values[at])
    values[at] = value + gain * (outcome - value)


@compiled
def level_of(state: Any, rung: int) -> float:
    """Return the mean of a positive series over far more than the horizon; 0 if it is not positive."""
    if state["lowest"] <= 0.0:
        return 0.0
    return float(state["fading"][min(rung + _LEVEL, FADING - 1)])


@compiled
def log(x: float) -> float:
    """Return the logarithm, minus infinity of 0, where the interpreter alone raises an error."""
    return math.log(x) if x > 0.0 else -math.inf


@compiled
def error_of(value: float, forecast: float, level: float) -> float:
    """Return the error of a forecast. level : see `level_of`; with 0, errors below are differences too"""
    if value >= forecast or level <= 0.0 or forecast <= 0.0:
        return value - forecast
    return level * math.sqrt(level / forecast) * log(max(value, 1e-300) / forecast)


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
    mean = share_of(float(state["sum"][slot]) / k, state["origin"][slot])
    level = max(abs(1.0 + mean), _NEAREST)
    seen = max(float(state["squares"][slot]) / k - mean * mean, 0.0) / (level * level)
    approach(state["variation"], rung, min(seen, _FARTHEST), gain)


@compiled
def variation(state: Any, rung: int) -> float:
    """Return the coefficient of variation of the values of a mean; of a shorter one before the first outcome."""
    while rung > 0 and state["outcomes"][rung] == 0:
        rung -= 1
    return math.sqrt(np.float64(state["variation"][rung]))


@compiled
def drift(state: Any, k: float) -> float:
    """Return the usual change over k samples; beyond the longest change known it grows with the square root."""
    at = min(max(math.log2(k), 0.0), RUNGS - 1.0)
    low = int(at)
    known = low
    while known > 0 and state["outcomes"][known] == 0:
        known -= 1
    if known < low or low == RUNGS - 1 or state["outcomes"][low + 1] == 0:
        return float(state["drift"][known]) * math.sqrt(k / (1 << known))
    part = at - low
    return (1.0 - part) * float(state["drift"][low]) + part * float(state["drift"][low + 1])


@compiled
def error_so_far(state: Any, rung: int) -> float:
    """Return the least scale that forecasts which still wait leave possible; 0 before the first outcome."""
    if state["outcomes"][rung] == 0:
        return 0.0
    wrong, seen, level = 0.0, 0, level_of(state, rung)
    for slot in range(_FIRST[rung], _FIRST[rung + 1]):
        count = (1 << rung) - int(state["left"][slot])
        if count > 0 and state["left"][slot] > 0 and state["issued"][slot, 1] >= 0.0:
            origin = state["origin"][slot]
            mean, forecast = (
                origin + float(state["sum"][slot]) / count,
                origin + float(state["issued"][slot, 0]),
            )
            wrong += count * abs(error_of(mean, forecast, level))
            seen += count
    return float(_ALARM * wrong / max(seen, 1))


#: Nominal share of each tail.
TAIL = 0.1
#: Steps of the paces, and bounds of the corrected share of a tail, by pace.
_STEP, _LEAST_TAIL, _MOST_TAIL = np.array([0.005, 0.05]), np.array([0.002, 0.02]), np.array([0.4, 0.2])
#: Outcomes that the losses of the paces remember, how sharply they weight them, and what the fast one is charged with
#: before the first outcome.
_TAIL_MEMORY, _TAIL_SHARPNESS, _HASTE = 50.0, 20.0, 0.3


@compiled
def start_tails(state: Any) -> None:
    """Give a new series nominal tails."""
    state["tail"][:] = TAIL
    state["tail_loss"][:, :, 1] = _HASTE


@compiled
def correct_tail(state: Any, rung: int, side: int, beyond: float, missed: bool) -> None:
    """Learn that a share of earlier errors lay beyond an outcome, and whether its interval missed it on that side."""
    for pace in range(PACES):
        tail, known = float(state["tail"][rung, side, pace]), float(state["tail_loss"][rung, side, pace])
        loss = (tail - beyond) * ((beyond < tail) - TAIL)
        state["tail_loss"][rung, side, pace] = known + (loss - known / _TAIL_MEMORY)
        tail += _STEP[pace] * (TAIL - missed)
        state["tail"][rung, side, pace] = min(max(tail, _LEAST_TAIL[pace]), _MOST_TAIL[pace])


@compiled
def corrected_tail(state: Any, rung: int, side: int) -> float:
    """Return the corrected share of a tail: that of both paces, weighted by their losses lately."""
    loss = state["tail_loss"][rung, side]
    total, moment = 1.0, float(state["tail"][rung, side, 0])
    for pace in range(1, PACES):
        weight = math.exp(_TAIL_SHARPNESS * (np.float64(loss[0]) - np.float64(loss[pace])))
        total += weight
        moment += weight * float(state["tail"][rung, side, pace])
    return float(moment / total)


@compiled
def tail_share(share: float, tail: float) -> float:
    """Return the share of the histogram below the quantile of nominal `share`; exact at the corrected tails."""
    if share == 0.5:
        return 0.5
    side = 0 if share < 0.5 else 1
    part = min(share, 1.0 - share)
    power = math.log(2.0 * tail) / math.log(2.0 * TAIL)
    below = 0.5 * math.exp(power * math.log(2.0 * part))
    return below if side == 0 else 1.0 - below
