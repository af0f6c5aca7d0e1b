"""The rank supervisors on one host, for sending signals to them.

Every rank gets a signal once, also a rank that starts later. Process descriptors make sure that no other process is
hit; with Python 3.8 or Linux before 5.3 there are none, and process ids have to do. Imported by the host agent, so it
imports little.
"""

from __future__ import annotations

import os
import signal


class RankSupervisors:
    """Process and descriptor of each rank's supervisor, and the signals that were forwarded so far."""

    def __init__(self) -> None:
        self._supervisors: dict[int, tuple[int, int | None]] = {}
        self._delivered: dict[int, int] = {}
        self._forwarded: list[int] = []

    def add(self, rank: int, pid: int) -> None:
        """Add the supervisor of a rank that runs. Ignored if the rank is known."""
        if rank in self._supervisors:
            return
        try:
            self._supervisors[rank] = pid, os.pidfd_open(pid)
        except ProcessLookupError:
            return
        except (AttributeError, OSError):
            self._supervisors[rank] = pid, None
        self._delivered[rank] = 0
        self._deliver(rank)

    def forward(self, number: int) -> None:
        """Send a signal to every rank that runs, and to each that starts later."""
        # Kept for ranks that start later: an interrupt during the start must reach them as well.
        self._forwarded.append(number)
        for rank in self._supervisors:
            self._deliver(rank)

    def kill(self) -> None:
        """Kill the supervisors. Their programs die with them."""
        for supervisor in self._supervisors.values():
            _send(supervisor, signal.SIGKILL)

    def _deliver(self, rank: int) -> None:
        # In the order of arrival, each once.
        for number in self._forwarded[self._delivered[rank] :]:
            _send(self._supervisors[rank], number)
        self._delivered[rank] = len(self._forwarded)


def _send(supervisor: tuple[int, int | None], number: int) -> None:
    pid, pidfd = supervisor
    try:
        if pidfd is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return
