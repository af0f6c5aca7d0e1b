"""EASY backfilling in front of a matrix with several rows (FCS paper, section 5.1).

Every row is a machine of its own with its own `JobQueue`. A job starts in the lowest row with enough free processors,
first come first served. The first that fits nowhere has one reservation: in the row that is expected to have room
for it soonest, the lowest of equals. A job behind it may start in any other row at once, and in that one by EASY's
rule: if it is expected to end in time, or fits beside the reserved job. A job is expected to take its request times the
degree of multiprogramming ("multiplying the requested runtime by the MPL to estimate run and reservation times"). With
one row this is EASY as the batch queue has it. When a job ends others may move to lower rows; reservations are made
anew at every pass, so a promise holds only as long as nobody moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from apples.errors import ConfigError
from apples.queueing.jobs import Beliefs, QueueJob
from apples.queueing.queue import JobQueue
from apples.queueing.settings import QueueSettings


class Start(NamedTuple):
    """A job starts in a row."""

    job: int
    row: int


class RowQueues:
    """Waiting jobs, and who runs in which row.

    mpl : rows.  processors : of the machine, in every row.  increment_s : a job that takes longer than expected is
    expected to go on for so long
    """

    def __init__(self, *, mpl: int, processors: int, increment_s: float) -> None:
        """Raises `apples.errors.ConfigError` for less than one row or processor."""
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
        """In order of submission."""
        return tuple(self._waiting.values())

    def submit(self, job: QueueJob) -> None:
        """A job joins the end of the queue; raises `ConfigError` for one that can never run."""
        if not 1 <= job.procs <= self._processors:
            raise ConfigError(
                f"job {job.id} asks for {job.procs} processors; 1 to {self._processors} are legal on this machine"
            )
        self._waiting[job.id] = job

    def end(self, job: int, moved: Mapping[int, int]) -> None:
        """A running job has ended. moved : row by job, of those that are in another one because of it."""
        self._take_out(job)
        self._running.pop(job)
        for other in moved:
            self._take_out(other)
        for other, row in moved.items():
            what, started_s = self._running[other]
            self._rows[row].resume(what, self._beliefs(what), started_s, None)
            self._put(what, row)

    def start(self, now_s: float) -> tuple[Start, ...]:
        """Who starts now, in this order; they count as running from here on."""
        starts: list[Start] = []
        for job in tuple(self._waiting.values()):
            row = next(self._fitting(job), None)
            if row is None:
                return (*starts, *self._overtake(job, now_s))
            starts.append(self._begin(job, row, now_s))
        return tuple(starts)

    def promise(self, now_s: float) -> tuple[int, float] | None:
        """(row, time) reserved for the first waiting job, if that fits nowhere; None else."""
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
        """Rows with enough free processors, the lowest first."""
        return (row for row, free in enumerate(self._free) if free >= job.procs)

    def _shadow_s(self, job: QueueJob, row: int, now_s: float) -> float:
        """When the row is expected to have room for it."""
        queue = self._rows[row]
        queue.submit(job, self._beliefs(job))
        found = queue.reservation(now_s)
        queue.end(job.id)
        assert found is not None
        return found.at_s

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
