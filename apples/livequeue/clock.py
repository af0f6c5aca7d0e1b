"""The queue's instants: seconds since its origin, in whole 1/1024 s, each later than all earlier ones.

Sums and differences of these numbers are exact in binary: start + run time equals the instant of the end. A replay of
the queue's log therefore has the same events at the same instants, in the same order.
"""

import math
import time
from collections.abc import Callable

_TICKS = 1024.0


def rounded(seconds: float) -> float:
    """Return the nearest whole tick, s."""
    return round(seconds * _TICKS) / _TICKS


def rounded_up(seconds: float) -> float:
    """Return the next whole tick, s, at least one tick."""
    return max(math.ceil(seconds * _TICKS), 1) / _TICKS


class Clock:
    """A clock that runs steadily from its start, also when the time of day is changed."""

    def __init__(self, origin: float, last_s: float, steady: Callable[[], float] = time.monotonic) -> None:
        """Start the clock.

        Args:
            origin: time of instant 0, s since the epoch.
            last_s: the last instant, or -1 before the first.
            steady: returns seconds that never jump.
        """
        self.origin, self.last_s = origin, last_s
        self._steady = steady
        self._begun_s, self._since_s = max(time.time() - origin, last_s, 0.0), steady()

    def now(self) -> float:
        """Return the seconds since the origin, not rounded."""
        return self._begun_s + self._steady() - self._since_s

    def instant(self) -> float:
        """Return the next instant."""
        self.last_s = max(rounded(self.now()), self.last_s + 1.0 / _TICKS)
        return self.last_s

    def time_of_day(self, instant_s: float) -> float:
        """Return the time of an instant, s since the epoch."""
        return self.origin + instant_s
