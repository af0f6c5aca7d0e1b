"""Selection: methods are judged by their errors, and the selectors by theirs.

First level. Every method is scored on each new value before it sees it, in MAE and in MSE, over the whole history and
over shorter memories. Each score is a selector: it answers with the method of the lowest. Two more selectors blend all
methods by their scores over the whole history, since on short or noisy series the lowest score is often luck: a
weighted median where MAE counts, a weighted mean where MSE counts, each the minimiser of its kind of error. Second
level. The selectors' answers are scored alike, and blended alike but more sharply: a clearly best selector answers
nearly alone (the MAE pick, the MSE pick), and among equally good ones their answers, and their luck, are shared.
`nws.forecasting.selection` makes the final answer. No error is charged before the first value. Source: Wolski et al.
2000, §2.4.

Shrinkage of the selectors' answer towards the last value.

Where load changes in steps, the last value is the best forecast, and every other choice costs a little. So the errors
of no, half and full shrinkage are kept, and the battery answers the mean of the three, weighted by their errors.
Squared
errors count in full; an absolute error counts as at most a few times the usual one, or a single spike would dominate a
hundred values. Without much data there is no shrinkage.
Source: Bates & Granger, The Combination of Forecasts, 1969 (weights from past errors).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nws.forecasting.compiling import compiled
from nws.forecasting.statelayout import (
    BLEND_SHARPNESS,
    LEAN,
    LEAN_CLIP,
    LEAN_SHARPNESS,
    LEAN_TRUST,
    MAE,
    METHODS,
    MSE,
    PICK_SHARPNESS,
    PICKS,
    SCORE_MEMORY,
    SELECTORS,
)

_FADE = np.array([1.0 - 1.0 / memory for memory in SCORE_MEMORY[1:]])
_METHODS = len(METHODS)
_SELECTORS = len(SELECTORS)
#: Bits of a float64 that its upper half leaves out, and half of the last one that it keeps.
_LOWER, _ROUND = np.uint64(32), np.uint64(1 << 31)


@compiled
def score_methods(state: Any, value: float) -> None:
    """Charge every method with its error on `value`, which it has not seen."""
    predicted, loss, fading = state["predicted"], state["loss"], state["fading_loss"]
    for method in range(_METHODS):
        error = abs(predicted[method] - value)
        loss[MAE, method] += error
        loss[MSE, method] += error * error
    for memory in range(len(_FADE)):
        fade = _FADE[memory]
        for method in range(_METHODS):
            error = abs(predicted[method] - value)
            fading[memory, MAE, method] = _faded(fading[memory, MAE, method], fade, error)
            fading[memory, MSE, method] = _faded(fading[memory, MSE, method], fade, error * error)


@compiled
def _faded(half: Any, fade: float, error: float) -> Any:
    """Return the upper half of a loss, uint32, that fades and takes an error."""
    bits = np.uint64(np.uint64(half) << _LOWER)
    loss = np.float64(fade * bits.view(np.float64) + error)
    return np.uint32((loss.view(np.uint64) + _ROUND) >> _LOWER)


@compiled
def score_answers(state: Any, value: float) -> None:
    """Charge every selector with the error of its answer."""
    answered, answer_loss = state["answered"], state["answer_loss"]
    for selector in range(_SELECTORS):
        error = abs(answered[selector] - value)
        answer_loss[MAE, selector] += error
        answer_loss[MSE, selector] += error * error


@compiled
def lowest(loss: Any) -> int:
    """Return the place of the lowest loss, the first of equals; unlike numpy's, without a check for NaN."""
    best, least = 0, loss[0]
    for method in range(1, len(loss)):
        best = method if loss[method] < least else best
        least = min(least, loss[method])
    return best


@compiled
def blend_weights(loss: Any, exponent: int, weight: Any) -> None:
    """Weight of every method: (lowest loss / its loss) ** exponent, 1 for the best.

    loss, weight : float64[methods];  exponent : a power of 2.
    With a loss of zero somewhere, only methods without loss have weight.
    """
    least = loss[lowest(loss)]
    for method in range(len(loss)):
        weight[method] = least / loss[method] if loss[method] > least else 1.0
    power = 1
    while power < exponent:
        for method in range(len(loss)):
            weight[method] *= weight[method]
        power *= 2


@compiled
def weighted_median(values: Any, weights: Any, below: Any) -> float:
    """Return smallest value at which half of the weight is reached.

    values, weights : float64[n];  below : float64[n], left holding the weight of all values up to each
    """
    total = 0.0
    below[:] = 0.0
    # without a branch: faster than to sort
    for j in range(len(values)):
        value, weight = values[j], weights[j]
        total += weight
        for i in range(len(values)):
            below[i] += weight if value <= values[i] else 0.0
    median = math.inf
    for i in range(len(values)):
        if below[i] >= total / 2:
            median = min(median, values[i])
    return float(median)


@compiled
def weighted_mean(values: Any, weights: Any) -> float:
    """Return Σ w·v / Σ w, taken about the first value so that equal values give exactly that value."""
    total, moment = 0.0, 0.0
    for i in range(len(values)):
        total += weights[i]
        moment += weights[i] * (values[i] - values[0])
    return float(values[0] + moment / total)


@compiled
def answer(state: Any) -> None:
    """Let every selector choose or blend, then blend the selectors."""
    loss, predicted, answered = state["loss"], state["predicted"], state["answered"]
    for selector in range(PICKS):
        memory, kind = selector // 2 - 1, selector % 2
        state["chosen"][selector] = (
            lowest(loss[kind]) if memory < 0 else lowest(state["fading_loss"][memory, kind])
        )
        answered[selector] = predicted[state["chosen"][selector]]
    weight, below = np.empty(_METHODS), np.empty(_METHODS)
    blend_weights(loss[MAE], BLEND_SHARPNESS, weight)
    answered[PICKS + MAE] = weighted_median(predicted, weight, below)
    # a squared error to half the power is the error to the whole power
    blend_weights(loss[MSE], BLEND_SHARPNESS // 2, weight)
    answered[PICKS + MSE] = weighted_mean(predicted, weight)
    losses, together = state["answer_loss"], state["together"]
    for kind in range(2):
        state["pick"][kind] = lowest(losses[kind])
    blend_weights(losses[MAE], PICK_SHARPNESS, weight[:_SELECTORS])
    together[MAE] = weighted_median(answered, weight[:_SELECTORS], below[:_SELECTORS])
    blend_weights(losses[MSE], PICK_SHARPNESS // 2, weight[:_SELECTORS])
    together[MSE] = weighted_mean(answered, weight[:_SELECTORS])


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
