"""Quantities that change at instants and are constant between: processes on a host, traffic on a link.

A `Steps` is one such quantity. Means over an interval are exact integrals, so what a sensor averages and what a
run integrates is the same truth. Nothing here draws random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apples.model.grid import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A piecewise-constant function of time.

    times : float64[N], ascending seconds; `values[i]` holds from `times[i]` until `times[i+1]`, the last for ever.
    values : float64[N].  Before `times[0]` the first value holds.
    """

    times: FloatArray
    values: FloatArray

    @classmethod
    def of_intervals(cls, begin: FloatArray, end: FloatArray, weight: FloatArray) -> Steps:
        """Sum of weights of the intervals [begin, end) that cover an instant; 0 before the first."""
        at = np.concatenate((begin, end))
        change = np.concatenate((weight, -weight))
        order = np.argsort(at, kind="stable")
        times, first = np.unique(at[order], return_index=True)
        if not len(times):
            return cls(np.zeros(1), np.zeros(1))
        total = np.cumsum(np.add.reduceat(change[order], first))
        return cls(np.concatenate(([times[0] - 1.0], times)), np.concatenate(([0.0], total)))

    def at(self, t: FloatArray | float) -> FloatArray:
        """Values at instants."""
        place = np.searchsorted(self.times, t, side="right") - 1
        return self.values[np.maximum(place, 0)]

    def mean(self, begin: FloatArray, end: FloatArray) -> FloatArray:
        """Time average over each interval [begin, end], end > begin."""
        return (self._integral(end) - self._integral(begin)) / (end - begin)

    def _integral(self, t: FloatArray) -> FloatArray:
        """Integral from `times[0]` to each instant; the outer values are continued."""
        area = np.concatenate(([0.0], np.cumsum(np.diff(self.times) * self.values[:-1])))
        place = np.maximum(np.searchsorted(self.times, t, side="right") - 1, 0)
        integral: FloatArray = area[place] + (t - self.times[place]) * self.values[place]
        return integral

    def mapped(self, values: FloatArray) -> Steps:
        """Other values at the same instants."""
        return Steps(self.times, values)

    def breaks(self, begin: float, end: float) -> FloatArray:
        """Instants of change strictly inside (begin, end)."""
        first = np.searchsorted(self.times, begin, side="right")
        last = np.searchsorted(self.times, end, side="left")
        return self.times[first:last]
