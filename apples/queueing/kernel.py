"""The pass: which waiting jobs start now. Compiled; the live queue and the replay of traces call the same functions.

EASY (Lifka; Mu'alem and Feitelson): jobs start from the top of the queue while they fit; the first that does not gets
a reservation at the *shadow time*, when enough running jobs are expected to have ended; another job may overtake it
if it is expected to end by then, or fits in the *extra* processors that the reserved job leaves. The queue is ordered
by priority, ties by submission. Conservative backfilling is in `apples.queueing.conservative`.
"""

from __future__ import annotations

import numpy as np

from apples.queueing.conservative import conservative
from apples.queueing.jit import compiled, part
from apples.queueing.running import enter, leave, renew, shadow
from apples.queueing.scores import score_all
from apples.queueing.state import (
    CONSERVATIVE,
    EASY,
    FCFS,
    FREE,
    QUEUE,
    QUEUED,
    SCRATCH,
    STARTED,
    Rules,
    State,
)


@part
def enqueue(state: State, slot: int) -> None:
    """A job was submitted."""
    state.lists[QUEUE, state.counts[QUEUED]] = slot
    state.counts[QUEUED] += 1
    state.jobs[slot]["waiting"] = 1
    state.jobs[slot]["start"] = np.nan
    state.jobs[slot]["reservation"] = np.inf
    state.jobs[slot]["backfilled"] = 0


@part
def make_pass(state: State, rules: Rules, now: float) -> None:
    """Start what may start; `state.lists[STARTS, :state.counts[STARTED]]` are the slots, in order of start."""
    counts = state.counts
    counts[STARTED] = 0
    if counts[QUEUED] == 0 or counts[FREE] == 0:
        return
    renew(state, rules, now)
    if rules.backfill == CONSERVATIVE:
        conservative(state, rules, now)
    elif rules.priority == FCFS:
        _in_order(state, rules, now)
    else:
        _by_score(state, rules, now)
    if counts[STARTED] > 0:
        _compact(state)


@part
def _in_order(state: State, rules: Rules, now: float) -> None:
    """FCFS: the queue's own order is the priority."""
    counts, queue = state.counts, state.lists[QUEUE]
    place, queued = 0, counts[QUEUED]
    while place < queued and state.jobs[queue[place]]["procs"] <= counts[FREE]:
        enter(state, queue[place], now)
        place += 1
    if place == queued or rules.backfill != EASY or counts[FREE] == 0:
        return
    shadow_time, extra = shadow(state, rules, state.jobs[queue[place]]["procs"], now)
    for other in range(place + 1, queued):
        slot = queue[other]
        if state.jobs[slot]["procs"] > counts[FREE]:
            continue
        if now + state.jobs[slot]["backfill_s"] > shadow_time:
            if state.jobs[slot]["procs"] > extra:
                continue
            extra -= state.jobs[slot]["procs"]
        state.jobs[slot]["backfilled"] = 1
        enter(state, slot, now)
        if counts[FREE] == 0:
            return


@part
def _by_score(state: State, rules: Rules, now: float) -> None:
    """Any other priority: always the best of those that are left, instead of sorting them all."""
    counts, queue, pool = state.counts, state.lists[QUEUE], state.lists[SCRATCH]
    left = counts[QUEUED]
    score_all(state, rules, now)
    for place in range(left):
        pool[place] = place
    head = -1
    while left > 0:
        best = _best(state, left)
        slot = queue[pool[best]]
        if state.jobs[slot]["procs"] > counts[FREE]:
            head = pool[best]
            break
        enter(state, slot, now)
        left -= 1
        pool[best] = pool[left]
    if head < 0 or rules.backfill != EASY or counts[FREE] == 0:
        return
    shadow_time, extra = shadow(state, rules, state.jobs[queue[head]]["procs"], now)
    left = _candidates(state, now, shadow_time, extra)
    while left > 0:
        best = _best(state, left)
        slot = queue[pool[best]]
        left -= 1
        pool[best] = pool[left]
        if state.jobs[slot]["procs"] > counts[FREE]:
            continue
        if now + state.jobs[slot]["backfill_s"] > shadow_time:
            if state.jobs[slot]["procs"] > extra:
                continue
            extra -= state.jobs[slot]["procs"]
        state.jobs[slot]["backfilled"] = 1
        enter(state, slot, now)


@part
def _candidates(state: State, now: float, shadow_time: float, extra: int) -> int:
    """Fill the scratch list with places of jobs that may overtake; returns how many. The head never fits."""
    found = 0
    for place in range(state.counts[QUEUED]):
        slot = state.lists[QUEUE, place]
        fits = state.jobs[slot]["waiting"] == 1 and state.jobs[slot]["procs"] <= state.counts[FREE]
        if fits and (
            now + state.jobs[slot]["backfill_s"] <= shadow_time or state.jobs[slot]["procs"] <= extra
        ):
            state.lists[SCRATCH, found] = place
            found += 1
    return found


@part
def _best(state: State, left: int) -> int:
    """Index into the scratch list of the highest score, the earliest submitted of equals."""
    pool, scores = state.lists[SCRATCH], state.scores
    best = 0
    for index in range(1, left):
        score, highest = scores[pool[index]], scores[pool[best]]
        if score > highest or (score == highest and pool[index] < pool[best]):
            best = index
    return best


@part
def _compact(state: State) -> None:
    """Take what was started out of the queue, order kept."""
    kept = 0
    for place in range(state.counts[QUEUED]):
        slot = state.lists[QUEUE, place]
        if state.jobs[slot]["waiting"] == 1:
            state.lists[QUEUE, kept] = slot
            kept += 1
    state.counts[QUEUED] = kept


@part
def top_of_queue(state: State, rules: Rules, now: float) -> int:
    """Slot of the waiting job of the highest priority; the queue must not be empty."""
    if rules.priority == FCFS:
        return int(state.lists[QUEUE, 0])
    score_all(state, rules, now)
    for place in range(state.counts[QUEUED]):
        state.lists[SCRATCH, place] = place
    return int(state.lists[QUEUE, state.lists[SCRATCH, _best(state, state.counts[QUEUED])]])


@compiled
def submitted(state: State, slot: int) -> None:
    """For callers outside compiled code: a job whose columns are filled joins the queue."""
    enqueue(state, slot)


@compiled
def withdrawn(state: State, slot: int) -> None:
    """A waiting job leaves the queue without a start."""
    state.jobs[slot]["waiting"] = 0
    _compact(state)


@compiled
def ended(state: State, slot: int) -> None:
    """A running job ended."""
    leave(state, slot)


@compiled
def scheduled(state: State, rules: Rules, now: float) -> None:
    """One pass, as `make_pass`."""
    make_pass(state, rules, now)


@compiled
def reserved(state: State, rules: Rules, now: float) -> tuple[int, float, int]:
    """(slot of the top of the queue, its shadow time, extra processors then); now if it fits already."""
    renew(state, rules, now)
    slot = top_of_queue(state, rules, now)
    shadow_time, extra = shadow(state, rules, state.jobs[slot]["procs"], now)
    return slot, shadow_time, extra
