"""Sampled starts of waiting jobs: the queue's own pass, run forward on copies with sampled run times.

The policy has the same estimates on each copy as on the queue. Only the true run times differ from copy to copy. They
depend on the ids of the jobs and on no other random number, so a replay and the live queue predict the same starts.
Later submissions are not simulated; `apples.queueing.startranges` corrects for their effect.
"""

from collections.abc import Sequence

import numpy as np

from apples.queueing import kernel, replay
from apples.queueing.jobs import QueueJob
from apples.queueing.runtimes import PastRuns
from apples.queueing.startranges import SampledWait
from apples.queueing.state import (
    FREE,
    PROCS,
    QUEUE,
    QUEUED,
    RUNNERS,
    RUNNING,
    VACANT,
    WAITING,
    Floats,
    Ints,
    QueueState,
    Rules,
    empty_state,
)

DRAWS = 20

#: Of splitmix64, which mixes the bits of a counter.
_GAMMA, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


def present_slots(state: QueueState) -> tuple[Ints, Ints]:
    """Return the slots of the waiting jobs, in order of submission, and those of the running jobs."""
    queued, running = state.counts[QUEUED], state.counts[RUNNING]
    waiting = state.lists[QUEUE, :queued][state.columns[PROCS, :queued] != VACANT]
    return waiting, state.lists[RUNNERS, :running].copy()


def sample_waits(
    state: QueueState, rules: Rules, jobs: Sequence[QueueJob], now_s: float, past: PastRuns
) -> list[SampledWait]:
    """Return the percentiles of sampled waits from `now_s` on, for each waiting job in order of submission.

    Args:
        state: the queue, which is not changed.
        rules: its policy.
        jobs: the jobs of `present_slots`, waiting ones first.
        now_s: present time, s on the queue's clock.
        past: run times of earlier jobs.
    """
    origin = _compact_copy(state)
    waiting = int(origin.counts[QUEUED])
    if not waiting:
        return []
    begun = origin.jobs["start"].copy()
    begun[:waiting] = now_s
    runs = _sampled_runs(jobs, now_s - begun, past, rules.increment_s)
    waits = np.empty((DRAWS, waiting))
    for draw in range(DRAWS):
        copy = QueueState._make(array.copy() for array in origin)
        world = replay.make_world(np.full(len(jobs), now_s), runs[draw])
        kernel.scheduled(copy, rules, now_s)
        running = copy.lists[RUNNERS, : copy.counts[RUNNING]]
        # Rounding could put the end of a job that just exceeds its elapsed time before the present.
        ends = np.maximum(begun[running] + runs[draw, running], now_s)
        order = np.argsort(ends, kind="stable")
        world.jobs["end"][running] = ends
        world.heap[: len(running)] = running[order]
        world.jobs["sequence"][running[order]] = np.arange(len(running))
        world.cursor[replay.HEAP] = world.cursor[replay.SEQUENCE] = len(running)
        world.cursor[replay.NEXT] = len(jobs)
        replay.advance(copy, rules, world, len(jobs) + 1, False)
        waits[draw] = copy.jobs["start"][:waiting] - now_s
    percentiles = np.quantile(waits, (0.1, 0.5, 0.9), axis=0)
    return [SampledWait(*column) for column in percentiles.T.tolist()]


def _compact_copy(state: QueueState) -> QueueState:
    """Return a copy with the present jobs only: waiting jobs in the first slots, then running ones."""
    waiting, running = present_slots(state)
    slots, queued = np.concatenate([waiting, running]), state.counts[QUEUED]
    copy = empty_state(len(slots), int(state.counts[FREE]))
    copy.jobs[:] = state.jobs[slots]
    occupied = state.columns[PROCS, :queued] != VACANT
    copy.columns[:, : len(waiting)] = state.columns[:, :queued][:, occupied]
    copy.lists[QUEUE, : len(waiting)] = np.arange(len(waiting))
    copy.lists[RUNNERS, : len(running)] = np.arange(len(waiting), len(slots))
    copy.counts[QUEUED] = copy.counts[WAITING] = len(waiting)
    copy.counts[RUNNING] = len(running)
    return copy


def _sampled_runs(jobs: Sequence[QueueJob], elapsed_s: Floats, past: PastRuns, increment_s: float) -> Floats:
    """Return run times that exceed `elapsed_s`, float64[DRAWS, jobs], s.

    The samples of one job are spread evenly over its possible run times, in an order of its own. A job that has
    outlived all of them runs for `increment_s` more.
    """
    order = _orders(np.array([job.id for job in jobs], np.int64))
    runs = np.empty(order.shape)
    for index, (job, elapsed) in enumerate(zip(jobs, elapsed_s.tolist(), strict=True)):
        possible = past.longer_than(job, elapsed)
        if not len(possible):
            possible = np.array([elapsed + increment_s])
        runs[:, index] = possible[((order[:, index] + 0.5) / DRAWS * len(possible)).astype(np.int64)]
    return runs


def _orders(ids: Ints) -> Ints:
    """Return a permutation of 0 … DRAWS - 1 for each id, int64[DRAWS, ids]."""
    counter = ids.astype(np.uint64) * np.uint64(DRAWS) + np.arange(1, DRAWS + 1, dtype=np.uint64)[:, None]
    bits = counter * _GAMMA
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return np.argsort(bits ^ (bits >> np.uint64(31)), axis=0, kind="stable")
