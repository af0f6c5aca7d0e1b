"""Values of one process at one moment, as its page has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from apples.coscheduling.classes import MonitorCounts


class MonitorState(IntEnum):
    """Progress of the process; a process that crashed stays RUNNING."""

    STARTING = 0
    RUNNING = 1
    FINALIZED = 2


class PageTimes(NamedTuple):
    """The values of a page that a node manager reads at heartbeats, each as in `PageCounters`."""

    reading: MonitorCounts
    ran_s: float
    threads: int
    off_s: float
    queued_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Point-to-point messages that one rank has sent to another.

    rank : the destination in MPI_COMM_WORLD; None for the destinations beyond the first 64 together
    """

    rank: int | None
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCounters:
    """All values of a page at one moment; times in seconds.

    started_s, ended_s, updated_s : on CLOCK_MONOTONIC; `ended_s` is None until MPI_Finalize
    t_cpu_s : CPU time outside MPI.  t_comm_s : time in blocking MPI calls, without time held stopped
    c_comm : blocking communications, those with no computation between them as one.  calls : MPI calls seen
    sent, received : point-to-point messages.  requests : messages from scheduled senders while not scheduled
    last_request_s : time of the last of these, None for never.  sleeps : times it slept while it waited
    threads : threads that called MPI; their times are summed.  mpi : the MPI library
    stopped_s : time for which it was held stopped, until MPI_Finalize
    off_s : time outside MPI without a CPU.  queued_s : the part of it in which others had the CPU that it wanted
    init_s : from the start of the process until after MPI_Init, None if unknown.  init_cpu_s : its CPU time until then
    cpu_s : CPU time of the process with all its threads, until MPI_Finalize; until MPI_Init for one that runs
    peak_bytes : largest resident memory, until the same instant; 0 if unknown
    iterations : of its loop, counted from the sequence of its calls.  period : calls of one of them, 0 for no loop
    neighbours : messages sent, by destination
    best_wait : the best way to wait, by a rank that chose; None for others.  wait_costs : time per iteration of each
        measured way, as a multiple of that of the best one
    """

    pid: int
    rank: int
    ranks: int
    state: MonitorState
    threads: int
    started_s: float
    ended_s: float | None
    updated_s: float
    t_cpu_s: float
    t_comm_s: float
    c_comm: int
    calls: int
    sent: int
    received: int
    requests: int
    last_request_s: float | None
    sleeps: int
    mpi: str
    host: str
    stopped_s: float = 0.0
    off_s: float = 0.0
    queued_s: float = 0.0
    init_s: float | None = None
    init_cpu_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    iterations: int = 0
    period: int = 0
    neighbours: tuple[Sent, ...] = ()
    best_wait: str | None = None
    wait_costs: Mapping[str, float] = field(default_factory=dict)

    @property
    def elapsed_s(self) -> float:
        """Time from MPI_Init to MPI_Finalize, or to the last update."""
        return (self.updated_s if self.ended_s is None else self.ended_s) - self.started_s

    @property
    def ran_s(self) -> float:
        """The same without the time held stopped: the time for which it could run."""
        return could_run_s(self.elapsed_s, self.stopped_s, self.t_cpu_s / max(self.threads, 1))

    @property
    def reading(self) -> MonitorCounts:
        """The counts that the classification needs."""
        return MonitorCounts(self.t_cpu_s, self.t_comm_s, self.c_comm)


def could_run_s(elapsed_s: float, stopped_s: float, computed_s: float) -> float:
    """Return the time for which a process could run, of which it was held stopped for a part.

    Not less than its computation: for a process killed while it was held, the stop counts to its end.
    """
    return max(elapsed_s - stopped_s, min(computed_s, elapsed_s))
