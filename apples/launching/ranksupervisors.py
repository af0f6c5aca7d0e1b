"""The keepers of the ranks on one host, as the one who signals them sees them. Decides nothing.

A signal goes to every rank once, also to one that starts later. Process descriptors make sure that nobody else is
hit. Imported by the station, so it imports little.
"""

from __future__ import annotations

import os
import signal


class RankSupervisors:
    """Rank supervisors by rank, and the signals that were passed on so far."""

    def __init__(self) -> None:
        self._keepers: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        self._forwarded: list[int] = []

    def add(self, rank: int, pid: int) -> None:
        """A rank runs, watched by process `pid`; known ones stay as they are."""
        if rank in self._keepers:
            return
        try:
            self._keepers[rank] = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        self._delivered[rank] = 0
        self._deliver(rank)

    def forward(self, number: int) -> None:
        """Send a signal to every rank that runs, and to each that starts later."""
        self._forwarded.append(number)
        for rank in self._keepers:
            self._deliver(rank)

    def kill(self) -> None:
        """Kill the keepers; their programs die with them."""
        for pidfd in self._keepers.values():
            _send(pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Let go of the descriptors."""
        for pidfd in self._keepers.values():
            os.close(pidfd)
        self._keepers.clear()

    def _deliver(self, rank: int) -> None:
        for number in self._forwarded[self._delivered[rank] :]:
            _send(self._keepers[rank], number)
        self._delivered[rank] = len(self._forwarded)


def _send(pidfd: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return
