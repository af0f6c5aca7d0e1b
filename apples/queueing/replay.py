"""Events of a trace or of a predicted future: submissions at given times, ends after run times, passes of the queue.

This compiled code includes the pass of the live queue. Events at equal times have one of two orders. *Batch*: at each
instant all ends, then all submissions, then one pass. *Pyss*: one event at a time, submissions before ends, ends in
order of start. A job whose expected end is now counts as ended. A submission causes a pass only if the new job fits in
the free processors. Published schedules use the second order.
"""

from typing import NamedTuple

import numpy as np

from apples.queueing.jit import compiled, part, unit
from apples.queueing.kernel import make_pass
from apples.queueing.running import leave
from apples.queueing.state import FREE, STARTED, STARTS, Floats, Ints, QueueState, Rows, Rules
from apples.queueing.waiting import enqueue

#: Indices into `ReplayState.cursor`. NEXT: next job to submit. HEAP: running jobs. SEQUENCE: starts so far.
#: ENDED: ends since the caller set it to 0. STOPPED: 1 if the ends of this instant are handled already (stepwise).
#: PASSES: passes so far.
NEXT, HEAP, SEQUENCE, ENDED, STOPPED, PASSES, CURSORS = 0, 1, 2, 3, 4, 5, 6

#: True values of a job. run: s. end: set at the start. sequence: order of start. released: 1 if its processors were
#: released before its event (pyss).
TRUTH = np.dtype(
    [
        ("submit", np.float64),
        ("run", np.float64),
        ("end", np.float64),
        ("sequence", np.int64),
        ("released", np.int64),
    ]
)


class ReplayState(NamedTuple):
    """State of a replay.

    jobs: `TRUTH` records in order of submission.
    heap: running slots, earliest end first.
    ended: slots in order of end.
    """

    jobs: Rows
    heap: Ints
    ended: Ints
    cursor: Ints


def make_world(submit: Floats, run: Floats) -> ReplayState:
    """Return the state before the first event. `submit`, `run`: s, in order of submission."""
    jobs = np.zeros(len(submit), TRUTH)
    jobs["submit"], jobs["run"], jobs["end"] = submit, run, np.inf
    return ReplayState(
        jobs=jobs,
        heap=np.zeros(len(submit), np.int64),
        ended=np.zeros(len(submit), np.int64),
        cursor=np.zeros(CURSORS, np.int64),
    )


@compiled
def advance(state: QueueState, rules: Rules, world: ReplayState, until: int, stepwise: bool) -> bool:
    """Continue in batch order until `until` jobs are submitted; if there are fewer, until all jobs have ended.

    With `stepwise`, stop at every instant of submissions when its ends are handled, and return True. The caller may
    then set the assumed run times of the jobs submitted at that instant, before it calls again.
    """
    cursor, jobs = world.cursor, len(world.jobs)
    while cursor[NEXT] < min(until, jobs) or (until > jobs and cursor[HEAP] > 0):
        now = _next_time(world)
        if cursor[STOPPED] == 0:
            _end_all(state, world, now)
            if stepwise and cursor[NEXT] < jobs and world.jobs[cursor[NEXT]]["submit"] == now:
                cursor[STOPPED] = 1
                return True
        cursor[STOPPED] = 0
        while cursor[NEXT] < jobs and world.jobs[cursor[NEXT]]["submit"] == now:
            enqueue(state, rules, cursor[NEXT])
            cursor[NEXT] += 1
        _pass(state, rules, world, now)
    return False


@compiled
def advance_pyss(state: QueueState, rules: Rules, world: ReplayState, until: int) -> None:
    """Continue as `advance`, in pyss order."""
    cursor, jobs = world.cursor, len(world.jobs)
    while cursor[NEXT] < min(until, jobs) or (until > jobs and cursor[HEAP] > 0):
        now = _next_time(world)
        gone = _gone_now(state, world, now)
        while cursor[NEXT] < jobs and world.jobs[cursor[NEXT]]["submit"] == now:
            slot = cursor[NEXT]
            cursor[NEXT] += 1
            enqueue(state, rules, slot)
            if state.jobs[slot]["procs"] <= state.counts[FREE]:
                _pass(state, rules, world, now)
        for index in range(gone):
            slot = world.ended[index]
            if world.jobs[slot]["released"] == 0:
                leave(state, slot)
            _pass(state, rules, world, now)


@part
def _gone_now(state: QueueState, world: ReplayState, now: float) -> int:
    """Put jobs that end now into `ended`, in order of start. Jobs that are expected to end now are released at once."""
    gone = 0
    while world.cursor[HEAP] > 0 and world.jobs[world.heap[0]]["end"] == now:
        slot = _pop(world)
        if state.jobs[slot]["expected"] <= now:
            world.jobs[slot]["released"] = 1
            leave(state, slot)
        world.ended[gone] = slot
        gone += 1
    return gone


@unit
def _pass(state: QueueState, rules: Rules, world: ReplayState, now: float) -> None:
    world.cursor[PASSES] += 1
    make_pass(state, rules, now)
    for index in range(state.counts[STARTED]):
        slot = state.lists[STARTS, index]
        world.jobs[slot]["end"] = now + world.jobs[slot]["run"]
        world.jobs[slot]["sequence"] = world.cursor[SEQUENCE]
        world.cursor[SEQUENCE] += 1
        _push(world, slot)


@part
def _end_all(state: QueueState, world: ReplayState, now: float) -> None:
    cursor = world.cursor
    while cursor[HEAP] > 0 and world.jobs[world.heap[0]]["end"] <= now:
        slot = _pop(world)
        leave(state, slot)
        world.ended[cursor[ENDED]] = slot
        cursor[ENDED] += 1


@part
def _next_time(world: ReplayState) -> float:
    cursor = world.cursor
    ends = world.jobs[world.heap[0]]["end"] if cursor[HEAP] > 0 else np.inf
    comes = world.jobs[cursor[NEXT]]["submit"] if cursor[NEXT] < len(world.jobs) else np.inf
    return float(min(ends, comes))


@part
def _before(world: ReplayState, one: int, other: int) -> bool:
    """Return whether the first job ends earlier; with equal ends, whether it started earlier."""
    if world.jobs[one]["end"] != world.jobs[other]["end"]:
        return bool(world.jobs[one]["end"] < world.jobs[other]["end"])
    return bool(world.jobs[one]["sequence"] < world.jobs[other]["sequence"])


@part
def _push(world: ReplayState, slot: int) -> None:
    heap, at = world.heap, world.cursor[HEAP]
    world.cursor[HEAP] += 1
    while at > 0:
        above = (at - 1) // 2
        if not _before(world, slot, heap[above]):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = slot


@part
def _pop(world: ReplayState) -> int:
    heap = world.heap
    top = heap[0]
    world.cursor[HEAP] -= 1
    size = world.cursor[HEAP]
    last, at = heap[size], 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and _before(world, heap[below + 1], heap[below]):
            below += 1
        if not _before(world, heap[below], last):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = last
    return int(top)
