"""Time slices of a node without a machine manager (message-driven): the slice timer, requests and pulses.

Processes that ask for the processor are heard at once. Pages are also read every `LOOK_S`, in case a request got lost.
Processes that are limited, where no quota can be set, run in pulses by signals. Paper: Yoo and Jette, section 2.2.3.
"""

from __future__ import annotations

from collections.abc import Callable

from apples.daemons.ipc.loop import Alarm, Loop
from apples.daemons.ipc.timer import now
from apples.daemons.node import ManagedNode

#: Period of reading the pages for messages, and of pulses, seconds.
LOOK_S = 0.1
#: Least time between two reads because of requests, seconds, so that requests cannot take all of the CPU.
_REQUEST_S = 0.002


class OwnTimer:
    """Timers of one node. `enforce`: called after each change of the orders."""

    def __init__(self, loop: Loop, node: ManagedNode, slice_s: float, enforce: Callable[[], None]) -> None:
        self._loop, self._node, self.slice_s, self._enforce = loop, node, slice_s, enforce
        self._requests_from = 0.0
        self._request: Alarm | None = None

    def start(self) -> None:
        """Start the slice timer and the periodic reads."""
        first, look = now() + self.slice_s, now() + LOOK_S
        self._loop.at(first, lambda: self._end_slice(first))
        self._loop.at(look, lambda: self._look(look))

    def request(self) -> None:
        """Handle a process that asks for the processor (CMDSCH)."""
        if self._request is None:
            self._request = self._loop.at(self._requests_from, self._look_for_request)

    def _look_for_request(self) -> None:
        self._request = None
        if self._node.look_for_messages(now()):
            self._enforce()
        self._requests_from = now() + _REQUEST_S

    def _end_slice(self, due: float) -> None:
        # First: a step that fails must not be the last.
        following = due + self.slice_s
        self._loop.at(following, lambda: self._end_slice(following))
        self._node.timer(now())
        self._enforce()

    def _look(self, due: float) -> None:
        """Read messages, then begin a pulse of the processes that are limited and have no quota."""
        following = max(due + LOOK_S, now())
        self._loop.at(following, lambda: self._look(following))
        self._node.look_for_messages(now())
        share = min(self._node.pulsing, 1.0)
        self._node.pulse = share > 0
        self._enforce()
        if share > 0:
            self._loop.after(share * LOOK_S, self._end_pulse)

    def _end_pulse(self) -> None:
        self._node.pulse = False
        self._enforce()
