"""When the waiting jobs will start: the queue's own pass, run forward on a copy.

Twice: jobs that end when their estimates say give the early starts, jobs that take all they asked for the late ones.
Nobody knows who will be submitted meanwhile; a higher priority that comes later is not foreseen.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from apples.queueing.queue import JobQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedStart:
    """Start of one waiting job, s on the queue's clock; nan where it cannot start. early <= late"""

    early_s: float
    late_s: float


def predict_starts(
    queue: JobQueue, now_s: float, started_s: Mapping[int, float], estimates_s: Mapping[int, float]
) -> dict[int, PredictedStart]:
    """Starts of all waiting jobs, by id.

    started_s : of running jobs.  estimates_s : run time of each job, at most its request, where there is one
    """
    requests = {job.id: job.request_s for job in (*queue.waiting, *queue.running)}
    late = _starts(queue, now_s, started_s, (requests,))
    if all(estimates_s.get(job, request) >= request for job, request in requests.items()):
        early = late
    else:
        early = _starts(queue, now_s, started_s, (estimates_s, requests))
    nan = float("nan")
    found = {}
    for job in queue.waiting:
        ends = sorted((early.get(job.id, nan), late.get(job.id, nan)))
        found[job.id] = PredictedStart(early_s=ends[0], late_s=ends[1])
    return found


def _starts(
    queue: JobQueue,
    now_s: float,
    started_s: Mapping[int, float],
    spans_s: tuple[Mapping[int, float], ...],
) -> dict[int, float]:
    """Start of each waiting job that can start. spans_s : run times, the next where a job has outlived the last"""
    ahead = queue.copy()
    ends: list[tuple[float, int]] = []
    for job in queue.running:
        likely = (started_s[job.id] + spans.get(job.id, job.request_s) for spans in spans_s)
        overdue = now_s + queue.settings.increment_s
        ends.append((next((end for end in likely if end > now_s), overdue), job.id))
    heapq.heapify(ends)
    found: dict[int, float] = {}
    now, waiting = now_s, len(queue.waiting)
    while True:
        for job in ahead.start(now):
            found[job.id] = now
            heapq.heappush(ends, (now + spans_s[0].get(job.id, job.request_s), job.id))
        if not ends or len(found) == waiting:
            return found
        now = ends[0][0]
        while ends and ends[0][0] == now:
            ahead.end(heapq.heappop(ends)[1])
