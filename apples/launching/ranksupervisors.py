"""The rank supervisors on one host, for sending signals to them.

Every rank gets a signal once, also a rank that starts later. Process descriptors make sure that no other process is
hit. Imported by the host agent, so it imports little.
"""

from __future__ import annotations

import os
import signal


class RankSupervisors:
    """Rank supervisors by rank, and the signals that were forwarded so far."""

    def __init__(self) -> None:
        self._supervisors: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        self._forwarded: list[int] = []

    def add(self, rank: int, pid: int) -> None:
        """Add the supervisor of a rank that runs. Ignored if the rank is known."""
        if rank in self._supervisors:
            return
        try:
            self._supervisors[rank] = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        self._delivered[rank] = 0
        self._deliver(rank)

    def forward(self, number: int) -> None:
        """Send a signal to every rank that runs, and to each that starts later."""
        self._forwarded.append(number)
        for rank in self._supervisors:
            self._deliver(rank)

    def kill(self) -> None:
        """Kill the supervisors. Their programs die with them."""
        for pidfd in self._supervisors.values():
            _send(pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Close the process descriptors."""
        for pidfd in self._supervisors.values():
            os.close(pidfd)
        self._supervisors.clear()

    def _deliver(self, rank: int) -> None:
        for number in self._forwarded[self._delivered[rank] :]:
            _send(self._supervisors[rank], number)
        self._delivered[rank] = len(self._forwarded)


def _send(pidfd: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return
