"""Forecasts of the mean of the next k samples, with calibrated quantiles, for a ladder of horizons.

On each rung the candidates (the battery's picks, some of its methods, fading means of windows k/4 to 8k) are judged on
the mean they were asked for, k samples later, with fading scores. They are blended by error to the power -8, and the
blend competes with them. The forecast is the median; its errors, in units of their fading scale, fill a fading
histogram, whose quantiles are those of the forecast. The tails are corrected after each outcome by adaptive conformal
inference (`nws.forecasting.scales`). Forecasts that still wait count as soon as they are wrong: they widen the range,
and what was learnt before a change counts less. A rung with few outcomes borrows from the next shorter one: errors in a
shape that comes closer to Laplace's distribution with each rung, as averaging tames spikes, and losses that favour
means over long windows. `nws.forecasting.scales` defines the units of errors. The first rung gives the battery's own
answer.

Sources: Bates & Granger, The Combination of Forecasts, 1969; Gibbs & Candès, Adaptive Conformal Inference Under
Distribution Shift, 2021.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nws.forecasting.borrowing import borrow_errors, first_scale
from nws.forecasting.compiling import compiled
from nws.forecasting.histograms import (
    PRIOR,
    count_error,
    pack,
    place_of,
    quantiles,
    share_below,
    unpack,
)
from nws.forecasting.ladder import (
    BINS,
    BLEND,
    CANDIDATES,
    FADING,
    FIRST_SLOT,
    FIRST_WINDOW,
    FIXED,
    PENDING,
    RUNGS,
    SHORTEST,
    SLOTS,
)
from nws.forecasting.scales import (
    approach,
    clip,
    correct_tail,
    corrected_tail,
    drift,
    error_of,
    error_so_far,
    learn_variation,
    level_of,
    share_of,
    start_tails,
    tail_share,
    value_of,
    variation,
    within_reach,
)
from nws.forecasting.statelayout import METHODS

_FIXED = np.array([METHODS.index(name) for name in FIXED])
#: First of the pending forecasts of each horizon.
_FIRST = np.array(FIRST_SLOT)
#: Outcomes that scores and scale remember.
_SCORE_MEMORY, _SCALE_MEMORY = 200, 50
#: Weight, in outcomes, of what the next shorter horizon knows.
_BORROWED = 8.0
#: Growth of a loss from rung to rung, without outcomes, of all but means of at least the horizon's length.
_SHORT_SIGHT = 1.1
_HELD_MEMORY = 200
#: Outcomes after which half of the mean error of forecasts is believed to be a bias, and its bounds in scales.
_BIAS_TRUST, _MOST_BIAS = 40.0, 8.0
#: Powers of the blends' weights, as powers of two.
_SHARPNESS, _SHARPER = 3, 4
#: Windows of fading means, as gains.
_GAIN = 2.0 / (2.0 ** np.arange(1, FADING + 1) + 1.0)
KNOWN = 4
"""Numbers of an outlook before its quantiles."""
#: Longest pause, in intervals, that counts as the same spacing.
_PAUSE = 2.5


@compiled
def _candidate(state: Any, rung: int, which: int) -> float:
    """Return the forecast of one candidate."""
    if which < 2:
        return float(state["answer"][which])
    if which == 2:
        return float(state["run_mean"])
    if which < FIRST_WINDOW:
        return float(state["predicted"][_FIXED[which - 3]])
    level = rung + which - FIRST_WINDOW - SHORTEST
    return float(state["fading"][min(max(level - 1, 0), FADING - 1)])


@compiled
def _borrow_losses(state: Any, rung: int, loss: Any, trust: float) -> None:
    """Replace the shorter rung's losses, float64[CANDIDATES], by this rung's; equal ones before the first outcome.

    trust : how much this rung's own outcomes count, 0..1
    """
    n = trust * min(state["outcomes"][rung], _SCORE_MEMORY)
    for which in range(CANDIDATES):
        # the mean of the whole series, and fading means of windows at least as long as the horizon
        mean = which == 2 or which >= FIRST_WINDOW + SHORTEST
        borrowed = loss[which] if mean else _SHORT_SIGHT * loss[which]
        measured = float(state["candidate_loss"][rung, which])
        loss[which] = (n * measured + _BORROWED * borrowed) / (n + _BORROWED) if rung > 0 else measured


@compiled
def _forecast(state: Any, rung: int, loss: Any, candidate: Any) -> float:
    """Fill in the forecasts of all candidates, float64[CANDIDATES]; return the one that their losses recommend."""
    if rung == 0:
        candidate[:] = state["answer"][0]
        return float(state["answer"][0])
    for which in range(BLEND):
        candidate[which] = _candidate(state, rung, which)
    candidate[BLEND] = state["answer"][1]
    candidate[BLEND] = _weighted(candidate, loss, BLEND, _SHARPNESS)
    return _weighted(candidate, loss, CANDIDATES, _SHARPER)


@compiled
def _weighted(candidate: Any, loss: Any, count: int, sharpness: int) -> float:
    lowest = loss[:count].min()
    total, moment = 0.0, 0.0
    for which in range(count):
        weight = 1.0
        if loss[which] > lowest:
            weight = lowest / loss[which]
            # many times faster than a power
            for _ in range(sharpness):
                weight *= weight
        total += weight
        moment += weight * (candidate[which] - candidate[0])
    return float(candidate[0] + moment / total)


@compiled
def _widening(state: Any, rung: int) -> float:
    """Return the factor of the errors' spread where few outcomes are independent, about that of Student's t."""
    return float(1.0 + 0.3 / (1.0 + state["outcomes"][rung] / min(PENDING, 1 << rung)))


@compiled
def _trust(scale: float, so_far: float) -> float:
    """Return how much the past counts, 0..1, if its scale of errors is `scale`."""
    return scale / so_far if so_far > scale else 1.0


@compiled
def _doubted(histogram: Any, trust: float) -> Any:
    """Return a histogram's mixture with the shape of errors that nothing is known of."""
    return histogram if trust == 1.0 else trust * histogram + (1.0 - trust) * PRIOR


@compiled
def _learn(state: Any, rung: int, slot: int) -> None:
    """Judge one pending forecast whose k samples are complete."""
    mean = clip(float(state["sum"][slot]) / (1 << rung))
    n = int(state["outcomes"][rung])
    loss, pending = state["candidate_loss"][rung], np.empty(CANDIDATES, np.float32)
    unpack(state["pending"][slot], pending)
    gain = max(1.0 / (n + 1.0), 1.0 / _SCORE_MEMORY)
    for which in range(CANDIDATES):
        approach(loss, which, abs(float(pending[which]) - mean), gain)
    issued = state["issued"][slot]
    blend, scale, low, high = float(issued[0]), float(issued[1]), float(issued[2]), float(issued[3])
    origin = state["origin"][slot]
    error = clip(error_of(origin + mean, origin + blend, level_of(state, rung)))
    approach(state["drift"], rung, abs(clip(state["last"] - origin)), gain)
    bias = (mean - blend) / scale if scale > 0.0 else 0.0
    approach(state["bias"], rung, min(max(bias, -_MOST_BIAS), _MOST_BIAS), gain)
    histogram = state["histogram"][rung]
    gain = max(1.0 / (n + 1.0), 1.0 / _SCALE_MEMORY)
    approach(state["scale"], rung, abs(error), gain)
    below, above = mean < low, mean > high
    share = share_below(histogram, place_of(error, scale * _widening(state, rung)))
    correct_tail(state, rung, 0, share, below)
    correct_tail(state, rung, 1, 1.0 - share, above)
    count_error(histogram, place_of(error, scale), n)
    gain = max(1.0 / (n + 1.0), 1.0 / _HELD_MEMORY)
    approach(state["held"], rung, 0.0 if below or above else 1.0, gain)
    learn_variation(state, rung, slot, gain)
    state["outcomes"][rung] = n + 1


@compiled
def judge_horizons(state: Any, value: float, t: float) -> None:
    """Take the next value into pending forecasts; to be called before anything of `state` has seen it.

    A pause of several intervals is missing samples: forecasts that it makes too old are dropped unjudged.
    """
    if state["samples"] == 0:
        start_tails(state)
        state["issued"][:, 1] = -1.0
        return
    passed = t - state["measured_at"]
    missing = 0.0
    if passed > 0.0:
        interval = state["interval_s"]
        if interval > 0.0 and passed > _PAUSE * interval:
            missing = passed / interval - 1.0
        gain = max(1.0 / state["samples"], 0.02)
        usual = passed if interval == 0.0 else min(passed, 4.0 * interval)
        state["interval_s"] += gain * (usual - interval)
    left = state["left"]
    for slot in range(SLOTS):
        if left[slot] > 0:
            left[slot] -= 1
            origin = state["origin"][slot]
            state["sum"][slot] = float(state["sum"][slot]) + clip(value - origin)
            share = share_of(value - origin, origin)
            state["squares"][slot] = float(state["squares"][slot]) + share * share
    if missing > 0.0:
        for rung in range(RUNGS):
            if missing > (1 << rung) / PENDING:
                left[_FIRST[rung] : _FIRST[rung + 1]] = -1


@compiled
def advance_horizons(state: Any, value: float) -> None:
    """Judge the forecasts that are complete and issue those that are due; `state` has seen the value."""
    for rung in range(RUNGS):
        for slot in range(_FIRST[rung], _FIRST[rung + 1]):
            if state["left"][slot] == 0 and state["issued"][slot, 1] >= 0.0:
                _learn(state, rung, slot)
                state["issued"][slot, 1] = -1.0
    fading = state["fading"]
    for level in range(FADING):
        fading[level] += max(1.0 / state["samples"], _GAIN[level]) * (value - fading[level])
    loss, histogram = np.empty(CANDIDATES), PRIOR.copy()
    scale = first_scale(state)
    count = state["samples"]
    loss[:] = 0.0
    top = RUNGS - 1
    while top > 1 and count % (1 << (top - 2)) != 0:
        top -= 1
    so_far = np.empty(RUNGS)
    for rung in range(top + 1):
        so_far[rung] = error_so_far(state, rung)
    for rung in range(top + 1):
        _borrow_losses(state, rung, loss, _trust(float(state["scale"][rung]), so_far[rung]))
        borrow_errors(state, rung, scale, histogram)
        shape = _doubted(histogram, _trust(scale[0], so_far[rung]))
        _issue(state, rung, loss, max(scale[0], so_far[rung]), shape)


@compiled
def _issue(state: Any, rung: int, loss: Any, scale: float, histogram: Any) -> None:
    """Make the forecast of one horizon and keep it until its outcome."""
    stride = max((1 << rung) // PENDING, 1)
    slot = _FIRST[rung] + state["samples"] // stride % min(PENDING, 1 << rung)
    last = state["last"]
    candidate, packed = np.empty(CANDIDATES), np.empty(CANDIDATES, np.float32)
    blend, wide = _forecast(state, rung, loss, candidate), _widening(state, rung)
    level = level_of(state, rung)
    for which in range(CANDIDATES):
        packed[which] = clip(candidate[which] - last)
    errors = np.empty(2)
    for side in range(2):
        tail = corrected_tail(state, rung, side)
        errors[side] = tail if side == 0 else 1.0 - tail
    pack(packed, state["pending"][slot])
    quantiles(histogram, errors)
    issued = state["issued"][slot]
    issued[0], issued[1] = clip(blend - last), clip(scale)
    for side in range(2):
        bound = value_of(wide * scale * errors[side], blend, level)
        issued[2 + side] = clip(within_reach(state, bound, wide * scale, level) - last)
    state["left"][slot] = 1 << rung
    state["origin"][slot] = last
    state["sum"][slot] = state["squares"][slot] = 0.0


#: What outlooks of all spans need of a rung: forecast, scale of its errors, level, variation, and both tails.
_FORECAST, _ERROR, _LEVEL, _VARIATION, _TAIL = range(5)
FACTS = 6
"""Numbers that `read_rungs` gives of a rung."""


@compiled
def read_rungs(state: Any, facts: Any, shapes: Any) -> None:
    """Fill in what outlooks need of each rung: float64[RUNGS, FACTS], and the histograms, float64[RUNGS, BINS]."""
    loss, histogram, candidate = np.zeros(CANDIDATES), PRIOR.copy(), np.empty(CANDIDATES)
    scale, so_far = first_scale(state), np.empty(RUNGS)
    for rung in range(RUNGS):
        borrow_errors(state, rung, scale, histogram)
        facts[rung, _ERROR], shapes[rung] = scale[0], histogram
    for rung in range(RUNGS):
        so_far[rung] = error_so_far(state, rung)
        facts[rung, _LEVEL] = level_of(state, rung)
        facts[rung, _VARIATION] = variation(state, rung)
        for side in range(2):
            facts[rung, _TAIL + side] = corrected_tail(state, rung, side)
    for rung in range(RUNGS):
        _borrow_losses(state, rung, loss, _trust(float(state["scale"][rung]), so_far[rung]))
        facts[rung, _FORECAST] = _forecast(state, rung, loss, candidate)
        shapes[rung] = _doubted(shapes[rung], _trust(facts[rung, _ERROR], so_far[rung]))
        facts[rung, _ERROR] = max(facts[rung, _ERROR], so_far[rung]) * _widening(state, rung)


@compiled
def read_outlook(
    state: Any, facts: Any, shapes: Any, k: float, lead: float, shares: Any, outlook: Any
) -> None:
    """Fill in the distribution of the mean of k samples after a pause of `lead` samples.

    The pause widens it: by the usual change over that time, to the forecast without a pause, and beyond the length of
    the series to what is known of a new one, whose values may have been equal so far by chance.

    facts, shapes : see `read_rungs`.  shares : float64[n] of (0, 1), rising
    outlook : float64[KNOWN + n], filled with the mean, the share of past intervals that held (NaN if none was judged),
    the number of outcomes, the coefficient of variation of the values that a mean is of, and the quantiles
    """
    centre = min(max(math.log2(k + 2.0 * lead), 0.0), RUNGS - 1.0)
    width = min(max(math.log2(k), 0.0), RUNGS - 1.0)
    wider = 1.0
    if lead > 0.0:
        near, far = drift(state, k), drift(state, k + lead)
        wider = max(far / near, 1.0) if near > 0.0 else math.sqrt(1.0 + lead / k)
    forecast, present = 0.0, 0.0
    for rung in range(RUNGS):
        forecast += max(1.0 - abs(centre - rung), 0.0) * facts[rung, _FORECAST]
        present += max(1.0 - abs(width - rung), 0.0) * facts[rung, _FORECAST]
    held, outcomes = 0.0, 0.0
    aged = max((lead - state["samples"]) / (lead + state["samples"]), 0.0)
    unknown = aged * first_scale(state)[0] if aged > 0.0 else 0.0
    outlook[:], errors = 0.0, np.empty(len(shares))
    for rung in range(int(width), min(int(width) + 2, RUNGS)):
        weight = 1.0 - abs(width - rung)
        if weight <= 0.0:
            continue
        error, level = facts[rung, _ERROR], facts[rung, _LEVEL]
        wide, shape = wider * error, shapes[rung]
        if wide < unknown:
            wide, shape = unknown, _doubted(shape, 1.0 - aged)
        n = state["outcomes"][rung]
        outlook[0] += weight * (forecast + error * float(state["bias"][rung]) * n / (n + _BIAS_TRUST))
        held += weight * n * float(state["held"][rung])
        outcomes += weight * n
        outlook[3] += weight * facts[rung, _VARIATION]
        for i in range(len(shares)):
            errors[i] = tail_share(shares[i], facts[rung, _TAIL + int(shares[i] > 0.5)])
        quantiles(shape, errors)
        for i in range(len(shares)):
            bound = value_of(wide * errors[i] if shares[i] != 0.5 else 0.0, forecast, level)
            if shares[i] < 0.5:
                bound = min(bound, present)
            elif shares[i] > 0.5:
                bound = max(bound, present)
            outlook[KNOWN + i] += weight * within_reach(state, bound, wide, level)
    outlook[0] = min(max(outlook[0], outlook[KNOWN]), outlook[KNOWN + len(shares) - 1])
    outlook[1] = held / outcomes if outcomes > 0.0 else math.nan
    outlook[2] = outcomes


@compiled
def read_outlooks(states: Any, at: Any, over_s: Any, now: float, shares: Any, outlooks: Any) -> None:
    """Fill in the expected means of the series `at` over the next `over_s` seconds.

    at : int64[m];  over_s : float64[h];  now : seconds since the epoch
    outlooks : float64[m, h, KNOWN + shares], see `read_outlook`; left as it is for series without a value
    """
    facts, shapes = np.empty((RUNGS, FACTS)), np.empty((RUNGS, BINS))
    for i in range(len(at)):
        state = states[at[i]]
        if state["samples"] == 0:
            continue
        read_rungs(state, facts, shapes)
        for j in range(len(over_s)):
            interval = state["interval_s"] if state["interval_s"] > 0.0 else over_s[j]
            # a value is due one interval after the last: until then nothing is late
            lead = max((now - state["measured_at"]) / interval - 1.0, 0.0)
            read_outlook(state, facts, shapes, max(over_s[j] / interval, 1.0), lead, shares, outlooks[i, j])
