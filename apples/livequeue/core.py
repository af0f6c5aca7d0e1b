"""Joins queue, estimates and store: at one instant all ends, all cancellations, all submissions, then one pass.

An instant is one transaction. What is on disk is always the state after a whole instant, so a manager that comes back
goes on as if nothing had been, and a replay of the log (`livequeue.log`) makes the same decisions at the same instants.
If a transaction fails, memory is built again from the disk. No processes and no sockets here.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apples.errors import ConfigError
from apples.livequeue.clock import Clock
from apples.livequeue.hosts import Machine
from apples.livequeue.records import (
    CANCELLED,
    CODE_CANCELLED,
    LOST,
    WAITING,
    JobEnd,
    JobRecord,
    Submission,
)
from apples.livequeue.store import Store
from apples.queueing.ahead import PredictedStart, predict_starts
from apples.queueing.configuration import QueueFile
from apples.queueing.estimates import ModelFirst
from apples.queueing.jobs import Beliefs, QueueJob
from apples.queueing.queue import JobQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """What an instant brought. submitted : ids, in order of the submissions.  started : jobs to be launched"""

    at_s: float
    submitted: tuple[int, ...]
    started: tuple[JobRecord, ...]
    left: tuple[JobRecord, ...]


class LiveQueue:
    """The queue of one store. Raises `ConfigError`, `HistoryError`."""

    def __init__(
        self,
        store: Store,
        chosen: QueueFile,
        machine: Machine,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """steady : seconds that never jump"""
        if chosen.estimates.source == "actual":
            raise ConfigError(
                "estimates.source: actual is the truth, which only a replay knows; legal for a live queue are "
                "request, history, recent"
            )
        self.store, self.chosen, self.machine = store, chosen, machine
        numbers = store.numbers()
        if "origin" not in numbers:
            numbers = {"origin": math.floor(time.time()), "last": -1.0}
            with store.transaction():
                store.remember(**numbers)
        self.clock = Clock(numbers["origin"], numbers["last"], steady)
        self.policy_changed = numbers.get("policy") != self._policy()
        self._foreseen: dict[int, PredictedStart] | None = None
        self._positions: dict[int, int] | None = None
        self._build()

    # one instant

    def instant(
        self,
        *,
        ended: Sequence[int] = (),
        cancelled: Sequence[int] = (),
        submitted: Sequence[Submission] = (),
    ) -> Instant:
        """Everything that happened since the last one.

        ended : jobs whose end is in the store already, or that ended while they were to be started.  cancelled : jobs
        that wait. Raises `HistoryError` when it cannot be written; then none of it has happened.
        """
        try:
            with self.store.transaction():
                return self._instant(ended, cancelled, submitted)
        except Exception:
            self._build()
            raise

    def _instant(
        self, ended: Sequence[int], cancelled: Sequence[int], submitted: Sequence[Submission]
    ) -> Instant:
        now = self.clock.instant()
        self._foreseen = self._positions = None
        left = [self._end(job_id, now) for job_id in ended]
        for job_id in cancelled:
            how = JobEnd(outcome=CANCELLED, exit_code=CODE_CANCELLED, ended_at=time.time())
            if self.store.end(job_id, how, only_from=(WAITING,)):
                left.append(self._end(job_id, now))
        came = tuple(self._submit(what, now) for what in submitted)
        started = tuple(self._start(job, now) for job in self.queue.start(now))
        self._note_changes()
        self.store.remember(last=now, policy=self._policy())
        return Instant(at_s=now, submitted=came, started=started, left=tuple(left))

    def _end(self, job_id: int, now: float) -> JobRecord:
        record = self.jobs.pop(job_id)
        self.store.free(job_id, now)
        if job_id in self.too_wide:
            self.too_wide.discard(job_id)
        else:
            self.queue.end(job_id)
        known = self.store.job(job_id)
        assert known is not None
        if record.start_s is None or known.outcome == LOST:
            self.board.forget(job_id)
        else:
            self.board.ended(job_of(record), now - record.start_s, now)
        return known

    def _submit(self, what: Submission, now: float) -> int:
        job_id = self.store.add(what, now)
        record = self.store.job(job_id)
        assert record is not None
        estimate = ModelFirst(self.board).estimate(job_of(record), now)
        self.store.believe(job_id, estimate.seconds, self.board.said(job_id))
        record = self.store.job(job_id)
        assert record is not None
        self._enqueue(record)
        return job_id

    def _start(self, job: QueueJob, now: float) -> JobRecord:
        taken = (record.hosts for record in self.jobs.values() if record.start_s is not None)
        hosts = self.machine.share(taken, job.procs)
        self.store.start(job.id, now, hosts, backfilled=self.queue.overtook(job.id))
        record = self.store.job(job.id)
        assert record is not None
        self.jobs[job.id] = record
        return record

    def _note_changes(self) -> None:
        """Expected ends, and under conservative backfilling promises, must be the same after a restart."""
        expected: list[tuple[float, int]] = []
        planned: list[tuple[float, int]] = []
        for job in self.queue.running:
            end = self.queue.expected_end_s(job.id)
            if end is not None and self._known_ends.get(job.id) != end:
                expected.append((end, job.id))
                self._known_ends[job.id] = end
        if self.chosen.queue.backfill == "conservative":
            for job in self.queue.waiting:
                at = self.queue.planned_start_s(job.id)
                if at is not None and self._known_plans.get(job.id) != at:
                    planned.append((at, job.id))
                    self._known_plans[job.id] = at
        self.store.foresee(expected=expected, planned=planned)

    # what is known

    def foreseen(self) -> dict[int, PredictedStart]:
        """Predicted starts of waiting jobs, by id, as of the last instant."""
        if self._foreseen is None:
            started = {i: r.start_s for i, r in self.jobs.items() if r.start_s is not None}
            estimates = {i: min(r.estimate_s, r.request_s) for i, r in self.jobs.items()}
            self._foreseen = predict_starts(self.queue, self.clock.now(), started, estimates)
        return self._foreseen

    def positions(self) -> dict[int, int]:
        """Places of waiting jobs in the order in which they should start, from 1."""
        if self._positions is None:
            seen = self.foreseen()
            order = sorted(seen, key=lambda i: (math.isnan(seen[i].early_s), seen[i].early_s, i))
            order += sorted(self.too_wide)
            self._positions = {job_id: place for place, job_id in enumerate(order, 1)}
        return self._positions

    @property
    def processors(self) -> int:
        """Of the machine."""
        return self.machine.processors

    def set_machine(self, machine: Machine) -> None:
        """It has grown or shrunk; the next instant knows. Jobs wider than it wait until it grows."""
        if machine != self.machine:
            self.machine = machine
            self._build()

    def _policy(self) -> float:
        """A number for what decides; another one means that waiting jobs may start although nothing happened."""
        return float(zlib.crc32(f"{self.chosen} {self.processors}".encode()))

    # building memory from the disk

    def _build(self) -> None:
        self.clock.last_s = max(self.clock.last_s, self.store.numbers()["last"])
        self.queue = JobQueue(self.chosen.queue.settings(), self.processors)
        self.board = self.chosen.estimates.scoreboard()
        self.jobs: dict[int, JobRecord] = {}
        self.too_wide: set[int] = set()
        self._known_ends: dict[int, float] = {}
        self._known_plans: dict[int, float] = {}
        self._foreseen = self._positions = None
        window_s = self.chosen.estimates.scheme.window_s
        for record in self.store.past(self.clock.last_s - window_s):
            if record.held_s is not None and record.freed_s is not None and record.outcome != LOST:
                self.board.recall(record.id, record.said)
                self.board.ended(job_of(record), record.held_s, record.freed_s)
        for record in self.store.present():
            self.board.recall(record.id, record.said)
            self._enqueue(record)

    def _enqueue(self, record: JobRecord) -> None:
        """A job joins the queue in memory, in the state it is in."""
        self.jobs[record.id] = record
        if record.procs > self.processors and record.start_s is None:
            self.too_wide.add(record.id)
            return
        job, beliefs = job_of(record), self._beliefs(record)
        if record.start_s is None:
            self.queue.submit(job, beliefs)
            if record.planned_s is not None:
                self.queue.promise(record.id, record.planned_s)
                self._known_plans[record.id] = record.planned_s
            return
        if record.procs > self.processors:
            # The machine has shrunk under it: for the queue it takes all there is, until it ends.
            job = job_of(record, procs=self.processors)
        self.queue.resume(job, beliefs, record.start_s, record.expected_s)
        if record.expected_s is not None:
            self._known_ends[record.id] = record.expected_s

    def _beliefs(self, record: JobRecord) -> Beliefs:
        return self.chosen.estimates.switches().beliefs(record.request_s, record.estimate_s)


def job_of(record: JobRecord, *, procs: int | None = None) -> QueueJob:
    """As the queue and the estimators see it."""
    return QueueJob(
        id=record.id,
        procs=procs or record.procs,
        request_s=record.request_s,
        submit_s=record.submitted_s,
        user=record.user,
        project=record.project,
        model_s=record.model_s,
    )
