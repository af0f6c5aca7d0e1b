"""Conservative backfilling: every waiting job has a reservation, and no other job may delay it.

A profile of free processors over time is built from running jobs and reservations. Each waiting job, in order of
priority, then releases its reservation and takes the earliest one possible. It is never later than before unless a job
outlives its estimate. A pass costs jobs × steps of the profile.
"""

import numpy as np

from apples.queueing.jit import part, unit
from apples.queueing.running import enter
from apples.queueing.scores import score_all
from apples.queueing.state import (
    BY_INCREMENT,
    FREE,
    PROCS,
    QUEUE,
    QUEUED,
    RUNNERS,
    RUNNING,
    VACANT,
    Floats,
    Ints,
    QueueState,
    Rules,
)
from apples.queueing.waiting import compact


@unit
def conservative(state: QueueState, rules: Rules, now: float) -> None:
    """Run one pass. Expected ends of running jobs must have been renewed."""
    compact(state)
    queued = state.counts[QUEUED]
    order, keys = np.empty(queued, np.int64), np.empty(queued)
    room = state.counts[RUNNING] + 4 * queued + 2
    times, free = np.empty(room), np.empty(room, np.int64)
    steps = _running_profile(state, rules, now, times, free)
    for position in range(queued):
        keys[position] = state.jobs[state.lists[QUEUE, position]]["reservation"]
    _sort(order, keys, queued)
    steps = _keep(state, order, now, times, free, steps)
    score_all(state, rules, now)
    for position in range(queued):
        keys[position] = -state.scores[position]
    _sort(order, keys, queued)
    for index in range(queued):
        slot = state.lists[QUEUE, order[index]]
        span, procs = state.jobs[slot]["backfill_s"], state.jobs[slot]["procs"]
        steps = _occupy(times, free, steps, state.jobs[slot]["reservation"], span, -procs)
        begin = _earliest(times, free, steps, now, span, procs)
        steps = _occupy(times, free, steps, begin, span, procs)
        state.jobs[slot]["reservation"] = begin
        # Another job may hold this reservation's processors until a job that outlived its estimate ends.
        if begin <= now and procs <= state.counts[FREE]:
            if index > 0 and _overtakes(state, order, index):
                state.jobs[slot]["backfilled"] = 1
            enter(state, order[index], now)
    compact(state)


@part
def _overtakes(state: QueueState, order: Ints, index: int) -> bool:
    """Return whether a job of higher priority still waits."""
    for before in range(index):  # noqa: SIM110  (any() over a generator is not compiled)
        if state.columns[PROCS, order[before]] != VACANT:
            return True
    return False


@part
def _running_profile(state: QueueState, rules: Rules, now: float, times: Floats, free: Ints) -> int:
    """Build the profile of running jobs: free[i] processors from times[i] on. Return the number of steps."""
    earliest = now + rules.increment_s if rules.overrun == BY_INCREMENT else now
    steps = 1
    times[0], free[0] = now, state.counts[FREE]
    for position in range(state.counts[RUNNING]):
        slot = state.lists[RUNNERS, position]
        end = max(state.jobs[slot]["expected"], earliest)
        if end > times[steps - 1]:
            times[steps], free[steps] = end, free[steps - 1]
            steps += 1
        free[steps - 1] += state.jobs[slot]["procs"]
    return steps


@part
def _keep(state: QueueState, order: Ints, now: float, times: Floats, free: Ints, steps: int) -> int:
    """Add existing reservations, earliest first. An impossible one moves later. New jobs follow."""
    for index in range(len(order)):
        slot = state.lists[QUEUE, order[index]]
        reservation = state.jobs[slot]["reservation"]
        since = now if reservation == np.inf else max(reservation, now)
        begin = _earliest(
            times, free, steps, since, state.jobs[slot]["backfill_s"], state.jobs[slot]["procs"]
        )
        steps = _occupy(times, free, steps, begin, state.jobs[slot]["backfill_s"], state.jobs[slot]["procs"])
        state.jobs[slot]["reservation"] = begin
    return steps


@unit
def _earliest(times: Floats, free: Ints, steps: int, since: float, span: float, procs: int) -> float:
    """Return the earliest time, not before `since`, from which the processors are free for the span."""
    begin, fitting = since, False
    for step in range(steps):
        until = times[step + 1] if step + 1 < steps else np.inf
        if until <= since:
            continue
        if free[step] < procs:
            fitting = False
            continue
        if not fitting:
            begin, fitting = max(times[step], since), True
        if begin + span <= until:
            return begin
    return begin


@unit
def _occupy(times: Floats, free: Ints, steps: int, begin: float, span: float, procs: int) -> int:
    """Subtract processors over a span (add them if negative), and return the number of steps."""
    if span <= 0.0:
        return steps
    steps, first = _step_at(times, free, steps, begin)
    steps, last = _step_at(times, free, steps, begin + span)
    for step in range(first, last):
        free[step] -= procs
    return steps


@unit
def _step_at(times: Floats, free: Ints, steps: int, time: float) -> tuple[int, int]:
    """Return (number of steps, index of the step that begins at this time). The step is added if there is none."""
    low, high = 0, steps
    while low < high:
        middle = (low + high) // 2
        if times[middle] < time:
            low = middle + 1
        else:
            high = middle
    if low < steps and times[low] == time:
        return steps, low
    for later in range(steps, low, -1):
        times[later], free[later] = times[later - 1], free[later - 1]
    times[low], free[low] = time, free[low - 1]
    return steps + 1, low


@unit
def _sort(order: Ints, keys: Floats, count: int) -> None:
    """Sort places 0 … count - 1 by key, stable. Insertion sort, because queues are nearly sorted."""
    for position in range(count):
        spot = position
        while spot > 0 and keys[order[spot - 1]] > keys[position]:
            order[spot] = order[spot - 1]
            spot -= 1
        order[spot] = position
