"""The loop of the synthetic job and what it reports; collective on all ranks.

An iteration is one computation and, unless the pattern is none, one communication: with the ring a message to
either neighbour and one from each, which is two `MPI_Sendrecv`. Ranks measure themselves on the wall; where they
compute by the CPU clock, on that as well.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from stencil_app.bsp.settings import BspSettings
from stencil_app.bsp.work import Arithmetic, Spin, Work

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """What one rank did, seconds.

    asked_s : CPU time it was asked to compute.  compute_s, communicate_s : on the wall
    communications : iterations with communication.  received : sum of the bytes it was sent, modulo 2**32
    """

    rank: int
    host: str
    pid: int
    asked_s: float
    compute_s: float
    communicate_s: float
    communications: int
    received: int


def make_work(comm: Intracomm, settings: BspSettings) -> Work:
    """The computing of this rank; all ranks get the same rate, the highest that one of them measured."""
    if settings.work == "spin":
        return Spin()
    work = Arithmetic(settings.rate)
    work.rate = max(comm.allgather(work.rate))
    return work


def run(comm: Intracomm, settings: BspSettings) -> dict[str, Any]:
    """Run to the end; the document of the whole run, the same on every rank."""
    work = make_work(comm, settings)
    work.prepare(settings.compute_s(comm.rank))
    communicate, received = _communication(comm, settings)
    clock = time.perf_counter
    compute_s = communicate_s = 0.0
    comm.Barrier()
    began = clock()
    for _ in range(settings.iterations):
        start = clock()
        work.compute()
        computed = clock()
        communicate()
        communicate_s += clock() - computed
        compute_s += computed - start
    elapsed_s = clock() - began
    report = RankReport(
        rank=comm.rank,
        host=socket.gethostname(),
        pid=os.getpid(),
        asked_s=settings.iterations * settings.compute_s(comm.rank),
        compute_s=compute_s,
        communicate_s=communicate_s,
        communications=0 if settings.pattern == "none" else settings.iterations,
        received=received(),
    )
    everyone = comm.allgather((elapsed_s, report))
    return _document(settings, work, everyone)


def _communication(comm: Intracomm, settings: BspSettings) -> tuple[Callable[[], None], Callable[[], int]]:
    """What ends an iteration, and the sum of what has been received in the end."""
    if settings.pattern == "none":
        return (lambda: None), (lambda: 0)
    if settings.pattern == "barrier":
        return comm.Barrier, (lambda: 0)
    import numpy as np

    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    mine = np.full(settings.message_bytes, (comm.rank + 1) % 256, dtype=np.uint8)
    from_left, from_right = np.zeros_like(mine), np.zeros_like(mine)
    exchange = comm.Sendrecv

    def ring() -> None:
        exchange(mine, right, 1, from_left, left, 1)
        exchange(mine, left, 2, from_right, right, 2)

    def received() -> int:
        both = int(from_left.sum(dtype=np.uint64)) + int(from_right.sum(dtype=np.uint64))
        return both * settings.iterations % 2**32

    return ring, received


def _document(settings: BspSettings, work: Work, everyone: list[tuple[float, RankReport]]) -> dict[str, Any]:
    from mpi4py import MPI

    return {
        "application": "bsp",
        "mpi": " ".join(MPI.Get_library_version().split()[:3]).rstrip(","),
        "ranks": len(everyone),
        **asdict(settings),
        "imbalance": list(settings.imbalance),
        "rate": work.rate,
        "elapsed_s": max(elapsed_s for elapsed_s, _ in everyone),
        "per_rank": [asdict(report) for _, report in everyone],
    }


def text_lines(document: dict[str, Any]) -> list[str]:
    """The document for people."""
    rate = document["rate"]
    return [
        f"bsp: {document['iterations']} iterations of {document['granularity_s'] * 1e3:g} ms, pattern "
        f"{document['pattern']}, {document['ranks']} rank{'s' * (document['ranks'] != 1)}, {document['mpi']}"
        + ("" if rate is None else f", rate {rate:.6g}"),
        f"elapsed {document['elapsed_s']:.6f} s",
        *(
            f"rank {entry['rank']}: computed {entry['compute_s']:.6f} s of {entry['asked_s']:.6f} s, "
            f"communicated {entry['communicate_s']:.6f} s in {entry['communications']}, "
            f"received {entry['received']}"
            for entry in document["per_rank"]
        ),
    ]
