"""Efficiencies of a job from the values of its ranks.

The metrics extend those of TALP (Lopez et al. 2021), with the useful time of a rank (its CPU time outside MPI) over the
elapsed time of the job. TALP takes everything that is not useful for communication. Here, a rank that wanted a CPU and
had none, and one that slept outside MPI, are distinguished from one that waited for messages:

    load balance = mean useful / largest useful             how evenly the work is spread
    CPU share = largest useful / largest wanted             wanted: useful and waiting for a CPU that others had
    activity = largest wanted / largest outside             outside: wanted and asleep outside MPI (files, timers)
    communication efficiency = largest outside / elapsed    share of the rank that waits least in MPI

Parallel efficiency is their product, mean useful / elapsed. Time for which a rank is held stopped, because other jobs
have their slots, does not count.

Observations of a run by the monitor: a typed document of its ranks, the same for every MPI program.

`observe` reads the pages of a job during or after its run. It needs no help from the program.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from apples.monitoring.counters import MonitorState, PageCounters, Sent
from apples.monitoring.environment import figures_of
from nws.base.records import copied, document_of


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
    return copied(
        ObservedRank,
        rank,
        finalized=finalized,
        wall_s=rank.elapsed_s,
        compute_cpu_s=rank.t_cpu_s,
        cpu_s=rank.cpu_s - rank.init_cpu_s if finalized else None,
        communication_s=rank.t_comm_s,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiencies:
    """Efficiencies of one job, each in 0..1.

    elapsed_s : of the rank that took longest, from MPI_Init to MPI_Finalize, without time held stopped
    """

    elapsed_s: float
    parallel: float
    load_balance: float
    communication: float
    cpu_share: float
    activity: float


class Times(Protocol):
    """Values of a rank that the metrics need; its times outside MPI are summed over its threads."""

    @property
    def t_cpu_s(self) -> float:
        """CPU time outside MPI, seconds."""

    @property
    def off_s(self) -> float:
        """Time outside MPI without a CPU, seconds."""

    @property
    def queued_s(self) -> float:
        """Part of it in which the rank wanted a CPU that others had, seconds."""

    @property
    def threads(self) -> int:
        """Number of threads that call MPI."""

    @property
    def ran_s(self) -> float:
        """Time for which it could run, seconds."""


def outside_s(rank: Times) -> float:
    """Return the time outside MPI, with and without a CPU, seconds: TALP's useful time."""
    return (rank.t_cpu_s + max(rank.off_s, rank.queued_s)) / max(rank.threads, 1)


def efficiencies(ranks: Sequence[Times]) -> Efficiencies | None:
    """Return the metrics; None before any computation. Threads that call MPI count like ranks."""
    useful = [rank.t_cpu_s / max(rank.threads, 1) for rank in ranks]
    demanded = [(rank.t_cpu_s + rank.queued_s) / max(rank.threads, 1) for rank in ranks]
    outside = [outside_s(rank) for rank in ranks]
    elapsed_s = max((rank.ran_s for rank in ranks), default=0.0)
    if not useful or max(useful) <= 0 or elapsed_s <= 0:
        return None
    # A reading of the two clocks is a microsecond apart.
    elapsed_s = max(elapsed_s, max(outside))
    mean, largest = math.fsum(useful) / len(useful), max(useful)
    return Efficiencies(
        elapsed_s=elapsed_s,
        parallel=mean / elapsed_s,
        load_balance=mean / largest,
        communication=max(outside) / elapsed_s,
        cpu_share=largest / max(demanded),
        activity=max(demanded) / max(outside),
    )


def monitor_document(ranks: Sequence[PageCounters]) -> dict[str, Any]:
    """Return the JSON document of a job, in rank order; `missing` are the ranks that left no page.

    Its `observation` has all that was observed of each rank (`apples.monitoring.efficiencies`).
    """
    metrics = efficiencies(ranks)
    size = max((rank.ranks for rank in ranks), default=0)
    here = {rank.rank for rank in ranks}
    return {
        "mpi": ranks[0].mpi if ranks else None,
        "elapsed_s": None if metrics is None else metrics.elapsed_s,
        "parallel_efficiency": None if metrics is None else metrics.parallel,
        "load_balance": None if metrics is None else metrics.load_balance,
        "communication_efficiency": None if metrics is None else metrics.communication,
        "cpu_share": None if metrics is None else metrics.cpu_share,
        "activity": None if metrics is None else metrics.activity,
        "missing": [rank for rank in range(size) if rank not in here],
        "ranks": [_rank(rank) for rank in sorted(ranks, key=lambda rank: rank.rank)],
        "observation": observed(ranks).document(),
        "talp": None if metrics is None else talp_document(ranks, metrics),
    }


def talp_document(ranks: Sequence[PageCounters], metrics: Efficiencies) -> dict[str, Any]:
    """Return the document that DLB 3.8 writes with `--talp-output-file`; times in nanoseconds, of all ranks together.

    Its metrics take all time outside MPI for useful (`perf_metrics.c` of DLB). `cpuShare` and `activity` are added.
    """
    outside = [outside_s(rank) for rank in ranks]
    hosts = {rank.host: [outside_s(one) for one in ranks if one.host == rank.host] for rank in ranks}
    mean, largest, count = math.fsum(outside) / len(ranks), max(outside), len(ranks)
    fullest = max(math.fsum(times) / len(times) for times in hosts.values())
    region = {
        "numCpus": count,
        "numMpiRanks": count,
        "numNodes": len(hosts),
        # No hardware counters: readers take 0 for unknown.
        "cycles": 0,
        "instructions": 0,
        "numMpiCalls": sum(rank.calls for rank in ranks),
        "elapsedTime": round(1e9 * metrics.elapsed_s),
        "usefulTime": round(1e9 * mean * count),
        "mpiTime": round(1e9 * (metrics.elapsed_s - mean) * count),
        "parallelEfficiency": mean / metrics.elapsed_s,
        "mpiParallelEfficiency": mean / metrics.elapsed_s,
        "mpiCommunicationEfficiency": largest / metrics.elapsed_s,
        "mpiLoadBalance": mean / largest,
        "mpiLoadBalanceIn": fullest / largest,
        "mpiLoadBalanceOut": mean / fullest,
        "cpuShare": metrics.cpu_share,
        "activity": metrics.activity,
    }
    resources = {"numCpus": count, "numNodes": len(hosts), "numMpiRanks": count, "numGpus": 0}
    return {"dlbVersion": "3.8", "resources": resources, "Application": {"Global": region}}


def _rank(rank: PageCounters) -> dict[str, Any]:
    granularity_s = rank.reading.granularity_s
    return {
        **document_of(rank, "rank", "host", "pid"),
        "finalized": rank.state is MonitorState.FINALIZED,
        **document_of(rank, "elapsed_s", "t_cpu_s", "t_comm_s", "queued_s", "c_comm"),
        "granularity_s": granularity_s if math.isfinite(granularity_s) else None,
        **document_of(rank, "calls", "sleeps", "threads", "best_wait", "wait_costs"),
    }
