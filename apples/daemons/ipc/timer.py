"""A kernel timer as a file descriptor: wakes a poll at instants of the monotonic clock, to the microsecond.

`epoll` rounds its time-outs up to milliseconds and `select` accepts no descriptor above 1023. Python has `timerfd`
from 3.13 only, so the two calls are made here.
"""

import ctypes
import os
import sys
import time
from functools import partial

_CLOCK_MONOTONIC, _ABSOLUTE = 1, 1
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK


class _Spec(ctypes.Structure):
    """`struct itimerspec`: interval, then first expiry, seconds and nanoseconds each."""

    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns")]


class Timer:
    """One timer; `fileno` is readable once it has expired, until it is set again."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        # Kept: making one at each heartbeat would cost more than the call.
        self._spec = _Spec()
        self._reference = ctypes.byref(self._spec)

    def fileno(self) -> int:
        """Return the descriptor for epoll."""
        return self._fd

    def set(self, when: float | None, every_s: float = 0.0) -> None:
        """Expire at `when` (seconds of `time.monotonic`), at once if that is past; None: never.

        `every_s`: expire again every so many seconds, to the nanosecond; 0 for once.
        """
        # All zeros would disarm it.
        nanoseconds = 0 if when is None else max(int(when * 1e9), 1)
        self._spec.first_s, self._spec.first_ns = divmod(nanoseconds, 1_000_000_000)
        self._spec.every_s, self._spec.every_ns = divmod(round(every_s * 1e9), 1_000_000_000)
        if self._libc.timerfd_settime(self._fd, _ABSOLUTE, self._reference, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def expired(self) -> int:
        """Return how often it has expired since the last call."""
        try:
            return int.from_bytes(os.read(self._fd, 8), sys.byteorder)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)


#: Seconds of the clock of timers and monitor pages. The daemons read clocks several times at each heartbeat, and a
#: function of Python around each call costs more than the call.
now = time.monotonic
#: Seconds of the hardware clock, which nothing sets or slews.
raw = partial(time.clock_gettime, time.CLOCK_MONOTONIC_RAW)


def with_heartbeat(beat: float, slice_s: float, when: float) -> float:
    """Return the instant of the heartbeat closest to `when`, so that tasks without hurry need no wake-up of their own.

    The argument `beat` is the instant of any heartbeat. The value is `when` itself for slices longer than a second.
    """
    return beat + round((when - beat) / slice_s) * slice_s if slice_s <= 1.0 else when
