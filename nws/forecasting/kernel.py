"""One update of one series through the whole battery, and loops over many.

The order matters: the new value scores the earlier forecasts, then the methods see it, then the selectors answer for
the next one and the battery shrinks towards the last value. Values are trusted here; `nws.forecasting.batteries`
rejects invalid ones. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

from typing import Any

from nws.forecasting.compiling import compiled
from nws.forecasting.horizons import advance_horizons, judge_horizons
from nws.forecasting.predictors import (
    keep,
    predict_adaptive,
    predict_autoregression,
    predict_exponential,
    predict_last,
    predict_means,
    predict_order_statistics,
    predict_running_mean,
)
from nws.forecasting.selection import answer, lean, score_answers, score_leaning, score_methods


@compiled
def advance(state: Any, value: float, t: float) -> None:
    """Take one value, measured at `t` seconds, into the record of its series."""
    judge_horizons(state, value, t)
    if state["samples"] > 0:
        score_methods(state, value)
        score_answers(state, value)
        score_leaning(state, value)
    first = state["samples"] == 0
    state["lowest"] = value if first else min(state["lowest"], value)
    state["highest"] = value if first else max(state["highest"], value)
    keep(state, value)
    state["samples"] += 1
    state["last"] = value
    state["measured_at"] = t
    predict_last(state, value)
    predict_running_mean(state, value)
    predict_exponential(state, value)
    predict_means(state)
    predict_order_statistics(state)
    predict_adaptive(state)
    predict_autoregression(state, value)
    answer(state)
    lean(state)
    advance_horizons(state, value)


@compiled
def advance_many(states: Any, indices: Any, values: Any, times: Any) -> None:
    """`advance` for each of n updates in turn.

    states : STATE[series];  indices : int64[n];  values, times : float64[n]
    """
    for i in range(len(indices)):
        advance(states[indices[i]], values[i], times[i])


@compiled
def trace(states: Any, values: Any, predicted: Any, answered: Any) -> None:
    """Run states[0] over a series and keep the forecast of each value before it was seen.

    values : float64[n];  predicted : float64[n, methods];  answered : float64[n, 2], MAE and MSE pick.
    Row 0 is left as it is: there is no forecast before the first value.
    """
    state = states[0]
    for i in range(len(values)):
        if i > 0:
            predicted[i, :] = state["predicted"]
            for kind in range(2):
                answered[i, kind] = state["answer"][kind]
        advance(state, values[i], float(i))
