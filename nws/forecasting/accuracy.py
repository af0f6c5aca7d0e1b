"""Accuracy of the battery: one step ahead over a file of measurements, beside simpler forecasts.

Every value is forecast from those before it. The first 20 samples of each series are used to learn and not scored.
Scores are means over series, each series counting alike. `best_in_hindsight` takes, for every series, the single method
with the least error on it, a choice that is only possible afterwards. Source: Wolski et al. 2000, §2.4; Claim N2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nws.base.errors import UsageError
from nws.base.records import document_of
from nws.forecasting.batteries import LARGEST
from nws.forecasting.kernel import trace
from nws.forecasting.statelayout import LAST, MAE, METHODS, MSE, STATE

Values = Sequence[float] | NDArray[np.float64]
"""Values of a series, oldest first."""

NOT_SCORED = 20
"""Samples at the beginning of each series that are learnt from only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Mean absolute error and root of the mean squared error, in the unit of the series, means over series."""

    mae: float
    rmse: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Scores of the battery and of others on a file.

    series : number scored;  skipped : series with no sample to score;  samples : values read of the scored
    series;  scored : forecasts judged;  methods : accuracy of every single method, by name
    """

    file: str
    series: int
    skipped: int
    samples: int
    scored: int
    mae_pick: Accuracy
    mse_pick: Accuracy
    last_value: Accuracy
    best_in_hindsight: Accuracy
    methods: Mapping[str, Accuracy]

    @property
    def improvement_over_last_value(self) -> float:
        """Return share by which the MAE pick's MAE is below that of last value; 0 where last value is never wrong."""
        if self.last_value.mae == 0.0:
            return 0.0
        return 1.0 - self.mae_pick.mae / self.last_value.mae

    def as_json(self) -> dict[str, Any]:
        """Return JSON-ready document."""
        return {
            **document_of(self, "file", "series", "skipped", "samples", "scored"),
            "battery": {"mae_pick": asdict(self.mae_pick), "mse_pick": asdict(self.mse_pick)},
            "last_value": asdict(self.last_value),
            "best_in_hindsight": asdict(self.best_in_hindsight),
            "improvement_over_last_value": self.improvement_over_last_value,
        }


def score_series(series: Mapping[str, Values], *, source: str) -> Score:
    """Score the battery on series of values, oldest first.

    `source` is named in messages. Raises `UsageError` if a value is beyond the battery's range, or no series
    has more than `NOT_SCORED` samples.
    """
    long_enough = {name: values for name, values in series.items() if len(values) > NOT_SCORED}
    if not long_enough:
        raise UsageError(
            f"{source}: nothing to score: no series has more than {NOT_SCORED} samples, and the first "
            f"{NOT_SCORED} of each are only learnt from"
        )
    maes, rmses = [], []
    for name, values in long_enough.items():
        error = _errors(legal_values(values, f"{source}: series {name!r}"))
        maes.append(np.abs(error).mean(axis=0))
        rmses.append(np.sqrt(np.square(error).mean(axis=0)))
    mae, rmse = np.array(maes), np.array(rmses)
    means = [Accuracy(mae=float(a), rmse=float(r)) for a, r in zip(mae.mean(0), rmse.mean(0), strict=True)]
    samples = sum(len(values) for values in long_enough.values())
    n = len(METHODS)
    return Score(
        file=source,
        series=len(long_enough),
        skipped=len(series) - len(long_enough),
        samples=samples,
        scored=samples - NOT_SCORED * len(long_enough),
        mae_pick=means[n + MAE],
        mse_pick=means[n + MSE],
        last_value=means[LAST],
        best_in_hindsight=Accuracy(
            mae=float(mae[:, :n].min(axis=1).mean()), rmse=float(rmse[:, :n].min(axis=1).mean())
        ),
        methods=dict(zip(METHODS, means[:n], strict=True)),
    )


def legal_values(values: ArrayLike, what: str) -> NDArray[np.float64]:
    """Return values as float64[n]; raise `UsageError` that names `what` if one is beyond the battery's range."""
    value = np.require(values, np.float64, ("C", "W"))
    if not (np.abs(value) <= LARGEST).all():
        raise UsageError(f"{what} has values beyond ±{LARGEST:g} or not finite")
    return value


def _errors(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return errors one step ahead, float64[scored, methods + 2]: every method, then the MAE pick and the MSE pick."""
    predicted, answered = np.empty((len(value), len(METHODS))), np.empty((len(value), 2))
    trace.compiled(np.zeros(1, STATE), value, predicted, answered)
    everything = np.hstack((predicted, answered))[NOT_SCORED:]
    return everything - value[NOT_SCORED:, None]
