"""The list of waiting jobs: adding, removing and compacting. List and columns change together.

A job that leaves makes its place vacant. The list is compacted when enough places are vacant, so that removal costs the
same in a long queue as in a short one.
"""

import numpy as np

from apples.queueing.jit import part, unit
from apples.queueing.state import (
    CHECKED,
    COLUMNS,
    HEAD,
    PROCS,
    QUEUE,
    QUEUED,
    RANK,
    RANKED,
    SPAN,
    SUBMIT,
    VACANT,
    WAITING,
    WFP,
    QueueState,
    Rules,
)

_FEW = 16


@part
def enqueue(state: QueueState, rules: Rules, slot: int) -> None:
    """Add a submitted job, whose row must be filled."""
    if state.counts[QUEUED] == len(state.jobs):
        compact(state)
    position, job = state.counts[QUEUED], state.jobs[slot]
    state.counts[QUEUED] += 1
    state.counts[WAITING] += 1
    state.lists[QUEUE, position] = slot
    job["waiting"], job["backfilled"] = 1, 0
    job["start"], job["reservation"] = np.nan, np.inf
    columns = state.columns
    columns[PROCS, position], columns[SPAN, position] = job["procs"], job["backfill_s"]
    columns[SUBMIT, position] = job["submit"]
    if rules.priority == WFP:
        columns[RANK, position] = np.cbrt(float(job["procs"])) / job["priority_s"]
    else:
        columns[RANK, position] = -job["priority_s"]


@part
def vacate(state: QueueState, position: int) -> None:
    """Remove the job at this place from the queue."""
    counts = state.counts
    state.jobs[state.lists[QUEUE, position]]["waiting"] = 0
    state.columns[PROCS, position] = VACANT
    counts[WAITING] -= 1
    if counts[HEAD] == position:
        counts[HEAD] = -1


@part
def compact_if_sparse(state: QueueState) -> None:
    """Compact the list if more than a quarter of the places are vacant."""
    vacant = state.counts[QUEUED] - state.counts[WAITING]
    if vacant > _FEW and 4 * vacant > state.counts[QUEUED]:
        compact(state)


@unit
def compact(state: QueueState) -> None:
    """Remove all vacant places, keeping the order."""
    counts, queue, columns = state.counts, state.lists[QUEUE], state.columns
    if counts[QUEUED] == counts[WAITING]:
        return
    head, ranked, remaining = counts[HEAD], counts[RANKED], 0
    for position in range(counts[QUEUED]):
        if position == ranked:
            counts[RANKED] = remaining
        if columns[PROCS, position] == VACANT:
            continue
        if position == head:
            counts[HEAD] = remaining
        if position != remaining:
            queue[remaining] = queue[position]
            for column in range(COLUMNS):
                columns[column, remaining] = columns[column, position]
        remaining += 1
    if ranked == counts[QUEUED]:
        counts[RANKED] = remaining
    counts[QUEUED], counts[CHECKED] = remaining, 0
