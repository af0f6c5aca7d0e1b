"""Predicted starts of jobs on a Slurm cluster: the queue's own pass, run forward with sampled run times.

One partition is taken for a machine of its usable CPUs under EASY backfilling, in the order of Slurm's priorities. Jobs
of other partitions count for their share of nodes here. Limits of accounts, memory, shapes of nodes, later submissions
and preemption are left out, which makes sampled ranges wrong. So they are widened until they hold: by starts of the
history, each predicted as of its submission, and by kept predictions of waiting jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from apples.errors import ConfigError
from apples.platforms.clusterqueue import ClusterJob, ClusterQueue, NodeReservation, Section, SeenJob
from apples.queueing.easyqueue import JobQueue
from apples.queueing.jobs import QueueJob
from apples.queueing.runtimes import PastRuns
from apples.queueing.settings import RANGE_PERCENTILE, QueueSettings
from apples.queueing.startranges import ForeseenWait, SampledWait, StartRange, StartRanges
from apples.simulation.batch.batchmachine import Jobs
from apples.simulation.batch.trace import Trace, TraceNames

#: Starts of the history that are predicted, the last ones; fewer where queues are long: all of them with so many
#: waiting and running jobs together, about 2 s of CPU.
_LAST, _PRESENT_JOBS = 200, 30_000

#: A start teaches something if the job waited so long, or was predicted to, s: all others are right anyway.
_WAITED_S = 60.0

#: Share of a partition's nodes in another one from which its waiting jobs compete for that one.
_COMPETES = 0.5


class JudgedStart(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted start and the true one. job : number.  at_s : instant of the prediction.  start_s : None at first"""

    job: str
    at_s: float
    foreseen: ForeseenWait
    start_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedStart:
    """The start and end of a job. ahead : waiting jobs that go first"""

    start: StartRange
    end: StartRange
    ahead: int


class PartitionStarts:
    """Predicted starts in one partition.

    outcomes : kept predictions and those of the history, with the starts that are known
    unplaced : waiting jobs that are left out: they wait for other things than CPUs, or for more than are usable
    """

    def __init__(
        self,
        queue: ClusterQueue,
        section: Section,
        history: Trace | None,
        now_s: float,
        earlier: Sequence[JudgedStart] = (),
    ) -> None:
        """Learn from the history and the kept predictions; raise `ConfigError` if no CPU is usable."""
        self.section, self._now_s = section, now_s
        self.processors = sum(section.cpus.values())
        if not self.processors:
            raise ConfigError(f"partition {section.name}: no node is usable; sinfo -R lists the reasons")
        self._names = TraceNames() if history is None else history.names
        self._reservations = [one for one in queue.reservations if self._cpus_of(one.nodes)]
        jobs = [self._here(job) for job in queue.jobs]
        self._running = [job for job in jobs if job.running and job.seen.job.procs]
        competing = [job for job in jobs if not job.running and self._competes(job, queue)]
        placed = [job for job in competing if not job.apart and job.seen.job.procs <= self.processors]
        self._waiting = sorted(
            ((_tier(job, queue), job.priority, job) for job in placed),
            key=lambda one: (-one[0], -one[1], one[2].seen.job.submit_s),
        )
        self.unplaced = len(competing) - len(placed)
        self._ranges = StartRanges()
        present = [job.seen for job in (*self._running, *placed)]
        numbers = {job.number for job in present}
        past = [] if history is None else [job for job in _ended_jobs(history) if job.number not in numbers]
        replay = _Replay(sorted((*past, *present), key=lambda job: job.job.submit_s), self.processors)
        self.outcomes = self._learn(replay, earlier)
        self._past = replay.learned(math.inf)

    @property
    def held(self) -> float | None:
        """Return the share of the last starts inside the ranges that were predicted for them, None for too few."""
        return self._ranges.held

    @property
    def free(self) -> int:
        """Return the number of idle CPUs, reserved ones among them."""
        return max(0, self.processors - sum(job.seen.job.procs for job in self._running))

    @property
    def waiting(self) -> int:
        """Return the number of jobs that wait for CPUs here."""
        return len(self._waiting)

    def predict(
        self, job: QueueJob, priority: float | None = None, percentile: float = RANGE_PERCENTILE
    ) -> PredictedStart:
        """Return the start and end of a job that is submitted now; raise `ConfigError` if it can never run here.

        Args:
            job: its id and its time of submission are not used
            priority: Slurm's; None for that of the user's last job here, else the lowest
            percentile: share of starts inside the range, in %
        """
        _check(job, self.section)
        ahead = self._ahead(job.user, priority)
        job = self._named(replace(job, id=-1))
        sampled = self._sampled(job, ahead)[-1]
        reserved = [(one.start_s, one.end_s, self._cpus_of(one.nodes)) for one in self._reservations]
        crossing = sorted(
            one for one in reserved if job.procs > self.processors - one[2] and one[0] > self._now_s
        )
        waits = (sampled.low_s, sampled.median_s, sampled.high_s)
        at_s = [_before_or_after(crossing, self._now_s + wait_s, job.request_s) for wait_s in waits]
        sampled = SampledWait(*(instant - self._now_s for instant in at_s))
        start = self._ranges.widened(sampled, self._now_s, percentile)
        tail = (100.0 - percentile) / 2.0
        runs = np.minimum(self._past.longer_than(job, 0.0), job.request_s)
        low_s, median_s, high_s = np.percentile(runs, (tail, 50, 100.0 - tail)).tolist()
        end = StartRange(
            low_s=start.low_s + low_s, median_s=start.median_s + median_s, high_s=start.high_s + high_s
        )
        return PredictedStart(start=start, end=end, ahead=ahead)

    def predict_waiting(self) -> list[JudgedStart]:
        """Return predictions of the waiting jobs that have none yet, but for tasks of arrays."""
        known = {outcome.job for outcome in self.outcomes}
        waits = self._sampled()
        numbers = [job.seen.number for _, _, job in self._waiting]
        return [
            JudgedStart(job=number, at_s=self._now_s, foreseen=self._ranges.foresee(waits[position]))
            for position, number in enumerate(numbers)
            if number.isdecimal() and number not in known
        ]

    def _sampled(self, job: QueueJob | None = None, ahead: int = 0) -> dict[int, SampledWait]:
        """Return the sampled waits of the waiting jobs by position, and that of the job by its id."""
        running = [other.seen for other in self._running]
        running += [
            _reserving(one, self._cpus_of(one.nodes))
            for one in self._reservations
            if one.start_s <= self._now_s < one.end_s
        ]
        # A queue in order of submission, which the order of priorities is turned into.
        waiting = [
            replace(other.seen.job, id=number, submit_s=self._now_s)
            for number, (_, _, other) in enumerate(self._waiting)
        ]
        if job is not None:
            waiting.insert(ahead, replace(job, submit_s=self._now_s))
        return _sample(self.processors, running, waiting, self._now_s, self._past)

    def _learn(self, replay: _Replay, earlier: Sequence[JudgedStart]) -> list[JudgedStart]:
        """Predict the last starts of the history, and learn from these and the kept predictions, in order of start.

        Return all, with the starts that are known.
        """
        starts = {job.number: job.start_s for job in replay.jobs}
        outcomes = []
        for outcome in earlier:
            start_s = starts.get(outcome.job, math.inf)
            started = outcome.start_s is None and outcome.at_s <= start_s < math.inf
            outcomes.append(msgspec.structs.replace(outcome, start_s=start_s) if started else outcome)
        ahead = [outcome for outcome in outcomes if outcome.start_s is not None]
        for index in replay.last_waits({outcome.job for outcome in outcomes}):
            seen = replay.jobs[index]
            at_s = seen.job.submit_s
            self._learn_from(one for one in ahead if (one.start_s or 0.0) <= at_s)
            ahead = [one for one in ahead if (one.start_s or 0.0) > at_s]
            foreseen = self._ranges.foresee(replay.sampled(index))
            ahead.append(JudgedStart(job=seen.number, at_s=at_s, foreseen=foreseen, start_s=seen.start_s))
            outcomes.append(ahead[-1])
        self._learn_from(ahead)
        return outcomes

    def _learn_from(self, outcomes: Iterable[JudgedStart]) -> None:
        for outcome in sorted(outcomes, key=lambda outcome: outcome.start_s or 0.0):
            wait_s = (outcome.start_s or 0.0) - outcome.at_s
            if max(wait_s, outcome.foreseen.predicted_high_s) >= _WAITED_S:
                self._ranges.learn(outcome.foreseen, wait_s)

    def _here(self, job: ClusterJob) -> ClusterJob:
        """Return the job with the CPUs that it has or takes in this partition."""
        procs, section = job.seen.job.procs, self.section
        if job.running:
            procs = self._cpus_of(job.hosts) if section.exclusive else round(procs * section.share(job.hosts))
        elif section.exclusive:
            procs = max(procs, job.nodes * section.node_cpus)
        seen = replace(job.seen, job=self._named(replace(job.seen.job, procs=procs)))
        return replace(job, seen=seen)

    def _named(self, job: QueueJob) -> QueueJob:
        """Return the job with user and project as the history numbers them."""
        user = self._names.users.get(job.user, job.user)
        return replace(job, user=str(user), project=str(self._names.projects.get(job.project, job.project)))

    def _cpus_of(self, nodes: Sequence[str]) -> int:
        return sum(self.section.cpus.get(node, 0) for node in nodes)

    def _competes(self, job: ClusterJob, queue: ClusterQueue) -> bool:
        others = [queue.sections[name] for name in job.partitions if name in queue.sections]
        return any(
            one.name == self.section.name or self.section.share(tuple(one.cpus)) >= _COMPETES
            for one in others
        )

    def _ahead(self, user: str, priority: float | None) -> int:
        """Return the number of waiting jobs that go first: of a higher tier, or of no lower priority in its own."""
        if priority is None:
            name = str(self._names.users.get(user, user))
            jobs = [*self._running, *(job for _, _, job in self._waiting)]
            mine = [job for job in jobs if job.seen.job.user == name and self.section.name in job.partitions]
            mine.sort(key=lambda job: job.seen.job.submit_s)
            priority = mine[-1].priority if mine else -math.inf
        return sum((tier, one) >= (self.section.tier, priority) for tier, one, _ in self._waiting)


class _Replay:
    """The queue as it was at submissions of the past. `jobs`: in order of submission; calls are in that order too."""

    def __init__(self, jobs: Sequence[SeenJob], processors: int) -> None:
        self.jobs, self._processors, self._past = jobs, processors, PastRuns()
        self._submit = np.array([job.job.submit_s for job in jobs], float)
        self._start, self._end = (
            np.array([getattr(job, name) for job in jobs], float) for name in ("start_s", "end_s")
        )
        self._ends = [index for index in np.argsort(self._end, kind="stable") if self._end[index] < np.inf]
        self._learned = 0

    def learned(self, until_s: float) -> PastRuns:
        """Return the run times of the jobs that have ended until then."""
        while self._learned < len(self._ends) and self._end[self._ends[self._learned]] <= until_s:
            job = self.jobs[self._ends[self._learned]]
            self._past.ended(job.job, max(job.end_s - job.start_s, 1.0))
            self._learned += 1
        return self._past

    def last_waits(self, known: set[str]) -> list[int]:
        """Return the last jobs that waited and have started, in order; `known` ones are left out."""
        chosen: list[int] = []
        present = 0
        for index in np.flatnonzero((self._start < np.inf) & (self._start > self._submit))[::-1].tolist():
            if len(chosen) == _LAST or present > _PRESENT_JOBS:
                break
            if self.jobs[index].number not in known:
                at_s = self._submit[index]
                present += int(np.count_nonzero((self._submit <= at_s) & (self._end > at_s)))
                chosen.append(index)
        return chosen[::-1]

    def sampled(self, index: int) -> SampledWait:
        """Return the sampled wait of a job at its submission."""
        at_s = float(self._submit[index])
        submitted = self._submit <= at_s
        waiting = np.flatnonzero(submitted & (self._start >= at_s)).tolist()
        running = np.flatnonzero(submitted & (self._start < at_s) & (self._end > at_s)).tolist()
        jobs = [replace(self.jobs[slot].job, id=slot) for slot in waiting]
        seen = [self.jobs[slot] for slot in running]
        return _sample(self._processors, seen, jobs, at_s, self.learned(at_s))[index]


def _sample(
    processors: int, running: Sequence[SeenJob], waiting: Sequence[QueueJob], now_s: float, past: PastRuns
) -> dict[int, SampledWait]:
    """Return the sampled waits of waiting jobs in order of priority, by their ids."""
    queue = JobQueue(QueueSettings(), processors)
    highest = max((job.id for job in waiting), default=0)
    for number, seen in enumerate(running, highest + 1):
        # A machine may have been larger, or jobs may have shared CPUs.
        job = replace(seen.job, id=number, procs=max(1, min(seen.job.procs, processors)))
        queue.resume(job, None, seen.start_s, None)
    for job in waiting:
        queue.submit(replace(job, procs=min(job.procs, processors)))
    return queue.sample_waits(now_s, past)


def _check(job: QueueJob, section: Section) -> None:
    """Raise `ConfigError` for a job that can never run in a partition."""
    name, usable = f"partition {section.name}", sum(section.cpus.values())
    if job.procs > usable:
        problem = f"{name}: {job.procs} CPUs are asked and {usable} are usable"
        raise ConfigError(f"{problem}; ask for fewer, or name another partition")
    if job.request_s > section.limit_s:
        problem = (
            f"{name}: {job.request_s / 60:g} min are asked and its limit is {section.limit_s / 60:g} min"
        )
        raise ConfigError(f"{problem}; ask for less, or name another partition")


def _before_or_after(windows: Sequence[tuple[float, float, int]], start_s: float, length_s: float) -> float:
    """Return the start of a job that crosses none of the windows (start, end, CPUs) in order: it may follow one."""
    for since_s, until_s, _ in windows:
        if start_s < until_s and start_s + length_s > since_s:
            start_s = until_s
    return start_s


def _reserving(one: NodeReservation, cpus: int) -> SeenJob:
    """Return a reservation as a job that runs exactly to its end: a model's time is compared with no other job's."""
    length_s = one.end_s - one.start_s
    job = QueueJob(
        id=0, procs=cpus, request_s=length_s, submit_s=one.start_s, user=one.name, model_s=length_s
    )
    return SeenJob(number=one.name, job=job, start_s=one.start_s)


def _tier(job: ClusterJob, queue: ClusterQueue) -> int:
    return max((queue.sections[name].tier for name in job.partitions if name in queue.sections), default=1)


def _ended_jobs(trace: Trace) -> list[SeenJob]:
    jobs, starts, ends = Jobs(trace), (trace.submit + trace.wait).tolist(), trace.log_end.tolist()
    return [
        SeenJob(number=str(number), job=jobs[index], start_s=starts[index], end_s=ends[index])
        for index, number in enumerate(trace.id.tolist())
    ]
