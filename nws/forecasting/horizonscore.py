"""Accuracy by horizon: forecasts of the mean of the next k values of a file, beside simpler forecasts and intervals.

After each value the battery forecasts the mean of the next k. As for one step, the first 20 values of each series are
used to learn, and scores are means over series. `mae_hindsight` takes the best of the battery's methods and of means of
the last k, 2k, 4k and 8k values, chosen for every series afterwards. The reference interval is the forecast of the
next value ± 1.2816 root mean squared errors over the whole past. The interval score is its width plus ten times what an
outcome lies outside, for a nominal share of 80 %.

Source: Gneiting and Raftery, Strictly Proper Scoring Rules, Prediction, and Estimation, 2007 (interval score).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nws.base.errors import UsageError
from nws.forecasting.accuracy import NOT_SCORED, Values, legal_values
from nws.forecasting.compiling import compiled
from nws.forecasting.horizons import FACTS, KNOWN, read_outlook, read_rungs
from nws.forecasting.kernel import advance
from nws.forecasting.ladder import BINS, RUNGS
from nws.forecasting.statelayout import LAST, METHODS, STATE
from nws.series import SHARES

_Values = NDArray[np.float64]

_NOMINAL = 0.8
_Z = NormalDist().inv_cdf((1.0 + _NOMINAL) / 2.0)
_LOW, _MEDIAN, _HIGH = (KNOWN + SHARES.index(share) for share in (0.1, 0.5, 0.9))
#: Windows of the means of the last values, in k.
_WINDOWS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonScore:
    """Scores of one horizon, means over series, in the unit of the values.

    k : values whose mean was forecast.  series : number long enough
    mae_reference : of the forecast of the next value, taken for the mean
    coverage : share of outcomes within the 80 % interval; p10 and p90: quantiles of it over series
    width : of the interval.  winkler : interval score
    """

    k: int
    series: int
    mae: float
    mae_last: float
    mae_mean_k: float
    mae_hindsight: float
    mae_reference: float
    coverage: float
    coverage_p10: float
    coverage_p90: float
    width: float
    winkler: float
    coverage_reference: float
    coverage_p10_reference: float
    coverage_p90_reference: float
    width_reference: float
    winkler_reference: float


@compiled
def trace_outlooks(
    states: Any, values: Any, horizons: Any, shares: Any, outlooks: Any, predicted: Any
) -> None:
    """Run states[0] over a series and keep the forecasts made after each value.

    values : float64[n];  horizons : float64[h] values;  shares : float64[s]
    outlooks : float64[n, h, 3 + s], see `read_outlook`;  predicted : float64[n, methods + 1], methods and the MAE pick
    """
    state, facts, shapes = states[0], np.empty((RUNGS, FACTS)), np.empty((RUNGS, BINS))
    for i in range(len(values)):
        advance(state, values[i], float(i))
        predicted[i, :-1] = state["predicted"]
        predicted[i, -1] = state["answer"][0]
        read_rungs(state, facts, shapes)
        for j in range(len(horizons)):
            read_outlook(state, facts, shapes, horizons[j], 0.0, shares, outlooks[i, j])


def score_horizons(
    series: Mapping[str, Values], horizons: Sequence[int], *, source: str
) -> list[HorizonScore]:
    """Score forecasts of means of the next k values, for every k of `horizons`.

    Raises `UsageError` if a value is beyond the battery's range, or a horizon is longer than every series allows.
    """
    rows: list[list[dict[str, float]]] = [[] for _ in horizons]
    for name, values in series.items():
        value = legal_values(values, f"{source}: series {name!r}")
        if len(value) <= NOT_SCORED + min(horizons):
            continue
        outlooks = np.empty((len(value), len(horizons), KNOWN + len(SHARES)))
        predicted = np.empty((len(value), len(METHODS) + 1))
        trace_outlooks.compiled(
            np.zeros(1, STATE), value, np.array(horizons, np.float64), np.array(SHARES), outlooks, predicted
        )
        for j, k in enumerate(horizons):
            if len(value) > NOT_SCORED + k:
                rows[j].append(_series_scores(value, k, outlooks[:, j], predicted))
    short = [k for k, scored in zip(horizons, rows, strict=True) if not scored]
    if short:
        raise UsageError(
            f"{source}: no series has more than {NOT_SCORED} + {short[0]} values, so that means of {short[0]} cannot "
            "be scored; name shorter horizons"
        )
    return [_over_series(k, scored) for k, scored in zip(horizons, rows, strict=True)]


def _series_scores(value: _Values, k: int, outlooks: _Values, predicted: _Values) -> dict[str, float]:
    """Return the scores of one series. found : float64[n, 3 + shares] of the horizon;  predicted : as traced."""
    sums = np.concatenate(([0.0], np.cumsum(value)))
    # a forecast made after value i is judged by the mean of the k values after it
    at = np.arange(NOT_SCORED - 1, len(value) - k)
    outcome = (sums[at + k + 1] - sums[at + 1]) / k
    means = []
    for window in _WINDOWS:
        first = np.maximum(at + 1 - window * k, 0)
        means.append((sums[at + 1] - sums[first]) / (at + 1 - first))
    answer = predicted[at, -1]
    past = np.square(predicted[:-1, -1] - value[1:])
    rmse = np.sqrt(np.cumsum(past)[at - 1] / at)
    simple = np.column_stack((predicted[at], *means))
    maes = np.abs(simple - outcome[:, None]).mean(axis=0)
    width_score = _interval(outcome, outlooks[at, _LOW], outlooks[at, _HIGH])
    reference = _interval(outcome, answer - _Z * rmse, answer + _Z * rmse)
    return {
        "mae": float(np.abs(outlooks[at, _MEDIAN] - outcome).mean()),
        "mae_last": float(maes[LAST]),
        "mae_mean_k": float(maes[len(METHODS) + 1]),
        "mae_hindsight": float(maes.min()),
        "mae_reference": float(maes[len(METHODS)]),
        **width_score,
        **{f"{name}_reference": score for name, score in reference.items()},
    }


def _interval(outcome: _Values, low: _Values, high: _Values) -> dict[str, float]:
    missed = np.maximum(low - outcome, 0.0) + np.maximum(outcome - high, 0.0)
    width = high - low
    return {
        "coverage": float((missed == 0.0).mean()),
        "width": float(width.mean()),
        "winkler": float((width + 2.0 / (1.0 - _NOMINAL) * missed).mean()),
    }


def _over_series(k: int, scored: Sequence[Mapping[str, float]]) -> HorizonScore:
    columns = {name: np.array([row[name] for row in scored]) for name in scored[0]}
    quantiles: dict[str, float] = {}
    for suffix in ("", "_reference"):
        p10, p90 = np.quantile(columns[f"coverage{suffix}"], (0.1, 0.9))
        quantiles |= {f"coverage_p10{suffix}": float(p10), f"coverage_p90{suffix}": float(p90)}
    means = {name: float(column.mean()) for name, column in columns.items()}
    return HorizonScore(k=k, series=len(scored), **means, **quantiles)
