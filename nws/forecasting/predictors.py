"""The simple methods: last value, running mean, exponential smoothing, and windows that adapt.

Each adds the new value to the record of its series and writes its forecast of the next one. Nothing here judges a
method. Source: Wolski et al. 2000, §2.4.

The newest 51 values of a series, kept in order of arrival and in order of size.

One walk in order of arrival gives the sliding means of all windows. Medians and trimmed means come from the order by
size, longest window first: a window of w is the values younger than w samples, and leaving the others out keeps the
order. Sums are recomputed every time, so rounding errors do not accumulate. Source: Wolski et al. 2000, §2.4.

Autoregression of order 16, fitted anew after every value.

Covariances by lag are updated with the new value's deviation from the current mean, and the Yule-Walker equations
solved by the Levinson-Durbin recursion: 16² steps, no history, no matrix. With memory m older terms fade by f = 1 - 1/m
a sample. The covariance at lag k is then Σ f^age · f^(k/2) · d(t)·d(t-k), the exact autocorrelation of the faded
sequence f^(age/2)·d(t): a positive semi-definite Toeplitz matrix, so every fit is a stable one. No value outside the
measured range is predicted: no latency below zero, no availability above one, for any quantity.
Source: Wolski et al. 2000, §2.4 (method); Brockwell & Davis, Time Series, §5.1 and §8.2 (mathematics).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nws.forecasting.compiling import compiled
from nws.forecasting.statelayout import (
    ADAPT_SCORE,
    ADAPTIVE_MEAN,
    ADAPTIVE_MEDIAN,
    AR_MEMORY,
    AUTOREGRESSION,
    EXPONENTIAL,
    GAINS,
    LAST,
    MAE,
    MEAN,
    MEDIAN,
    NEWEST,
    ORDER,
    RUN_MEAN,
    SLIDING,
    TRIM,
    TRIMMED,
    TRIMMED_MEAN,
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


_WINDOW = np.array(SLIDING)
#: Index of a window's trimmed mean among the trimmed means; -1 where a window has none.
_TRIMMED = np.array([TRIMMED.index(w) if w in TRIMMED else -1 for w in SLIDING])


@compiled
def keep(state: Any, value: float) -> None:
    """Take `value` into the ring and into the order by size; the oldest leaves both when the ring is full."""
    newest, by_size, samples = state["newest"], state["sorted"], state["samples"]
    slot = samples % NEWEST
    held = min(samples, NEWEST)
    if samples >= NEWEST:
        at = 0
        while by_size[at] != slot:
            at += 1
        for i in range(at, NEWEST - 1):
            by_size[i] = by_size[i + 1]
        held -= 1
    newest[slot] = value
    at = held
    while at > 0 and newest[by_size[at - 1]] > value:
        by_size[at] = by_size[at - 1]
        at -= 1
    by_size[at] = slot


@compiled
def predict_means(state: Any) -> None:
    """Mean of the newest w values for every window w; of all of them while there are fewer."""
    newest, predicted, samples = state["newest"], state["predicted"], state["samples"]
    held = min(samples, NEWEST)
    slot = (samples - 1) % NEWEST
    total, taken = 0.0, 0
    for rung in range(len(_WINDOW)):
        while taken < min(_WINDOW[rung], held):
            total += newest[slot]
            slot = slot - 1 if slot > 0 else NEWEST - 1
            taken += 1
        predicted[MEAN + rung] = total / taken


@compiled
def predict_order_statistics(state: Any) -> None:
    """Median and trimmed mean of the newest w values for every window w; of all while there are fewer.

    A trimmed mean leaves out the smallest and the largest `TRIM` of its window, rounded down.
    """
    newest, by_size, predicted = state["newest"], state["sorted"], state["predicted"]
    samples = state["samples"]
    count = held = min(samples, NEWEST)
    newest_place = (samples - 1) % NEWEST
    value, age = np.empty(NEWEST), np.empty(NEWEST, np.int64)
    for i in range(held):
        value[i] = newest[by_size[i]]
        age[i] = newest_place - by_size[i]
        age[i] += NEWEST if age[i] < 0 else 0
    for rung in range(len(_WINDOW) - 1, -1, -1):
        size = min(_WINDOW[rung], held)
        if size < count:
            # without a branch that no processor predicts
            younger = 0
            for i in range(count):
                value[younger], age[younger] = value[i], age[i]
                younger += age[younger] < size
            count = size
        low, high = value[(size - 1) // 2], value[size // 2]
        predicted[MEDIAN + rung] = low + (high - low) / 2
        if _TRIMMED[rung] >= 0:
            cut = int(TRIM * size)
            total = 0.0
            for i in range(cut, size - cut):
                total += value[i]
            predicted[TRIMMED_MEAN + _TRIMMED[rung]] = total / (size - 2 * cut)


_FADE = np.array([1.0 if memory == 0 else 1.0 - 1.0 / memory for memory in AR_MEMORY])
_LAG_FADE = np.sqrt(_FADE)[:, None] ** np.arange(ORDER + 1)[None, :]
#: White noise assumed on top of the series, as share of its variance: keeps rounding out of the recursion.
_NOISE = 1e-9


@compiled
def take_covariances(state: Any, value: float, which: int) -> None:
    """Take `value` into the mean and the covariances of autoregression number `which`."""
    deviation, covariance = state["ar_deviation"][which], state["ar_covariance"][which]
    state["ar_weight"][which] = _FADE[which] * state["ar_weight"][which] + 1.0
    state["ar_mean"][which] += (value - state["ar_mean"][which]) / state["ar_weight"][which]
    for lag in range(ORDER, 0, -1):
        deviation[lag] = deviation[lag - 1]
    deviation[0] = value - state["ar_mean"][which]
    for lag in range(ORDER + 1):
        product = deviation[0] * deviation[lag] * _LAG_FADE[which, lag]
        covariance[lag] = _FADE[which] * covariance[lag] + product


@compiled
def levinson(covariance: Any, coefficient: Any, scratch: Any) -> None:
    """Coefficients of the best linear prediction from the last `ORDER` deviations.

    covariance, coefficient, scratch : float64[ORDER + 1]; coefficient[k] belongs to the value k samples ago.
    A series without variance gets zeros.
    """
    coefficient[:] = 0.0
    unexplained = covariance[0] * (1.0 + _NOISE)
    for order in range(1, ORDER + 1):
        if unexplained <= 0.0:
            return
        partial = covariance[order]
        for k in range(1, order):
            partial -= coefficient[k] * covariance[order - k]
        partial /= unexplained
        for k in range(1, order):
            scratch[k] = coefficient[k] - partial * coefficient[order - k]
        for k in range(1, order):
            coefficient[k] = scratch[k]
        coefficient[order] = partial
        unexplained *= 1.0 - partial * partial


@compiled
def predict_autoregression(state: Any, value: float) -> None:
    """Fit every autoregression with `value` and predict from the newest 16 values."""
    newest, samples = state["newest"], state["samples"]
    coefficient, scratch = np.empty(ORDER + 1), np.empty(ORDER + 1)
    for which in range(len(_FADE)):
        take_covariances(state, value, which)
        levinson(state["ar_covariance"][which], coefficient, scratch)
        mean = state["ar_mean"][which]
        expected = mean
        for k in range(1, min(samples, ORDER) + 1):
            expected += coefficient[k] * (newest[(samples - k) % NEWEST] - mean)
        state["predicted"][AUTOREGRESSION + which] = min(max(expected, state["lowest"]), state["highest"])
