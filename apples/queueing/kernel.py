"""The compiled pass: selects the waiting jobs that start now. The live queue and the replay call the same functions.

EASY (Lifka; Mu'alem and Feitelson): jobs start from the head of the queue while they fit. The first that does not fit
gets a reservation at the *shadow time*, when enough running jobs are expected to have ended. Another job may overtake
it if it is expected to end by then, or if it fits in the *extra* processors that the reserved job leaves. The queue is
ordered by priority, ties by submission. `apples.queueing.conservative` has conservative backfilling.
"""

from apples.queueing.conservative import conservative
from apples.queueing.head import find_head
from apples.queueing.jit import compiled, part, unit
from apples.queueing.running import enter, leave, renew, restore, shadow
from apples.queueing.scores import score, score_all
from apples.queueing.state import (
    CHECKED,
    CONSERVATIVE,
    EASY,
    EXPRESSION,
    EXTRA,
    FCFS,
    FREE,
    HEAD,
    PROCS,
    QUEUE,
    QUEUED,
    SCRATCH,
    SHADOW,
    SPAN,
    STARTED,
    VACANT,
    WAITING,
    QueueState,
    Rules,
)
from apples.queueing.waiting import compact, compact_if_sparse, enqueue, vacate


@unit
def make_pass(state: QueueState, rules: Rules, now: float) -> None:
    """Start jobs. The first `counts[STARTED]` values of `lists[STARTS]` are their slots, in order of start."""
    counts = state.counts
    counts[STARTED] = 0
    if counts[WAITING] == 0 or counts[FREE] == 0:
        return
    renew(state, rules, now)
    if rules.backfill == CONSERVATIVE:
        conservative(state, rules, now)
        return
    if rules.priority == EXPRESSION and not _any_fits(state):
        return
    while counts[WAITING] > 0:
        head = find_head(state, rules, now)
        if state.columns[PROCS, head] > counts[FREE]:
            if rules.backfill == EASY and counts[FREE] > 0:
                _overtake(state, rules, now)
            break
        enter(state, head, now)
    if counts[STARTED] > 0:
        compact_if_sparse(state)


@part
def _any_fits(state: QueueState) -> bool:
    """Return whether any waiting job fits; if none does, scoring is not needed."""
    free = float(state.counts[FREE])
    for place in range(state.counts[QUEUED]):  # noqa: SIM110  (any() over a generator is not compiled)
        if state.columns[PROCS, place] <= free:
            return True
    return False


@part
def _overtake(state: QueueState, rules: Rules, now: float) -> None:
    """Backfill behind a head that does not fit. Rejected jobs are not checked again until head or processors change."""
    counts, pool = state.counts, state.lists[SCRATCH]
    if counts[CHECKED] == 0:
        wanted = int(state.columns[PROCS, counts[HEAD]])
        state.times[SHADOW], counts[EXTRA] = shadow(state, rules, wanted, now)
    left = _candidates(state, now)
    counts[CHECKED] = counts[QUEUED]
    if rules.priority != FCFS:
        for index in range(left):
            state.scores[pool[index]] = score(state, rules, pool[index], now)
    while left > 0:
        chosen = 0 if rules.priority == FCFS else _best(state, left)
        place = pool[chosen]
        if now + state.columns[SPAN, place] > state.times[SHADOW]:
            counts[EXTRA] -= int(state.columns[PROCS, place])
        state.jobs[state.lists[QUEUE, place]]["backfilled"] = 1
        enter(state, place, now)
        left = _keep_eligible(state, now, left)


@part
def _candidates(state: QueueState, now: float) -> int:
    """Fill the scratch list with the places of jobs that may overtake the head, and return their number."""
    counts, pool = state.counts, state.lists[SCRATCH]
    procs, span = state.columns[PROCS], state.columns[SPAN]
    free, extra, by = float(counts[FREE]), float(counts[EXTRA]), state.times[SHADOW]
    found = 0
    for place in range(counts[CHECKED], counts[QUEUED]):
        # Never true for the head, nor for a vacant place.
        if procs[place] <= free and (procs[place] <= extra or now + span[place] <= by):
            pool[found] = place
            found += 1
    return found


@part
def _keep_eligible(state: QueueState, now: float, left: int) -> int:
    """Keep the places of the scratch list, in order, that may still overtake, and return their number."""
    counts, pool = state.counts, state.lists[SCRATCH]
    procs, span = state.columns[PROCS], state.columns[SPAN]
    free, extra, by = float(counts[FREE]), float(counts[EXTRA]), state.times[SHADOW]
    kept = 0
    for index in range(left):
        place = pool[index]
        if procs[place] <= free and (procs[place] <= extra or now + span[place] <= by):
            pool[kept] = place
            kept += 1
    return kept


@part
def _best(state: QueueState, left: int) -> int:
    """Return the index in the scratch list of the highest score, the earliest submitted of equals."""
    pool, best = state.lists[SCRATCH], 0
    for index in range(1, left):
        if state.scores[pool[index]] > state.scores[pool[best]]:
            best = index
    return best


@compiled
def submitted(state: QueueState, rules: Rules, slot: int) -> None:
    """Add a job, whose row is filled, to the queue. For callers outside compiled code."""
    enqueue(state, rules, slot)


@compiled
def resumed(state: QueueState, rules: Rules, slot: int, start: float, expected: float) -> None:
    """Add a job, whose row is filled, as running. `start`, `expected`: its start and its expected end."""
    enqueue(state, rules, slot)
    state.counts[STARTED] = 0
    enter(state, state.counts[QUEUED] - 1, start)
    leave(state, slot)
    state.jobs[slot]["start"] = start
    restore(state, slot, expected)
    state.counts[STARTED] = 0
    compact(state)


@compiled
def withdrawn(state: QueueState, slot: int) -> None:
    """Remove a waiting job from the queue without a start."""
    for place in range(state.counts[QUEUED]):
        if state.lists[QUEUE, place] == slot and state.columns[PROCS, place] != VACANT:
            vacate(state, place)
    compact(state)


@compiled
def ended(state: QueueState, slot: int) -> None:
    """Release the processors of a running job."""
    leave(state, slot)


@compiled
def scheduled(state: QueueState, rules: Rules, now: float) -> None:
    """Run one pass, as `make_pass`."""
    make_pass(state, rules, now)


@compiled
def scored(state: QueueState, rules: Rules, now: float) -> None:
    """Compact the queue, and set `scores` of all its places."""
    compact(state)
    score_all(state, rules, now)


@compiled
def reserved(state: QueueState, rules: Rules, now: float) -> tuple[int, float, int]:
    """Return (slot of the head, its shadow time, extra processors at that time). The time is now if the head fits."""
    renew(state, rules, now)
    place = find_head(state, rules, now)
    shadow_time, extra = shadow(state, rules, int(state.columns[PROCS, place]), now)
    return int(state.lists[QUEUE, place]), shadow_time, extra
