"""EASY backfilling for a matrix with several rows (FCS paper, section 5.1).

Each row is a machine with its own `JobQueue`. Jobs start first come, first served in the lowest row with enough free
processors. The first job that fits in no row has one reservation, in the row with the earliest expected space, the
lowest of equals. A later job may start in any other row at once. In the reserved row it may start by EASY's rule: if it
is expected to end in time, or fits beside the reserved job. The expected run time is the request times the degree of
multiprogramming ("multiplying the requested runtime by the MPL to estimate run and reservation times"). One row equals
EASY of the batch queue. When a job ends, others may move to lower rows, and reservations are made anew at every pass,
so a reservation can change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from apples.errors import ConfigError
from apples.queueing.easyqueue import JobQueue
from apples.queueing.jobs import Beliefs, QueueJob
from apples.queueing.settings import QueueSettings


class Start(NamedTuple):
    """The start of a job in a row."""

    job: int
    row: int


class RowQueues:
    """Waiting jobs, and running jobs by row.

    mpl: number of rows.
    processors: processors of the machine, equal in every row.
    increment_s: expected remaining time of a job that outlives its expected end.
    """

    def __init__(self, *, mpl: int, processors: int, increment_s: float) -> None:
        """Start with empty rows; raise `ConfigError` for less than one row or processor."""
        if mpl < 1:
            raise ConfigError(f"the degree of multiprogramming is {mpl}, legal is a whole number from 1")
        settings = QueueSettings(priority="fcfs", backfill="easy", increment_s=increment_s)
        self._mpl, self._processors = mpl, processors
        self._rows = [JobQueue(settings, processors) for _ in range(mpl)]
        self._free = [processors] * mpl
        self._waiting: dict[int, QueueJob] = {}
        self._running: dict[int, tuple[QueueJob, float]] = {}
        self._row: dict[int, int] = {}

    @property
    def waiting(self) -> tuple[QueueJob, ...]:
        """Return the waiting jobs in order of submission."""
        return tuple(self._waiting.values())

    def submit(self, job: QueueJob) -> None:
        """Add a job to the queue; raise `ConfigError` if it can never run."""
        if not 1 <= job.procs <= self._processors:
            raise ConfigError(
                f"job {job.id} asks for {job.procs} processors; 1 to {self._processors} are legal on this machine"
            )
        self._waiting[job.id] = job

    def end(self, job: int, moved: Mapping[int, int]) -> None:
        """Remove a running job that ended. `moved`: new row of each job that changed its row."""
        self._take_out(job)
        self._running.pop(job)
        for other in moved:
            self._take_out(other)
        for other, row in moved.items():
            what, started_s = self._running[other]
            self._rows[row].resume(what, self._beliefs(what), started_s, None)
            self._put(what, row)

    def start(self, now_s: float) -> tuple[Start, ...]:
        """Return the jobs that start now, in order. From now on they count as running."""
        starts: list[Start] = []
        for job in tuple(self._waiting.values()):
            row = next(self._fitting(job), None)
            if row is None:
                return (*starts, *self._overtake(job, now_s))
            starts.append(self._begin(job, row, now_s))
        return tuple(starts)

    def promise(self, now_s: float) -> tuple[int, float] | None:
        """Return (row, time) reserved for the first waiting job, or None if it fits now or there is none."""
        head = next(iter(self._waiting.values()), None)
        if head is None or next(self._fitting(head), None) is not None:
            return None
        return min(
            ((row, self._shadow_s(head, row, now_s)) for row in range(self._mpl)), key=lambda at: at[1]
        )

    def _overtake(self, head: QueueJob, now_s: float) -> Iterator[Start]:
        promised = self.promise(now_s)
        assert promised is not None
        reserved, queue = promised[0], self._rows[promised[0]]
        queue.submit(head, self._beliefs(head))
        for job in tuple(self._waiting.values())[1:]:
            for row in self._fitting(job):
                if row != reserved:
                    yield self._begin(job, row, now_s)
                    break
                queue.submit(job, self._beliefs(job))
                if queue.start(now_s):
                    self._put(job, row)
                    yield self._note(job, row, now_s)
                    break
                queue.end(job.id)
        queue.end(head.id)

    def _fitting(self, job: QueueJob) -> Iterator[int]:
        """Return the rows with enough free processors, lowest first."""
        return (row for row, free in enumerate(self._free) if free >= job.procs)

    def _shadow_s(self, job: QueueJob, row: int, now_s: float) -> float:
        """Return the expected time at which the row has space for the job."""
        queue = self._rows[row]
        queue.submit(job, self._beliefs(job))
        reservation = queue.reservation(now_s)
        queue.end(job.id)
        assert reservation is not None
        return reservation.at_s

    def _begin(self, job: QueueJob, row: int, now_s: float) -> Start:
        self._rows[row].resume(job, self._beliefs(job), now_s, None)
        self._put(job, row)
        return self._note(job, row, now_s)

    def _note(self, job: QueueJob, row: int, now_s: float) -> Start:
        del self._waiting[job.id]
        self._running[job.id] = (job, now_s)
        return Start(job.id, row)

    def _put(self, job: QueueJob, row: int) -> None:
        self._row[job.id] = row
        self._free[row] -= job.procs

    def _take_out(self, job: int) -> None:
        row = self._row.pop(job)
        self._rows[row].end(job)
        self._free[row] += self._running[job][0].procs

    def _beliefs(self, job: QueueJob) -> Beliefs:
        return Beliefs.requested(job.request_s * self._mpl)
