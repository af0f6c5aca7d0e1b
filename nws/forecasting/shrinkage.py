"""Shrinkage of the selectors' answer towards the last value.

Where load changes in steps, the last value is the best forecast, and every other choice costs a little. So the errors
of no, half and full shrinkage are kept, and the battery answers the mean of the three, weighted by their errors.
Squared
errors count in full; an absolute error counts as at most a few times the usual one, or a single spike would dominate a
hundred values. Without much data there is no shrinkage.
Source: Bates & Granger, The Combination of Forecasts, 1969 (weights from past errors).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nws.forecasting.jit import compiled
from nws.forecasting.layout import LEAN, LEAN_CLIP, LEAN_SHARPNESS, LEAN_TRUST, MAE, MSE
from nws.forecasting.selection import blend_weights

_LEAN = np.array(LEAN)
_PARTS = len(LEAN)
#: Place of going all the way.
_ALL = LEAN.index(1.0)


@compiled
def score_leaning(state: Any, value: float) -> None:
    """Charge the battery's two answers, and every part of the way, with their errors on `value`.

    To be called before anything of `state` has seen the value.
    """
    scored = state["samples"] - 1
    usual = state["error"][MAE, MAE] / scored if scored > 0 else 0.0
    for kind in range(2):
        way = state["together"][kind] - state["last"]
        for part in range(_PARTS):
            error = abs(state["last"] + _LEAN[part] * way - value)
            if kind == MSE:
                error *= error
            elif usual > 0.0:
                error = min(error, LEAN_CLIP * usual)
            state["lean_loss"][kind, part] += error
    for kind in range(2):
        error = abs(state["answer"][kind] - value)
        state["error"][kind, MAE] += error
        state["error"][kind, MSE] += error * error


@compiled
def lean(state: Any) -> None:
    """Give the battery's two answers; `samples` and `last` count the newest value already."""
    scored = max(state["samples"] - 1, 1)
    loss, weight = np.empty(_PARTS), np.empty(_PARTS)
    for kind in range(2):
        for part in range(_PARTS):
            trust = LEAN_TRUST * (1.0 - _LEAN[part]) * state["lean_loss"][kind, _ALL] / scored
            loss[part] = state["lean_loss"][kind, part] + trust
        blend_weights(loss, LEAN_SHARPNESS if kind == MAE else LEAN_SHARPNESS // 2, weight)
        gone, total = 0.0, 0.0
        for part in range(_PARTS):
            gone += weight[part] * _LEAN[part]
            total += weight[part]
        way = state["together"][kind] - state["last"]
        # exactly the selectors' answer without evidence against it
        state["answer"][kind] = (
            state["together"][kind] if gone == total else state["last"] + gone / total * way
        )
