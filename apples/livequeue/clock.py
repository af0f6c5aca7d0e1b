"""The queue's instants: seconds since its origin, in whole 1/1024 s, each later than all before.

Such numbers are exact in binary, and so are their sums and differences: start + run time is the very instant of the
end, so a replay of the queue's log has the same events at the same instants, in the same order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_TICKS = 1024.0


def rounded(seconds: float) -> float:
    """The nearest whole tick."""
    return round(seconds * _TICKS) / _TICKS


def rounded_up(seconds: float) -> float:
    """The next whole tick, one at least."""
    return max(math.ceil(seconds * _TICKS), 1) / _TICKS


class Clock:
    """Runs steadily from where it is set, whatever happens to the time of day meanwhile."""

    def __init__(self, origin: float, last_s: float, steady: Callable[[], float] = time.monotonic) -> None:
        """origin : s since the epoch.  last_s : the last instant there was; -1 before the first"""
        self.origin, self.last_s = origin, last_s
        self._steady = steady
        self._begun, self._since = max(time.time() - origin, last_s, 0.0), steady()

    def now(self) -> float:
        """Seconds since the origin, as they are."""
        return self._begun + self._steady() - self._since

    def instant(self) -> float:
        """The next instant."""
        self.last_s = max(rounded(self.now()), self.last_s + 1.0 / _TICKS)
        return self.last_s

    def time_of_day(self, instant_s: float) -> float:
        """Seconds since the epoch."""
        return self.origin + instant_s
