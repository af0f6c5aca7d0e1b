"""Queue, estimates and store together: one instant has all ends, cancellations and submissions, then one pass.

An instant is one transaction. The disk always has the state after a whole instant, so a new manager continues where the
last one ended. A replay of the log (`livequeue.log`) makes the same decisions at the same instants. If a transaction
fails, memory is built again from the disk before the next one. This module has no processes and no sockets.
"""

import math
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from apples.errors import ConfigError
from apples.livequeue.blocked import BlockedJobs
from apples.livequeue.clock import Clock, boot_number
from apples.livequeue.occupancy import Occupancy, job_of
from apples.livequeue.queuehosts import Machine
from apples.livequeue.records import (
    CANCELLED,
    CODE_CANCELLED,
    LOST,
    STARTING,
    TURN,
    WAITING,
    JobEnd,
    JobRecord,
    Submission,
)
from apples.livequeue.startpredictions import StartPredictions
from apples.livequeue.store import Store
from apples.queueing.configuration import QueueFile
from apples.queueing.easyqueue import JobQueue
from apples.queueing.estimates import ModelFirst
from apples.queueing.jobs import QueueJob
from apples.queueing.runtimes import PastRuns
from apples.queueing.scoring import EstimateScore, Scoreboard


def scores(path: Path) -> dict[str, EstimateScore]:
    """Return the score of each source, best first: estimates at submission against the time processors were held.

    Raises:
        HistoryError: there is no queue at this path.
    """
    store = Store(path)
    board = Scoreboard("history", {})
    _restore(board, PastRuns(), store.past())
    store.close()
    return board.scores()


def _restore(board: Scoreboard, runs: PastRuns, past: Iterable[JobRecord]) -> None:
    """Add the run times of jobs that have left the queue, in this order; lost ones have none."""
    for record in past:
        if record.held_s is not None and record.freed_s is not None and record.outcome != LOST:
            board.restore(record.id, record.estimates)
            board.ended(job_of(record), record.held_s, record.freed_s)
            runs.ended(job_of(record), record.held_s)


class StoredPredictions:
    """Instants by job as the store has them, in s. `ends`: of running jobs. `plans`: starts of waiting jobs."""

    def __init__(self) -> None:
        self.ends: dict[int, float] = {}
        self.plans: dict[int, float] = {}

    def write(self, store: Store, queue: JobQueue) -> None:
        """Write the predictions that have changed, within a transaction."""
        for job_id, at_s in _changed(self.ends, queue.running, queue.expected_end_s):
            store.change(job_id, expected_s=at_s)
        for job_id, at_s in _changed(self.plans, queue.reserved, queue.planned_start_s):
            store.change(job_id, planned_s=at_s)


def _changed(
    stored: dict[int, float], jobs: Iterable[QueueJob], predict: Callable[[int], float | None]
) -> Iterator[tuple[int, float]]:
    """Return (job, instant) of each prediction that differs from the stored one, and remember them."""
    for job in jobs:
        at = predict(job.id)
        if at is not None and stored.get(job.id) != at:
            stored[job.id] = at
            yield job.id, at


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """Result of one instant.

    submitted: ids, in order of the submissions.
    started: jobs to be launched.
    left: jobs that left the queue.
    """

    at_s: float
    submitted: tuple[int, ...]
    started: tuple[JobRecord, ...]
    left: tuple[JobRecord, ...]


class LiveQueue:
    """The queue of one store."""

    def __init__(
        self,
        store: Store,
        chosen: QueueFile,
        machine: Machine,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Build the queue in memory from the store.

        Args:
            store: the jobs on disk.
            chosen: the policy.
            machine: hosts and their processors.
            steady: returns seconds that never jump.

        Raises:
            ConfigError: estimates use the actual run times, which a live queue does not have.
            HistoryError: the store cannot be written.
        """
        if chosen.estimates.source == "actual":
            raise ConfigError(
                "estimates.source: actual run times are known in a replay only; legal for a live queue are "
                "request, history, recent"
            )
        self.store, self.chosen, self.machine = store, chosen, machine
        numbers = store.numbers()
        if "origin" not in numbers:
            numbers = {"origin": math.floor(time.time()), "last": -1.0}
            with store.transaction():
                store.set_numbers(**numbers)
        # Since the same boot, the time of day has no say: it may have been changed while jobs ran.
        zero_s = numbers.get("zero") if numbers.get("boot") == boot_number() else None
        self.clock = Clock(numbers["origin"], numbers["last"], steady, zero_s)
        self.policy_changed = numbers.get("policy") != self._policy()
        self._build()

    def instant(
        self,
        *,
        ended: Sequence[int] = (),
        cancelled: Sequence[int] = (),
        submitted: Sequence[Submission] = (),
        held: Mapping[int, bool] | None = None,
    ) -> Instant:
        """Apply all events since the last instant, and return the jobs to launch.

        Args:
            ended: ids of jobs whose end is in the store, also of jobs that ended before they were launched.
            cancelled: ids of waiting jobs.
            submitted: new jobs.
            held: waiting jobs to hold (true) or to release.

        Raises:
            HistoryError: the store cannot be written. Then no event of this instant was applied.
        """
        self.refresh()
        try:
            with self.store.transaction():
                return self._instant(ended, cancelled, submitted, held or {})
        except Exception:
            self._stale = True
            raise

    def refresh(self) -> None:
        """Build memory again from the disk if an instant failed; raise `HistoryError` if that is not possible."""
        if self._stale:
            self._build()

    def _instant(
        self,
        ended: Sequence[int],
        cancelled: Sequence[int],
        submitted: Sequence[Submission],
        held: Mapping[int, bool],
    ) -> Instant:
        now = self.clock.instant()
        self.starts.changed()
        left = [self._end(job_id, now) for job_id in sorted(ended)]
        left += [record for job_id in cancelled for record in self.cancel(job_id, now)]
        for job_id, hold in held.items():
            self.blocked.hold(job_id, hold)
        ids = tuple(job_id for submission in submitted for job_id in self._submit(submission, now))
        eligible = self.blocked.settle(now, left)
        started = tuple(self._starts(now))
        self.starts.learn(sorted(started, key=lambda record: record.id))
        for job_id in self.starts.keep([*ids, *eligible], now, self.store):
            self.jobs[job_id] = self.record(job_id)
        self._predictions.write(self.store, self.queue)
        self.store.set_numbers(last=now, zero=self.clock.zero_s, boot=boot_number(), policy=self._policy())
        return Instant(at_s=now, submitted=ids, started=started, left=tuple(left))

    def cancel(self, job_id: int, now: float, detail: str = "") -> list[JobRecord]:
        """Cancel a waiting job and return it; none if it does not wait any more."""
        end = JobEnd(outcome=CANCELLED, exit_code=CODE_CANCELLED, detail=detail)
        return [self._end(job_id, now)] if self.store.end(job_id, end, only_from=(WAITING,)) else []

    def _end(self, job_id: int, now: float) -> JobRecord:
        record = self.jobs.pop(job_id)
        self.store.change(job_id, freed_s=now, environment=None)
        self.blocked.take_out(record)
        ended = self.record(job_id)
        if record.start_s is None or ended.outcome == LOST:
            self.board.forget(job_id)
        else:
            self.board.ended(job_of(record), now - record.start_s, now)
            self.starts.runs.ended(job_of(record), now - record.start_s)
        return ended

    def _submit(self, submission: Submission, now: float) -> list[int]:
        """Add a job, or those of an array, and return the ids. The first job of an array has its token."""
        ids: list[int] = []
        after = (*submission.after, *([f"{TURN}:{submission.at_once}"] if submission.at_once else ()))
        for task in submission.tasks or (None,):
            # Tokens of clients are printable, so no client's equals one with a tab.
            token = f"{submission.token}\t{task}" if ids else submission.token
            job_id = self.store.add(replace(submission, token=token, after=after), now)
            ids.append(job_id)
            estimate = ModelFirst(self.board).estimate(job_of(self.record(job_id)), now)
            estimates = dict(self.board.estimates(job_id))
            array = None if task is None else ids[0]
            self.store.change(
                job_id, estimate_s=estimate.seconds, estimates=estimates, array=array, task=task
            )
            self.enqueue(self.record(job_id))
        return ids

    def _starts(self, now: float) -> Iterator[JobRecord]:
        """Start jobs by the pass, then guests. Once these have left the queue, the pass may start more jobs."""
        for job in self.queue.start(now):
            yield self._start(job.id, now)
        while admitted := self.occupancy.admitted(now):
            for guest, holder in admitted:
                yield self._start(guest, now, holder)
            for job in self.queue.start(now):
                yield self._start(job.id, now)

    def _start(self, job_id: int, now: float, beside: int | None = None) -> JobRecord:
        hosts, cpus = self.occupancy.place(self.jobs[job_id], beside)
        place = {"hosts": hosts, "cpus": cpus, "beside": beside, "backfilled": self.queue.overtook(job_id)}
        self.store.change(job_id, only_from=(WAITING,), state=STARTING, start_s=now, attempts=1, **place)
        record = self.jobs[job_id] = self.record(job_id)
        if beside is not None:
            self.occupancy.admit(record)
        return record

    def positions(self) -> dict[int, int]:
        """Return the positions of waiting jobs in the order of their predicted starts, from 1, by id."""
        order = (*self.starts.order(), *self.blocked.order())
        return {job_id: position for position, job_id in enumerate(order, 1)}

    def record(self, job_id: int) -> JobRecord:
        """Return a job of the store that is known to exist."""
        record = self.store.job(job_id)
        assert record is not None
        return record

    @property
    def processors(self) -> int:
        """Return the processors of the machine."""
        return self.machine.processors

    def set_machine(self, machine: Machine) -> None:
        """Set the machine after it has grown or shrunk. Jobs that are wider than it wait until it grows."""
        if machine != self.machine:
            self.machine = machine
            self._build()

    def _policy(self) -> float:
        """Return a checksum of the policy. If it changed, waiting jobs may start without another event."""
        chosen = f"{self.chosen.queue} {self.chosen.estimates} {self.processors}"
        return float(zlib.crc32(chosen.encode()))

    def _build(self) -> None:
        # True until memory is complete: reading may fail, too.
        self._stale = True
        self.clock.last_s = max(self.clock.last_s, self.store.numbers()["last"])
        self.queue = JobQueue(self.chosen.settings(), self.processors)
        self.board = self.chosen.estimates.scoreboard()
        self.jobs: dict[int, JobRecord] = {}
        self.blocked = BlockedJobs(self)
        self._predictions = StoredPredictions()
        window_s = self.chosen.estimates.scheme.window_s
        past, present = self.store.past(self.clock.last_s - window_s), self.store.present()
        by_id = sorted((*past, *present), key=lambda record: record.id)
        self.starts = StartPredictions(self.queue, self.clock, by_id)
        _restore(self.board, self.starts.runs, past)
        self.jobs |= {record.id: record for record in present}
        self.occupancy = Occupancy(self.jobs, self.queue, self.chosen, self.machine)
        for record in self.jobs.values():
            self.board.restore(record.id, record.estimates)
            self.enqueue(record)
        self._stale = False

    def enqueue(self, record: JobRecord) -> None:
        """Add a job to the queue in memory, in its state on disk."""
        self.jobs[record.id] = record
        if record.start_s is None and (record.held or record.after):
            self.blocked.jobs.add(record.id)
            return
        if record.procs > self.processors and record.start_s is None:
            self.blocked.too_wide.add(record.id)
            return
        if record.start_s is None:
            self.queue.submit(job_of(record), self.occupancy.beliefs(record))
            if record.planned_s is not None:
                self.queue.promise(record.id, record.planned_s)
                self._predictions.plans[record.id] = record.planned_s
        elif not self.occupancy.is_guest(record):
            self.occupancy.resume(record, record.expected_s)
            if record.expected_s is not None:
                self._predictions.ends[record.id] = record.expected_s
