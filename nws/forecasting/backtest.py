"""Back-test: the forecast of each value of a series by a battery that starts with the first of them.

For plots of measurement beside forecast. The battery is the real one, run again; it has not seen earlier values, so
pass some to begin with. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nws.base.errors import UsageError
from nws.forecasting.batteries import Pick, first_illegal, refusal
from nws.forecasting.compiling import compiled
from nws.forecasting.kernel import advance
from nws.forecasting.statelayout import STATE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hindsight:
    """Per value, in the series' unit: float64[n].

    forecast : made before it; NaN for the first.  error : mean absolute error of all such forecasts before it; NaN
    for the first two
    """

    forecast: NDArray[np.float64]
    error: NDArray[np.float64]


@compiled
def replay(states: Any, values: Any, pick: int, forecast: Any, error: Any) -> None:
    """Run states[0] over float64[n] values; fills in `forecast` and `error`, float64[n], where something is known."""
    state = states[0]
    for i in range(len(values)):
        if i > 0:
            forecast[i] = state["answer"][pick]
        if i > 1:
            error[i] = state["error"][pick, 0] / (i - 1)
        advance(state, values[i], float(i))


def expected(values: ArrayLike, pick: Pick = Pick.MAE) -> Hindsight:
    """Return forecasts made before each of float[n] values, oldest first.

    Raises `UsageError` for one that is no number.
    """
    value = np.require(values, np.float64, ("C", "W"))
    illegal = first_illegal(value)
    if illegal is not None:
        raise UsageError(refusal(f"value {illegal}", float(value[illegal])))
    forecast, error = np.full(len(value), np.nan), np.full(len(value), np.nan)
    replay.compiled(np.zeros(1, STATE), value, int(pick), forecast, error)
    return Hindsight(forecast=forecast, error=error)
