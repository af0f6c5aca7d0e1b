"""The head of the queue: the waiting job of highest priority, found without scoring all jobs at every pass.

FCFS: the first job. SJF: the shortest job at any time. WFP compares cube roots of equation 5, wait × ∛processors /
estimate: straight lines over time. Two slopes give the time when one line crosses the other, and the head stays until
the first crossing. An expression has no such structure, so every job is scored each time.
"""

import numpy as np

from apples.queueing.jit import part
from apples.queueing.scores import score
from apples.queueing.state import (
    CHECKED,
    FCFS,
    HEAD,
    HEAD_UNTIL,
    PROCS,
    QUEUED,
    RANK,
    RANKED,
    SJF,
    SUBMIT,
    VACANT,
    WFP,
    QueueState,
    Rules,
)

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
    place = counts[RANKED]
    while state.columns[PROCS, place] == VACANT:
        place += 1
    counts[HEAD] = counts[RANKED] = place


@part
def _shortest(state: QueueState) -> None:
    counts, rank, procs = state.counts, state.columns[RANK], state.columns[PROCS]
    best = counts[HEAD]
    for place in range(counts[RANKED] if best >= 0 else 0, counts[QUEUED]):
        if procs[place] != VACANT and (best < 0 or rank[place] > rank[best]):
            best = place
    counts[HEAD], counts[RANKED] = best, counts[QUEUED]


@part
def _highest(state: QueueState, rules: Rules, now: float) -> None:
    """Find the highest value of an expression."""
    best, procs = -1, state.columns[PROCS]
    for place in range(state.counts[QUEUED]):
        if procs[place] == VACANT:
            continue
        state.scores[place] = score(state, rules, place, now)
        if best < 0 or state.scores[place] > state.scores[best]:
            best = place
    state.counts[HEAD] = best


@part
def _steepest(state: QueueState, now: float) -> None:
    """Compare only new jobs until the head's time is over or a new job has a higher value."""
    counts, columns = state.counts, state.columns
    slope, submit, procs = columns[RANK], columns[SUBMIT], columns[PROCS]
    if counts[HEAD] < 0 or now >= state.times[HEAD_UNTIL] or _newcomer_leads(state, now):
        best, highest = -1, -1.0
        for place in range(counts[QUEUED]):
            value = slope[place] * (now - submit[place])
            if value > highest and procs[place] != VACANT:
                best, highest = place, value
        counts[HEAD], counts[RANKED] = best, 0
        state.times[HEAD_UNTIL] = np.inf
    head = counts[HEAD]
    leading = slope[head] * (now - submit[head])
    until = state.times[HEAD_UNTIL]
    for place in range(counts[RANKED], counts[QUEUED]):
        faster = slope[place] - slope[head]
        if faster > 0.0 and procs[place] != VACANT:
            behind = leading * (1.0 - _NEAR) - slope[place] * (now - submit[place])
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
    for place in range(counts[RANKED], counts[QUEUED]):  # noqa: SIM110  (any() over a generator is not compiled)
        if slope[place] * (now - submit[place]) > leading:
            return True
    return False
