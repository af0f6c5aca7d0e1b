"""The queue's instants: seconds since its origin, in whole 1/1024 s, each later than all earlier ones.

Sums and differences of these numbers are exact in binary: start + run time equals the instant of the end. A replay of
the queue's log therefore has the same events at the same instants, in the same order.
"""

import math
import time
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

_TICKS = 1024.0


def rounded(seconds: float) -> float:
    """Return the nearest whole tick, s."""
    return round(seconds * _TICKS) / _TICKS


def rounded_up(seconds: float) -> float:
    """Return the next whole tick, s, at least one tick."""
    return max(math.ceil(seconds * _TICKS), 1) / _TICKS


@cache
def boot_number() -> float:
    """Return a number of this boot of the host: the steady clock begins anew with each."""
    return float(zlib.crc32(Path("/proc/sys/kernel/random/boot_id").read_bytes()))


class Clock:
    """A clock that runs steadily, also when the time of day is changed.

    zero_s : what `steady` returned, or would have returned, at instant 0
    """

    def __init__(
        self,
        origin: float,
        last_s: float,
        steady: Callable[[], float] = time.monotonic,
        zero_s: float | None = None,
    ) -> None:
        """Start the clock.

        Args:
            origin: time of instant 0, s since the epoch.
            last_s: the last instant, or -1 before the first.
            steady: returns seconds that never jump.
            zero_s: of an earlier clock since this host was booted, None if there was none.
        """
        self.origin, self.last_s = origin, last_s
        self._steady = steady
        now = steady()
        elapsed_s = time.time() - origin if zero_s is None else now - zero_s
        self.zero_s = now - max(elapsed_s, last_s, 0.0)

    def now(self) -> float:
        """Return the seconds since the origin, not rounded."""
        return self._steady() - self.zero_s

    def instant(self) -> float:
        """Return the next instant."""
        self.last_s = max(rounded(self.now()), self.last_s + 1.0 / _TICKS)
        return self.last_s

    def time_of_day(self, instant_s: float) -> float:
        """Return the time of an instant, s since the epoch."""
        now = self.now()
        # The time of day may have been changed since: what is to come is told by the present one, the past as it was.
        change_s = round(time.time() - self.origin - now) if instant_s > now else 0
        return self.origin + instant_s + change_s
