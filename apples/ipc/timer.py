"""A kernel timer as a file descriptor: wakes a poll at instants of the monotonic clock, to the microsecond.

`epoll` rounds its time-outs up to milliseconds and `select` takes no descriptor above 1023; Python offers
`timerfd` from 3.13 only, so the two calls are made here.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import time

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
        self._spec = _Spec()
        self._reference = ctypes.byref(self._spec)

    def fileno(self) -> int:
        """For epoll."""
        return self._fd

    def set(self, when: float | None) -> None:
        """Expire once at `when` (seconds of `time.monotonic`), at once if that is past; None: never."""
        self._arm(when, 0.0)

    def _arm(self, when: float | None, seconds: float) -> None:
        # All zeros would disarm it.
        nanoseconds = 0 if when is None else max(int(when * 1e9), 1)
        self._spec.first_s, self._spec.first_ns = divmod(nanoseconds, 1_000_000_000)
        self._spec.every_s, self._spec.every_ns = divmod(round(seconds * 1e9), 1_000_000_000)
        if self._libc.timerfd_settime(self._fd, _ABSOLUTE, self._reference, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def every(self, first: float, seconds: float) -> None:
        """Expire at `first` (seconds of `time.monotonic`), and again every so many seconds, to the nanosecond."""
        self._arm(first, seconds)

    def expired(self) -> int:
        """How often it has since this was last asked; 0 where it has not."""
        try:
            return int.from_bytes(os.read(self._fd, 8), sys.byteorder)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


def raw() -> float:
    """The clock as the hardware runs, which nothing sets or slews, seconds."""
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


def between_heartbeats(beat: float, slice_s: float, when: float) -> float:
    """The middle of the slice that `when` lies in, by the instant of any beat: what is in no hurry holds up no beat.

    `when` itself where slices are longer than a second: beats so rare are seldom met.
    """
    return beat + (math.floor((when - beat) / slice_s) + 0.5) * slice_s if slice_s <= 1.0 else when


def now() -> float:
    """The clock that timers and monitor pages go by, seconds."""
    return time.monotonic()
