"""Observations of a run by the monitor: a typed document of its ranks, the same for every MPI program.

`observe` reads the pages of a job during or after its run. It needs no help from the program.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apples.monitoring.counters import MonitorState, PageCounters, Sent
from apples.monitoring.environment import figures_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Point-to-point messages between a rank and another one, as the senders counted them.

    rank : the other rank; None for all destinations beyond the first 64
    received_messages, received_bytes : None if the other rank left no page, or does not list this one singly
    """

    rank: int | None
    sent_messages: int
    sent_bytes: int
    received_messages: int | None
    received_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRank:
    """One rank from its start to MPI_Finalize, or as far as it came. Times in seconds.

    finalized : it reached MPI_Finalize
    wall_s : from MPI_Init to MPI_Finalize.  stopped_s : of these, held stopped by the node manager
    compute_cpu_s : CPU time outside MPI of the threads that call MPI
    cpu_s : CPU time of the whole process from MPI_Init to MPI_Finalize; None before the end
    communication_s : in MPI calls that may wait.  queued_s : outside MPI, while others had the CPU
    paused_s : outside MPI without a CPU that it wanted: files, timers, page faults, time a hypervisor stole
    startup_s : from the start of the process until after MPI_Init, None if unknown.  startup_cpu_s : its CPU time
    iterations : of the program's loop, counted from the sequence of its MPI calls; None if it showed no loop
    peak_bytes : largest resident memory, None if unknown
    neighbours : by rank
    """

    rank: int
    host: str
    pid: int
    finalized: bool
    wall_s: float
    stopped_s: float
    compute_cpu_s: float
    cpu_s: float | None
    communication_s: float
    queued_s: float
    paused_s: float
    startup_s: float | None
    startup_cpu_s: float
    iterations: int | None
    peak_bytes: int | None
    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """All ranks that have left a page, in rank order.

    size : ranks of the job, 0 before any has begun MPI.  mpi : the MPI library
    """

    size: int
    mpi: str | None
    ranks: tuple[ObservedRank, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Return the ranks without a page."""
        here = {rank.rank for rank in self.ranks}
        return tuple(rank for rank in range(self.size) if rank not in here)

    @property
    def iterations(self) -> int | None:
        """Return the iterations that every rank has counted; None if some rank has shown no loop."""
        counts = [rank.iterations for rank in self.ranks]
        known = [count for count in counts if count is not None]
        return min(known) if known and len(known) == self.size else None

    def document(self) -> dict[str, Any]:
        """Return the observation as a JSON document."""
        return {"version": 1, **asdict(self), "missing": list(self.missing), "iterations": self.iterations}


def observe(directory: Path, job: str) -> ObservedJob:
    """Return the observation of a job up to now; raise `MonitorError` if its directory cannot be read."""
    return observed(figures_of(directory, job))


def observed(counters: Sequence[PageCounters]) -> ObservedJob:
    """Return the observation of a job from the counters of its ranks."""
    ranks = sorted(counters, key=lambda rank: rank.rank)
    sent = {rank.rank: {one.rank: one for one in rank.neighbours} for rank in ranks}
    return ObservedJob(
        size=max((rank.ranks for rank in ranks), default=0),
        mpi=ranks[0].mpi if ranks else None,
        ranks=tuple(_observed_rank(rank, sent) for rank in ranks),
    )


def _observed_rank(rank: PageCounters, sent: dict[int, dict[int | None, Sent]]) -> ObservedRank:
    finalized = rank.state is MonitorState.FINALIZED
    others = {*sent[rank.rank], *(other for other, to in sent.items() if rank.rank in to)}
    ordered = sorted(others, key=lambda other: (other is None, other or 0))
    return ObservedRank(
        rank=rank.rank,
        host=rank.host,
        pid=rank.pid,
        finalized=finalized,
        wall_s=rank.elapsed_s,
        stopped_s=rank.stopped_s,
        compute_cpu_s=rank.t_cpu_s,
        cpu_s=rank.cpu_s - rank.init_cpu_s if finalized else None,
        communication_s=rank.t_comm_s,
        queued_s=rank.queued_s,
        paused_s=max(rank.off_s - rank.queued_s, 0.0),
        startup_s=rank.init_s,
        startup_cpu_s=rank.init_cpu_s,
        iterations=rank.iterations or None,
        peak_bytes=rank.peak_bytes or None,
        neighbours=tuple(_neighbour(rank.rank, other, sent) for other in ordered),
    )


def _neighbour(rank: int, other: int | None, sent: dict[int, dict[int | None, Sent]]) -> Neighbour:
    to = sent[rank].get(other, Sent(rank=other, messages=0, bytes=0))
    theirs = {} if other is None else sent.get(other)
    back = None
    if theirs is not None and other is not None and (rank in theirs or None not in theirs):
        back = theirs.get(rank, Sent(rank=rank, messages=0, bytes=0))
    return Neighbour(
        rank=other,
        sent_messages=to.messages,
        sent_bytes=to.bytes,
        received_messages=None if back is None else back.messages,
        received_bytes=None if back is None else back.bytes,
    )
