"""Tails of forecasts' errors, corrected by their outcomes: adaptive conformal inference at two paces.

A slow pace keeps the long-run share of ranges that hold; a fast one reacts to a change of load. The paces are weighted
by their losses lately. Source: Gibbs & Candès, Conformal Inference for Online Prediction with Arbitrary Distribution
Shifts, 2024.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nws.forecasting.jit import compiled
from nws.forecasting.ladder import PACES

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
        tail = state["tail"][rung, side, pace]
        loss = (tail - beyond) * ((beyond < tail) - TAIL)
        state["tail_loss"][rung, side, pace] += loss - state["tail_loss"][rung, side, pace] / _TAIL_MEMORY
        tail += _STEP[pace] * (TAIL - missed)
        state["tail"][rung, side, pace] = min(max(tail, _LEAST_TAIL[pace]), _MOST_TAIL[pace])


@compiled
def corrected_tail(state: Any, rung: int, side: int) -> float:
    """Return the corrected share of a tail: that of both paces, weighted by their losses lately."""
    loss = state["tail_loss"][rung, side]
    total, moment = 1.0, float(state["tail"][rung, side, 0])
    for pace in range(1, PACES):
        weight = math.exp(_TAIL_SHARPNESS * (loss[0] - loss[pace]))
        total += weight
        moment += weight * state["tail"][rung, side, pace]
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
