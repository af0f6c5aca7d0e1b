"""The compiled pass: selects the waiting jobs that start now. The live queue and the replay call the same functions.

EASY (Lifka; Mu'alem and Feitelson): jobs start from the head of the queue while they fit. The first that does not fit
gets a reservation at the *shadow time*, when enough running jobs are expected to have ended. Another job may overtake
it if it is expected to end by then, or if it fits in the *extra* processors that the reserved job leaves. Estimates may
be too short and delay the reservation. Once it is later than the first one by a budget, a job may overtake only if its
request ends by then. The queue is ordered by priority, ties by submission. `apples.queueing.conservative` has
conservative backfilling.

The head of the queue: the waiting job of highest priority, found without scoring all jobs at every pass.

FCFS: the first job. SJF: the shortest job at any time. WFP compares cube roots of equation 5, wait × ∛processors /
estimate: straight lines over time. Two slopes give the time when one line crosses the other, and the head stays until
the first crossing. An expression has no such structure, so every job is scored each time.
"""

import numpy as np

from apples.queueing.conservative import conservative
from apples.queueing.jit import compiled, part, unit
from apples.queueing.running import enter, leave, renew, restore, shadow
from apples.queueing.scores import score, score_all
from apples.queueing.state import (
    BY_PRIORITY,
    CHECKED,
    CONSERVATIVE,
    EASY,
    EXPRESSION,
    EXTRA,
    FCFS,
    FREE,
    HEAD,
    HEAD_UNTIL,
    PROCS,
    QUEUE,
    QUEUED,
    RANK,
    RANKED,
    SCRATCH,
    SHADOW,
    SHORTEST,
    SJF,
    SPAN,
    STARTED,
    SUBMIT,
    VACANT,
    WAITING,
    WFP,
    QueueState,
    Rules,
)
from apples.queueing.waiting import compact, compact_if_sparse, enqueue, vacate

#: Relative distance below which two lines count as crossing.
_NEAR = 1e-12


@part
def find_head(state: QueueState, rules: Rules, now: float) -> int:
    """Return the place of the job of highest priority, the earliest submitted of equals, in a queue with jobs."""
    counts = state.counts
    before = counts[HEAD]
    if rules.priority == FCFS:
        _first(state)
    elif rules.priority == SJF:
        _shortest(state)
    elif rules.priority == WFP:
        _steepest(state, now)
    else:
        _highest(state, rules, now)
    if counts[HEAD] != before:
        counts[CHECKED] = 0
    return int(counts[HEAD])


@part
def _first(state: QueueState) -> None:
    """Find the first job. Places before counts[RANKED] are vacant."""
    counts = state.counts
    if counts[HEAD] >= 0:
        return
    position = counts[RANKED]
    while state.columns[PROCS, position] == VACANT:
        position += 1
    counts[HEAD] = counts[RANKED] = position


@part
def _shortest(state: QueueState) -> None:
    counts, rank, procs = state.counts, state.columns[RANK], state.columns[PROCS]
    best = counts[HEAD]
    for position in range(counts[RANKED] if best >= 0 else 0, counts[QUEUED]):
        if procs[position] != VACANT and (best < 0 or rank[position] > rank[best]):
            best = position
    counts[HEAD], counts[RANKED] = best, counts[QUEUED]


@part
def _highest(state: QueueState, rules: Rules, now: float) -> None:
    """Find the highest value of an expression."""
    best, procs = -1, state.columns[PROCS]
    for position in range(state.counts[QUEUED]):
        if procs[position] == VACANT:
            continue
        state.scores[position] = score(state, rules, position, now)
        if best < 0 or state.scores[position] > state.scores[best]:
            best = position
    state.counts[HEAD] = best


@part
def _steepest(state: QueueState, now: float) -> None:
    """Compare only new jobs until the head's time is over or a new job has a higher value."""
    counts, columns = state.counts, state.columns
    slope, submit, procs = columns[RANK], columns[SUBMIT], columns[PROCS]
    if counts[HEAD] < 0 or now >= state.times[HEAD_UNTIL] or _newcomer_leads(state, now):
        best, highest = -1, -1.0
        for position in range(counts[QUEUED]):
            value = slope[position] * (now - submit[position])
            if value > highest and procs[position] != VACANT:
                best, highest = position, value
        counts[HEAD], counts[RANKED] = best, 0
        state.times[HEAD_UNTIL] = np.inf
    head = counts[HEAD]
    leading = slope[head] * (now - submit[head])
    until = state.times[HEAD_UNTIL]
    for position in range(counts[RANKED], counts[QUEUED]):
        faster = slope[position] - slope[head]
        if faster > 0.0 and procs[position] != VACANT:
            behind = leading * (1.0 - _NEAR) - slope[position] * (now - submit[position])
            # Divide only if this crossing is earlier than the earliest so far.
            if behind < faster * (until - now):
                until = now + max(behind / faster * (1.0 - _NEAR), 0.0)
    state.times[HEAD_UNTIL] = until
    counts[RANKED] = counts[QUEUED]


@part
def _newcomer_leads(state: QueueState, now: float) -> bool:
    counts, columns = state.counts, state.columns
    slope, submit = columns[RANK], columns[SUBMIT]
    leading = slope[counts[HEAD]] * (now - submit[counts[HEAD]])
    for position in range(counts[RANKED], counts[QUEUED]):
        if slope[position] * (now - submit[position]) > leading:
            return True
    return False


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
    for position in range(state.counts[QUEUED]):  # noqa: SIM110  (any() over a generator is not compiled)
        if state.columns[PROCS, position] <= free:
            return True
    return False


@part
def _overtake(state: QueueState, rules: Rules, now: float) -> None:
    """Backfill behind a head that does not fit. Rejected jobs are not checked again until head or processors change."""
    counts, pool = state.counts, state.lists[SCRATCH]
    if counts[CHECKED] == 0:
        procs = int(state.columns[PROCS, counts[HEAD]])
        state.times[SHADOW], counts[EXTRA] = shadow(state, rules, procs, now)
    head = state.jobs[state.lists[QUEUE, counts[HEAD]]]
    if head["reservation"] == np.inf:
        head["reservation"] = state.times[SHADOW]
    late = state.times[SHADOW] > head["reservation"] + rules.delay_budget_s
    left = _candidates(state, now, late)
    counts[CHECKED] = counts[QUEUED]
    in_order = rules.priority == FCFS and rules.backfill_order == BY_PRIORITY
    if rules.backfill_order != BY_PRIORITY:
        _score_size(state, rules, left)
    elif rules.priority != FCFS:
        for index in range(left):
            state.scores[pool[index]] = score(state, rules, pool[index], now)
    while left > 0:
        position = pool[0 if in_order else _best(state, left)]
        if now + _length(state, position, late) > state.times[SHADOW]:
            counts[EXTRA] -= int(state.columns[PROCS, position])
        state.jobs[state.lists[QUEUE, position]]["backfilled"] = 1
        enter(state, position, now)
        left = _keep_eligible(state, now, left, late)


@part
def _length(state: QueueState, position: int, late: bool) -> float:
    """Return the run time that is assumed for a job that may overtake: its request if the head is late."""
    if late:
        return float(state.jobs[state.lists[QUEUE, position]]["request"])
    return float(state.columns[SPAN, position])


@part
def _score_size(state: QueueState, rules: Rules, left: int) -> None:
    """Score the jobs that may overtake the head by their size: the shortest, or that of the smallest area, is first."""
    pool, procs, span = state.lists[SCRATCH], state.columns[PROCS], state.columns[SPAN]
    for index in range(left):
        position = pool[index]
        width = 1.0 if rules.backfill_order == SHORTEST else procs[position]
        state.scores[position] = -span[position] * width


@part
def _candidates(state: QueueState, now: float, late: bool) -> int:
    """Fill the scratch list with the places of jobs that may overtake the head, and return their number."""
    counts, pool = state.counts, state.lists[SCRATCH]
    procs, span = state.columns[PROCS], state.columns[SPAN]
    free, extra, by = float(counts[FREE]), float(counts[EXTRA]), state.times[SHADOW]
    count = 0
    for position in range(counts[CHECKED], counts[QUEUED]):
        # By estimates, which are at most the requests. Never true for the head, nor for a vacant place.
        if procs[position] <= free and (procs[position] <= extra or now + span[position] <= by):
            pool[count] = position
            count += 1
    return _keep_eligible(state, now, count, True) if late else count


@part
def _keep_eligible(state: QueueState, now: float, left: int, late: bool) -> int:
    """Keep the places of the scratch list, in order, that may still overtake, and return their number."""
    counts, pool = state.counts, state.lists[SCRATCH]
    procs, span = state.columns[PROCS], state.columns[SPAN]
    free, extra, by = float(counts[FREE]), float(counts[EXTRA]), state.times[SHADOW]
    eligible = 0
    for index in range(left):
        position = pool[index]
        if procs[position] <= free and (
            procs[position] <= extra
            or now + (_length(state, position, True) if late else span[position]) <= by
        ):
            pool[eligible] = position
            eligible += 1
    return eligible


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
    for position in range(state.counts[QUEUED]):
        if state.lists[QUEUE, position] == slot and state.columns[PROCS, position] != VACANT:
            vacate(state, position)
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
    position = find_head(state, rules, now)
    shadow_time, extra = shadow(state, rules, int(state.columns[PROCS, position]), now)
    return int(state.lists[QUEUE, position]), shadow_time, extra
