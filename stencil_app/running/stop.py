"""How a run is ended from outside: a signal to any rank is noted, and every rank stops at one iteration.

The handler only notes the signal; the reduction that ends each iteration spreads it, so that no rank is
left waiting for one that has gone. While a rank waits inside MPI the note waits too; the others reach it.
"""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Whether this process was asked to end. `code`: the signal's number, 0 while it was not."""

    def __init__(self) -> None:
        self.code = 0

    def listen(self) -> StopRequest:
        """Take over SIGTERM and SIGINT of this process (main thread only)."""
        for number in SIGNALS:
            signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.code = max(self.code, number)
