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
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from apples.coscheduling.classes import MonitorCounts
from apples.monitoring.counters import MonitorState, PageCounters
from apples.monitoring.observation import observed


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


def efficiencies(ranks: Sequence[Times]) -> Efficiencies | None:
    """Return the metrics; None before any computation. Threads that call MPI count like ranks."""
    useful = [rank.t_cpu_s / max(rank.threads, 1) for rank in ranks]
    wanted = [(rank.t_cpu_s + rank.queued_s) / max(rank.threads, 1) for rank in ranks]
    outside = [(rank.t_cpu_s + max(rank.off_s, rank.queued_s)) / max(rank.threads, 1) for rank in ranks]
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
        cpu_share=largest / max(wanted),
        activity=max(wanted) / max(outside),
    )


def reading_document(reading: MonitorCounts | None) -> dict[str, Any]:
    """Return the measurements of a process as a document; values that are not measured are None."""
    if reading is None:
        return {"t_cpu_s": None, "t_comm_s": None, "c_comm": None, "granularity_s": None}
    return {
        "t_cpu_s": reading.t_cpu_s,
        "t_comm_s": reading.t_comm_s,
        "c_comm": reading.c_comm,
        "granularity_s": reading.granularity_s if reading.c_comm else None,
    }


def monitor_document(ranks: Sequence[PageCounters]) -> dict[str, Any]:
    """Return the JSON document of a job, in rank order; `missing` are the ranks that left no page.

    Its `observation` has all that was observed of each rank (`apples.monitoring.observation`).
    """
    found = efficiencies(ranks)
    size = max((rank.ranks for rank in ranks), default=0)
    here = {rank.rank for rank in ranks}
    return {
        "mpi": ranks[0].mpi if ranks else None,
        "elapsed_s": None if found is None else found.elapsed_s,
        "parallel_efficiency": None if found is None else found.parallel,
        "load_balance": None if found is None else found.load_balance,
        "communication_efficiency": None if found is None else found.communication,
        "cpu_share": None if found is None else found.cpu_share,
        "activity": None if found is None else found.activity,
        "missing": [rank for rank in range(size) if rank not in here],
        "ranks": [_rank(rank) for rank in sorted(ranks, key=lambda rank: rank.rank)],
        "observation": observed(ranks).document(),
    }


def _rank(rank: PageCounters) -> dict[str, Any]:
    granularity_s = rank.reading.granularity_s
    return {
        "rank": rank.rank,
        "host": rank.host,
        "pid": rank.pid,
        "finalized": rank.state is MonitorState.FINALIZED,
        "elapsed_s": rank.elapsed_s,
        "t_cpu_s": rank.t_cpu_s,
        "t_comm_s": rank.t_comm_s,
        "queued_s": rank.queued_s,
        "c_comm": rank.c_comm,
        "granularity_s": granularity_s if math.isfinite(granularity_s) else None,
        "calls": rank.calls,
        "sleeps": rank.sleeps,
        "threads": rank.threads,
    }
