"""The live queue as one object: submissions, ends and times are arguments, and jobs to start are returned.

It uses the same compiled pass as the replay of traces. At one instant the caller passes all ends, then all submissions,
then calls `start` once: *batch order*. Slots of ended jobs are reused, so memory is proportional to the jobs in the
system.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apples.errors import ConfigError
from apples.queueing import kernel
from apples.queueing.ahead import sample_waits
from apples.queueing.jobs import Beliefs, QueueJob
from apples.queueing.runtimes import PastRuns
from apples.queueing.settings import QueueSettings
from apples.queueing.startranges import SampledWait
from apples.queueing.state import (
    FREE,
    PROCS,
    QUEUE,
    QUEUED,
    RUNNERS,
    RUNNING,
    STARTED,
    STARTS,
    VACANT,
    WAITING,
    Ints,
    empty_state,
)

_FIRST_ROOM = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Reservation of the head.

    at_s: latest start if estimates are upper bounds.
    extra: processors left to other jobs.
    """

    job: QueueJob
    at_s: float
    extra: int


class JobQueue:
    """Waiting and running jobs of one machine."""

    def __init__(self, settings: QueueSettings, processors: int) -> None:
        """Start with an idle machine of equal processors; raise `ConfigError` if there are none."""
        if processors < 1:
            raise ConfigError(f"a machine of {processors} processors; 1 or more are legal")
        self.settings, self.processors = settings, processors
        self._rules = settings.rules()
        self._state = empty_state(_FIRST_ROOM, processors)
        self._vacant = list(range(_FIRST_ROOM - 1, -1, -1))
        self._slots: dict[int, int] = {}
        self._jobs: dict[int, QueueJob] = {}

    @property
    def free(self) -> int:
        """Return the number of idle processors."""
        return int(self._state.counts[FREE])

    @property
    def waiting(self) -> tuple[QueueJob, ...]:
        """Return the waiting jobs in order of submission."""
        return tuple(self._jobs[slot] for slot in self._waiting_slots().tolist())

    @property
    def reserved(self) -> tuple[QueueJob, ...]:
        """Return the waiting jobs with a reservation, under EASY also those that had one as the head."""
        slots = self._waiting_slots()
        return tuple(
            self._jobs[slot] for slot in slots[np.isfinite(self._state.jobs["reservation"][slots])].tolist()
        )

    def _waiting_slots(self) -> Ints:
        """Return the slots of the waiting jobs in order of submission."""
        used = self._state.counts[QUEUED]
        slots: Ints = self._state.lists[QUEUE, :used][self._state.columns[PROCS, :used] != VACANT]
        return slots

    @property
    def running(self) -> tuple[QueueJob, ...]:
        """Return the running jobs in order of expected end."""
        running = self._state.lists[RUNNERS, : self._state.counts[RUNNING]]
        return tuple(self._jobs[int(slot)] for slot in running)

    def submit(self, job: QueueJob, beliefs: Beliefs | None = None) -> None:
        """Add a job to the queue. Without `beliefs` its request is assumed as run time.

        Raises:
            ConfigError: the job can never run here, or its id is in use.
        """
        # The slot first: adding slots replaces the state.
        slot = self._fill_slot(job, beliefs)
        kernel.submitted(self._state, self._rules, slot)

    def resume(
        self, job: QueueJob, beliefs: Beliefs | None, start_s: float, expected_s: float | None
    ) -> None:
        """Add a job that runs already, when a queue is rebuilt.

        Args:
            job: the job. It may need more processors than are free, on a machine that has shrunk.
            beliefs: its assumed run times.
            start_s: its start.
            expected_s: its expected end, or None for the end that `beliefs` imply.

        Raises:
            ConfigError: as `submit`.
        """
        slot = self._fill_slot(job, beliefs)
        if expected_s is None:
            expected_s = start_s + float(self._state.jobs[slot]["running_s"])
        kernel.resumed(self._state, self._rules, slot, float(start_s), float(expected_s))

    def promise(self, job_id: int, planned_s: float) -> None:
        """Set the reservation of a waiting job, made before the queue was rebuilt."""
        self._state.jobs[self._slots[job_id]]["reservation"] = planned_s

    def sample_waits(self, now_s: float, past: PastRuns) -> dict[int, SampledWait]:
        """Return the percentiles of sampled waits of the waiting jobs, by id. `past`: run times of earlier jobs."""
        waiting = self.waiting
        waits = sample_waits(self._state, self._rules, (*waiting, *self.running), now_s, past)
        return {job.id: wait for job, wait in zip(waiting, waits, strict=True)}

    def _fill_slot(self, job: QueueJob, beliefs: Beliefs | None) -> int:
        """Fill a row with the job and return its slot."""
        if job.id in self._slots:
            raise ConfigError(
                f"job {job.id}: there is one of that id already; give every job an id of its own"
            )
        if not 1 <= job.procs <= self.processors:
            raise ConfigError(
                f"job {job.id} asks for {job.procs} processors; 1 to {self.processors} are legal on this machine"
            )
        beliefs = beliefs or Beliefs.requested(job.request_s)
        slot = self._take_slot()
        row = self._state.jobs[slot]
        row["submit"], row["procs"], row["request"] = job.submit_s, job.procs, job.request_s
        row["priority_s"], row["backfill_s"] = beliefs.priority_s, beliefs.backfill_s
        row["running_s"] = beliefs.running_s
        self._slots[job.id], self._jobs[slot] = slot, job
        return slot

    def end(self, job_id: int) -> None:
        """Remove a job that ended or was cancelled; raise `ConfigError` if there is no such job."""
        slot = self._slots.pop(job_id, None)
        if slot is None:
            raise ConfigError(f"job {job_id} neither waits nor runs")
        if self._state.jobs[slot]["waiting"]:
            kernel.withdrawn(self._state, slot)
        else:
            kernel.ended(self._state, slot)
        del self._jobs[slot]
        self._vacant.append(slot)

    def start(self, now_s: float) -> tuple[QueueJob, ...]:
        """Return the jobs to start now, in order. From now on they count as running."""
        kernel.scheduled(self._state, self._rules, float(now_s))
        started = self._state.lists[STARTS, : self._state.counts[STARTED]]
        return tuple(self._jobs[int(slot)] for slot in started)

    def order(self, now_s: float) -> tuple[QueueJob, ...]:
        """Return the waiting jobs in order of priority, equal ones in order of submission."""
        kernel.scored(self._state, self._rules, float(now_s))
        queued = self._state.counts[QUEUED]
        order = np.argsort(-self._state.scores[:queued], kind="stable")
        return tuple(self._jobs[int(slot)] for slot in self._state.lists[QUEUE, :queued][order])

    def reservation(self, now_s: float) -> Reservation | None:
        """Return the reservation of the head under EASY, or None for an empty queue."""
        if self._state.counts[WAITING] == 0:
            return None
        slot, at, extra = kernel.reserved(self._state, self._rules, float(now_s))
        return Reservation(job=self._jobs[int(slot)], at_s=float(at), extra=int(extra))

    def expected_end_s(self, job_id: int) -> float | None:
        """Return the expected end of a running job, or None for other jobs."""
        slot = self._slots.get(job_id)
        return (
            None
            if slot is None or self._state.jobs[slot]["waiting"]
            else float(self._state.jobs[slot]["expected"])
        )

    def overtook(self, job_id: int) -> bool:
        """Return whether a running job was started before a job with a reservation."""
        slot = self._slots.get(job_id)
        return slot is not None and bool(self._state.jobs[slot]["backfilled"])

    def planned_start_s(self, job_id: int) -> float | None:
        """Return a waiting job's reservation, under EASY the first one that it had as the head, or None."""
        slot = self._slots.get(job_id)
        if slot is None or not self._state.jobs[slot]["waiting"]:
            return None
        at = float(self._state.jobs[slot]["reservation"])
        return None if at == float("inf") else at

    def _take_slot(self) -> int:
        if not self._vacant:
            self._grow()
        return self._vacant.pop()

    def _grow(self) -> None:
        """Double the number of slots. Columns and lists are copied."""
        old = self._state
        room = len(old.jobs)
        larger = empty_state(2 * room, self.processors)
        larger.jobs[:room], larger.lists[:, :room], larger.columns[:, :room] = (
            old.jobs,
            old.lists,
            old.columns,
        )
        larger.counts[:], larger.times[:] = old.counts, old.times
        self._state = larger
        self._vacant = list(range(2 * room - 1, room - 1, -1))


def warm() -> None:
    """Compile, or load, all functions that a queue calls, so that later calls do not wait."""
    queue = JobQueue(QueueSettings(), 1)
    jobs = [QueueJob(id=number, procs=1, request_s=1.0, submit_s=0.0) for number in (1, 2, 3)]
    queue.resume(jobs[0], None, 0.0, None)
    queue.submit(jobs[1])
    queue.submit(jobs[2])
    queue.start(0.0)
    queue.reservation(0.0)
    queue.order(0.0)
    queue.sample_waits(0.0, PastRuns())
    for job in jobs:
        queue.end(job.id)
