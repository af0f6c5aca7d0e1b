"""Ends a run from outside: a signal to any rank is recorded, and every rank stops at one iteration.

The handler only records the signal; the reduction that ends each iteration spreads it, so that no rank waits for one
that has ended. While a rank waits inside MPI its signal is pending; it reaches the other ranks later.
"""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """A request to end this process. `code`: the signal's number, 0 without a request."""

    def __init__(self) -> None:
        self.code = 0

    def listen(self) -> StopRequest:
        """Take over SIGTERM and SIGINT of this process (main thread only)."""
        for number in SIGNALS:
            signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.code = max(self.code, number)
