"""Predicted starts of waiting jobs: the queue's own pass, run forward on a copy.

Two runs give a range. In the first, jobs end at their estimates: early starts. In the second, jobs use their whole
request: late starts. Later submissions are not predicted, so a job of higher priority may still delay a start.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from apples.queueing.easyqueue import JobQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedStart:
    """Predicted start of one waiting job, s on the queue's clock: early <= late, nan if it cannot start."""

    early_s: float
    late_s: float


def predict_starts(
    queue: JobQueue, now_s: float, started_s: Mapping[int, float], estimates_s: Mapping[int, float]
) -> dict[int, PredictedStart]:
    """Return the predicted starts of all waiting jobs, by id.

    Args:
        queue: the queue, which is not changed.
        now_s: present time, s on the queue's clock.
        started_s: start of each running job, s.
        estimates_s: run time estimate of a job, at most its request, s. Jobs without one use the request.
    """
    requests = {job.id: job.request_s for job in (*queue.waiting, *queue.running)}
    late = _starts(queue, now_s, started_s, (requests,))
    if all(estimates_s.get(job, request) >= request for job, request in requests.items()):
        early = late
    else:
        early = _starts(queue, now_s, started_s, (estimates_s, requests))
    nan = float("nan")
    predictions = {}
    for job in queue.waiting:
        ends = sorted((early.get(job.id, nan), late.get(job.id, nan)))
        predictions[job.id] = PredictedStart(early_s=ends[0], late_s=ends[1])
    return predictions


def _starts(
    queue: JobQueue,
    now_s: float,
    started_s: Mapping[int, float],
    spans_s: tuple[Mapping[int, float], ...],
) -> dict[int, float]:
    """Return the starts of waiting jobs. `spans_s`: run times; the next one follows an outlived one."""
    ahead = queue.copy()
    ends: list[tuple[float, int]] = []
    for job in queue.running:
        likely = (started_s[job.id] + spans.get(job.id, job.request_s) for spans in spans_s)
        overdue = now_s + queue.settings.increment_s
        ends.append((next((end for end in likely if end > now_s), overdue), job.id))
    heapq.heapify(ends)
    start_of_job: dict[int, float] = {}
    now, waiting = now_s, len(queue.waiting)
    while True:
        for job in ahead.start(now):
            start_of_job[job.id] = now
            heapq.heappush(ends, (now + spans_s[0].get(job.id, job.request_s), job.id))
        if not ends or len(start_of_job) == waiting:
            return start_of_job
        now = ends[0][0]
        while ends and ends[0][0] == now:
            ahead.end(heapq.heappop(ends)[1])
