"""Signals as events for a loop, in the main thread or any other.

While a `SignalQueue` is open in the main thread, INT, TERM, HUP, USR1 and USR2 are queued instead of ending the
process. The previous handlers are restored afterwards, and an ignored signal stays ignored (`nohup`). Python installs
handlers in the main thread only; elsewhere `post` still works. The effect of a signal on a run is decided in
`apples.launching.termination`.
"""

import os
import signal
import threading
from collections import deque
from types import FrameType
from typing import Self

from apples.hosts.kernel import FORWARDED


class SignalQueue:
    """Signals received while it was open, oldest first; `fileno()` is readable when there are any."""

    def __init__(self) -> None:
        self._received: deque[signal.Signals] = deque()
        self._previous: dict[signal.Signals, object] = {}
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def __enter__(self) -> Self:
        """Install the handlers, in the main thread only."""
        if threading.current_thread() is threading.main_thread():
            for number in FORWARDED:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous.clear()
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._read

    def post(self, number: int) -> None:
        """Add a signal as if it had been received."""
        self._received.append(signal.Signals(number))
        try:
            os.write(self._write, b"!")
        except BlockingIOError:
            # The pipe is full, so the loop will wake.
            return

    def take(self) -> list[signal.Signals]:
        """Return all signals received since the last call."""
        try:
            os.read(self._read, 4096)
        except BlockingIOError:
            return []
        taken = []
        while self._received:
            taken.append(self._received.popleft())
        return taken

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.post(number)
