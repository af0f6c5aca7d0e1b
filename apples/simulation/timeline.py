"""Values that change at instants and are constant in between: processes on a host, traffic on a link.

Means over an interval are exact integrals, so sensors and runs see the same values. No random numbers are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apples.model.grid import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A piecewise-constant function of time.

    times: float64[N], ascending seconds. Value `values[i]` holds from `times[i]` until `times[i+1]`, the last one for
    ever. values: float64[N]. The first value also holds before `times[0]`.
    """

    times: FloatArray
    values: FloatArray

    @classmethod
    def of_intervals(cls, begin: FloatArray, end: FloatArray, weight: FloatArray) -> Steps:
        """Return the sum of weights of the intervals [begin, end) that contain an instant; 0 before the first."""
        at = np.concatenate((begin, end))
        change = np.concatenate((weight, -weight))
        order = np.argsort(at, kind="stable")
        times, first = np.unique(at[order], return_index=True)
        if not len(times):
            return cls(np.zeros(1), np.zeros(1))
        total = np.cumsum(np.add.reduceat(change[order], first))
        return cls(np.concatenate(([times[0] - 1.0], times)), np.concatenate(([0.0], total)))

    def at(self, t: FloatArray | float) -> FloatArray:
        """Return the values at instants."""
        place = np.searchsorted(self.times, t, side="right") - 1
        return self.values[np.maximum(place, 0)]

    def mean(self, begin: FloatArray, end: FloatArray) -> FloatArray:
        """Return the time average over each interval [begin, end], end > begin."""
        return (self._integral(end) - self._integral(begin)) / (end - begin)

    def _integral(self, t: FloatArray) -> FloatArray:
        """Return the integral from `times[0]` to each instant. The outer values are continued."""
        area = np.concatenate(([0.0], np.cumsum(np.diff(self.times) * self.values[:-1])))
        place = np.maximum(np.searchsorted(self.times, t, side="right") - 1, 0)
        integral: FloatArray = area[place] + (t - self.times[place]) * self.values[place]
        return integral

    def mapped(self, values: FloatArray) -> Steps:
        """Return a function with other values at the same instants."""
        return Steps(self.times, values)

    def breaks(self, begin: float, end: float) -> FloatArray:
        """Return the instants of change strictly inside (begin, end)."""
        first = np.searchsorted(self.times, begin, side="right")
        last = np.searchsorted(self.times, end, side="left")
        return self.times[first:last]
