"""Checks that the hosts of a run have enough memory for its ranks. Collective."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def shortage(comm: Intracomm, needed_bytes: int) -> str | None:
    """Return the memory this rank's host lacks for `needed_bytes` more on each of its ranks, or None; collective.

    As `alpha: 3 rank(s) need 5.10 GiB, 4.20 GiB are free`.
    """
    import psutil

    host, available = socket.gethostname(), psutil.virtual_memory().available
    together = [
        (need, free) for other, need, free in comm.allgather((host, needed_bytes, available)) if other == host
    ]
    needs = [need for need, _ in together if need > 0]
    # Free memory changes while ranks read it; all ranks of a host use the smallest value read.
    free = min(free for _, free in together)
    if sum(needs) <= free:
        return None
    return f"{host}: {len(needs)} rank(s) need {sum(needs) / 2**30:.2f} GiB, {free / 2**30:.2f} GiB are free"
