"""Predicted starts of the waiting jobs of a live queue, kept at each submission and compared with the true start."""

import math
from collections.abc import Iterable

from msgspec.json import encode

from apples.livequeue.clock import Clock
from apples.livequeue.records import JobRecord
from apples.livequeue.store import Store
from apples.queueing.easyqueue import JobQueue
from apples.queueing.runtimes import PastRuns
from apples.queueing.settings import RANGE_PERCENTILE
from apples.queueing.startranges import ForeseenWait, SampledWait, StartRange, StartRanges, learns_from

#: Age at which predicted starts are made anew without an event, s.
_SAMPLED_FOR_S = 10.0


class StartPredictions:
    """Predictions of one queue in memory. `runs`: run times of its ended jobs."""

    def __init__(self, queue: JobQueue, clock: Clock, started: Iterable[JobRecord]) -> None:
        """Learn from jobs that have started; waiting ones among them are ignored."""
        self.runs = PastRuns()
        self._queue, self._clock, self._ranges = queue, clock, StartRanges()
        self._sampled: dict[int, SampledWait] = {}
        self._sampled_s = -math.inf
        self.learn(sorted(started, key=lambda record: record.start_s or 0.0))

    @property
    def held(self) -> float | None:
        """Return the share of recent starts inside the range predicted at the submission, or None before 50 starts."""
        return self._ranges.held

    def learn(self, started: Iterable[JobRecord]) -> None:
        """Learn from jobs that have started, in order of start."""
        for record in started:
            foreseen = ForeseenWait.decoded(record.foreseen)
            if record.start_s is not None and foreseen is not None:
                self._ranges.learn(foreseen, record.start_s - record.submitted_s)

    def changed(self) -> None:
        """Note that the queue has changed, so starts must be predicted anew."""
        self._sampled_s = -math.inf

    def keep(self, submitted: Iterable[int], now: float, store: Store) -> list[int]:
        """Write the predicted waits of new jobs, within a transaction. Return the jobs that ranges learn from."""
        waiting = {job.id for job in self._queue.waiting}
        jobs = [i for i in submitted if i in waiting and learns_from(i, len(waiting))]
        for job_id in jobs:
            foreseen = self._ranges.foresee(self._waits(now)[job_id])
            store.change(job_id, foreseen=encode(foreseen).decode())
        return jobs

    def start(self, job_id: int, percentile: float = RANGE_PERCENTILE) -> StartRange | None:
        """Return the predicted start of a waiting job, or None for other jobs. `percentile`: of the range."""
        sampled = self._waits(self._clock.now()).get(job_id)
        return None if sampled is None else self._ranges.widened(sampled, self._sampled_s, percentile)

    def order(self) -> list[int]:
        """Return the waiting jobs in the order of their predicted starts."""
        waits = self._waits(self._clock.now())
        return sorted(waits, key=lambda job_id: (waits[job_id].median_s, job_id))

    def _waits(self, now: float) -> dict[int, SampledWait]:
        """Return the sampled waits of waiting jobs as of `_sampled_s`, made anew if they are too old."""
        if now > self._sampled_s + _SAMPLED_FOR_S:
            self._sampled, self._sampled_s = self._queue.sample_waits(now, self.runs), now
        return self._sampled
