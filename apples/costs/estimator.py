"""Gaussian estimates of named quantities, moved by one observation after the other: a Kalman filter that forgets.

Each observation is a weighted sum of quantities with an error of known variance. It moves each of them by as much as
the observation is worth beside earlier ones. Three rules for machines that change:

* Before each run all estimates lose some certainty, a part of that which they began with.
* An observation far from its expectation counts as if its error were large, because one run may be disturbed.
* The quantities it contradicts are as uncertain for the next run. That is believed if it agrees, and else brings them
  back. Other observations of the same run were disturbed by the same, so for them nothing changes.

Sources: R. E. Kalman, A new approach to linear filtering and prediction problems, Journal of Basic Engineering 82,
1960; R. J. Meinhold and N. D. Singpurwalla, Robustification of Kalman filter models, JASA 84, 1989.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from apples.model.grid import FloatArray

#: Part of its first variance that each estimate regains with each run.
_FORGOTTEN = 0.01
#: Standard deviations beyond which an observation contradicts its expectation.
_FAR = 3.0
#: Part of the square of a contradiction that becomes variance of the quantities it concerns.
_DOUBT = 0.5

#: Name of a quantity → its factor in a sum.
Weights = Mapping[str, float]


class Surprise(NamedTuple):
    """An observation beside its expectation. distance : from it.  variance : of the distance, as expected"""

    distance: float
    variance: float

    def error(self, variance: float) -> float:
        """Return the expected square of an error of this variance that is a part of the distance."""
        distance = min(abs(self.distance), _FAR * math.sqrt(self.variance))
        gain = variance / self.variance if self.variance else 0.0
        return (gain * distance) ** 2 + variance * (1 - gain)


class Estimator:
    """Estimates with their errors and correlations. Names of unknown quantities are errors of the caller."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._mean, self._prior = np.zeros(0), np.zeros(0)
        self._covariance = np.zeros((0, 0))
        self._doubts: list[FloatArray] = []

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def expect(self, name: str, mean: float, error: float) -> None:
        """Add a quantity, unless it is known. error : standard deviation"""
        if name not in self._at:
            self._at[name] = len(self._at)
            self._mean, self._prior = np.append(self._mean, mean), np.append(self._prior, error**2)
            self._covariance = np.pad(self._covariance, (0, 1))
            self._covariance[-1, -1] = error**2

    def renew(self, name: str, error: float) -> None:
        """Replace a quantity by another of its kind, which is 0 with this standard deviation."""
        self.expect(name, 0.0, error)
        at = self._at[name]
        self._mean[at] = self._covariance[at] = self._covariance[:, at] = 0.0
        self._covariance[at, at] = error**2

    def forget(self) -> None:
        """Make all estimates a little less certain, and those much less that the last run contradicts."""
        self._covariance += np.diag(_FORGOTTEN * self._prior)
        for doubt in self._doubts:
            self._covariance[: len(doubt), : len(doubt)] += np.outer(doubt, doubt)
        self._doubts.clear()

    def value(self, weights: Weights) -> float:
        """Return the expectation of a sum."""
        return float(self._vector(weights) @ self._mean)

    def error(self, weights: Weights) -> float:
        """Return the standard deviation of a sum, at most as large as before any observation."""
        vector = self._vector(weights)
        return math.sqrt(
            max(min(float(vector @ self._covariance @ vector), float(vector**2 @ self._prior)), 0.0)
        )

    def covariance(self, names: list[str]) -> FloatArray:
        """Return the covariance of some quantities, float64[n, n]."""
        at = [self._at[name] for name in names]
        return self._covariance[np.ix_(at, at)]

    def observe(self, weights: Weights, value: float, variance: float, *, sure: bool = False) -> Surprise:
        """Move the estimates by the observation of a sum, whose error has this variance.

        sure : in a contradiction the estimates are wrong, and not the observation
        """
        vector = self._vector(weights)
        shared = self._covariance @ vector
        expected = float(vector @ shared) + variance
        distance = value - float(vector @ self._mean)
        if sure and distance**2 > _FAR**2 * expected > _FAR**2 * variance:
            doubt = shared * (distance / (expected - variance))
            self._covariance += np.outer(doubt, doubt)
            shared = self._covariance @ vector
            expected = float(vector @ shared) + variance
        # A distance of 3 standard deviations or more has the effect of one of 3 of a worse measurement.
        spread = max(expected, (distance / _FAR) ** 2, 1e-300)
        self._mean = self._mean + shared * (distance / spread)
        self._covariance -= np.outer(shared, shared) / spread
        if spread > expected and expected > variance:
            self._doubts.append(shared * (math.sqrt(_DOUBT) * distance / (expected - variance)))
        return Surprise(distance, max(expected, 1e-300))

    def _vector(self, weights: Weights) -> FloatArray:
        vector = np.zeros(len(self._at))
        for name, factor in weights.items():
            vector[self._at[name]] = factor
        return vector


class Scatter:
    """A variance that is estimated. It begins as if so many errors of a standard deviation had been seen."""

    def __init__(self, error: float, errors: float) -> None:
        self._sum, self._count, self._least = errors * error**2, errors, error**2 / 100

    def add(self, square: float, weight: float = 1.0) -> None:
        """Count one more error, as its square."""
        self._sum += weight * square
        self._count += weight

    def forget(self) -> None:
        """Let earlier errors count less."""
        self._sum, self._count = (1 - _FORGOTTEN) * self._sum, (1 - _FORGOTTEN) * self._count

    @property
    def variance(self) -> float:
        """Return the estimate; never 0, so that chance agreement of a few runs is no certainty."""
        return max(self._sum / self._count, self._least)
