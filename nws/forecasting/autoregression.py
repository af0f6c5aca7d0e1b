"""Autoregression of order 16, fitted anew after every value.

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

from nws.forecasting.jit import compiled
from nws.forecasting.layout import AR_MEMORY, AUTOREGRESSION, NEWEST, ORDER

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
