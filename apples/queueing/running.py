"""Running jobs in order of expected end: start, end, outlived estimates, and the shadow time.

The rule for a job that outlives its estimate decides whether prediction helps (Gaussier et al., SC'15), so there are
four rules. Each becomes *now + increment* for a job that outlives its request.
"""

from apples.queueing.jit import part, unit
from apples.queueing.state import (
    BY_DOUBLING,
    BY_HALF,
    BY_INCREMENT,
    CHECKED,
    FREE,
    QUEUE,
    RUNNERS,
    RUNNING,
    STARTED,
    STARTS,
    QueueState,
    Rules,
)
from apples.queueing.waiting import vacate


@part
def enter(state: QueueState, position: int, now: float) -> None:
    """Start the job at one place in the queue."""
    slot = state.lists[QUEUE, position]
    vacate(state, position)
    state.counts[CHECKED] = 0
    state.jobs[slot]["start"] = now
    state.counts[FREE] -= state.jobs[slot]["procs"]
    state.lists[STARTS, state.counts[STARTED]] = slot
    state.counts[STARTED] += 1
    _insert(state, slot, now + state.jobs[slot]["running_s"])


@unit
def leave(state: QueueState, slot: int) -> None:
    """End a running job. A job that has left already is ignored."""
    position = _after(state, state.jobs[slot]["expected"]) - 1
    while position >= 0 and state.lists[RUNNERS, position] != slot:
        position -= 1
    if position < 0:
        return
    state.counts[RUNNING] -= 1
    state.counts[CHECKED] = 0
    for later in range(position, state.counts[RUNNING]):
        state.lists[RUNNERS, later] = state.lists[RUNNERS, later + 1]
    state.counts[FREE] += state.jobs[slot]["procs"]


@unit
def restore(state: QueueState, slot: int, expected: float) -> None:
    """Return a job that has just left to the running jobs, with another expected end."""
    state.counts[FREE] -= state.jobs[slot]["procs"]
    state.counts[CHECKED] = 0
    _insert(state, slot, expected)


@unit
def renew(state: QueueState, rules: Rules, now: float) -> None:
    """Set a new expected end for every running job whose expected end has passed.

    Under BY_INCREMENT no value is stored: `shadow` reads every end as at least now + increment, as Cobalt does.
    """
    if rules.overrun == BY_INCREMENT:
        state.counts[CHECKED] = 0
        return
    while state.counts[RUNNING] > 0:
        slot = state.lists[RUNNERS, 0]
        if state.jobs[slot]["expected"] > now:
            return
        state.counts[RUNNING] -= 1
        state.counts[CHECKED] = 0
        for position in range(state.counts[RUNNING]):
            state.lists[RUNNERS, position] = state.lists[RUNNERS, position + 1]
        _insert(state, slot, _renewed(state, rules, slot, now))


@part
def _renewed(state: QueueState, rules: Rules, slot: int, now: float) -> float:
    """Return the next expected end of a job that outlived the last one."""
    start = float(state.jobs[slot]["start"])
    limit = start + float(state.jobs[slot]["request"])
    if limit <= now:
        return now + rules.increment_s
    if rules.overrun == BY_DOUBLING:
        span = float(state.jobs[slot]["expected"]) - start
        if span <= 0.0:
            return limit
        while start + span <= now:
            span *= 2.0
        return min(start + span, limit)
    if rules.overrun == BY_HALF:
        return max(now + 0.5 * (limit - now), min(now + 1.0, limit))
    return limit


@part
def shadow(state: QueueState, rules: Rules, procs: int, now: float) -> tuple[float, int]:
    """Return (time by which `procs` processors are expected to be free, processors beyond them).

    The time is now if they are free already.
    """
    earliest = now + rules.increment_s if rules.overrun == BY_INCREMENT else now
    free, time = state.counts[FREE], now
    for position in range(state.counts[RUNNING]):
        slot = state.lists[RUNNERS, position]
        end = max(state.jobs[slot]["expected"], earliest)
        if free >= procs and end > time:
            break
        free += state.jobs[slot]["procs"]
        time = end
    return time, free - procs


@unit
def _insert(state: QueueState, slot: int, expected: float) -> None:
    position = _after(state, expected)
    for later in range(state.counts[RUNNING], position, -1):
        state.lists[RUNNERS, later] = state.lists[RUNNERS, later - 1]
    state.lists[RUNNERS, position] = slot
    state.jobs[slot]["expected"] = expected
    state.counts[RUNNING] += 1


@part
def _after(state: QueueState, expected: float) -> int:
    """Return the place behind all running jobs that are expected to end by this time."""
    low, high = 0, state.counts[RUNNING]
    while low < high:
        middle = (low + high) // 2
        if state.jobs[state.lists[RUNNERS, middle]]["expected"] <= expected:
            low = middle + 1
        else:
            high = middle
    return low
