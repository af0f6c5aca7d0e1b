"""Whether the hosts of a run have the memory that its ranks are about to take. Collective, decides nothing else."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def shortage(comm: Intracomm, needed_bytes: int) -> str | None:
    """What this rank's host lacks for so many more bytes of each of its ranks, or None; collective.

    As `alpha: 3 rank(s) need 5.10 GiB, 4.20 GiB are free`.
    """
    import psutil

    host, available = socket.gethostname(), psutil.virtual_memory().available
    together = [
        (need, free) for other, need, free in comm.allgather((host, needed_bytes, available)) if other == host
    ]
    needs = [need for need, _ in together if need > 0]
    # Free memory moves while ranks look; all of a host go by the least that one of them saw.
    free = min(free for _, free in together)
    if sum(needs) <= free:
        return None
    return f"{host}: {len(needs)} rank(s) need {sum(needs) / 2**30:.2f} GiB, {free / 2**30:.2f} GiB are free"
