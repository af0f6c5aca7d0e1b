"""The scheduler of a node's operating system, as in Linux 2.4: one run queue, counters, epochs, goodness.

A process has a counter of ticks. Among those that may run, the one with the greatest goodness gets the processor:
its counter, a bonus on the processor where it last ran, one for going on, and 20 - nice; nothing once the counter
is used up. When all that may run have used up theirs, every process of the node gets half its rest and a new
quantum: sleepers save up. A process that wakes takes its last processor if that is idle, else the one that has
been idle longest, else the one whose process it exceeds most in goodness; who is displaced looks for another
processor in turn. That is how processes migrate within a node. Source: kernel/sched.c of Linux 2.4.18.
"""

from __future__ import annotations

from apples.simulation.cluster.classscheduler import note_running, note_stopped
from apples.simulation.cluster.jit import inlined, part
from apples.simulation.cluster.layout import (
    ACTS_FROM,
    ASLEEP,
    BROUGHT_THEN,
    C_BROUGHT,
    C_CHARGED,
    C_DECIDED,
    C_DUE,
    C_NEXT_TICK,
    C_PHASE,
    C_RUNNING,
    COMPUTING,
    COUNTER,
    CPU,
    DUE,
    J_REFILL,
    JOB,
    K_PROCESSORS,
    K_QUANTA,
    K_STAY,
    K_SWITCH,
    K_TICK,
    K_WIDTH,
    KIND,
    N_DUE,
    N_FIRST,
    N_INDEX,
    N_QUEUE,
    N_READY,
    N_SLOTS,
    NEVER,
    NEXT,
    NICE,
    NOBODY,
    OFF,
    ON_SINCE,
    OWES,
    PHASE,
    PROCESSOR,
    PROCESSOR_FIELDS,
    QUEUED,
    RANK,
    READY,
    READY_AT,
    REMAINING,
    RUNNING,
    STATE,
    Memory,
)
from apples.simulation.cluster.progress import account, act, miss, set_due, unmiss

_SYSTEM = 1000
_NEVER_CHOSEN = -1000


@inlined
def charge(m: Memory, c: int, t: int) -> None:
    """Take the ticks since the last look from the counter of the rank that runs on processor c."""
    if t < m[c + C_NEXT_TICK]:
        return
    if t < m[c + C_NEXT_TICK] + m[K_TICK]:
        # the usual case, without a division
        tick = m[c + C_CHARGED] + 1
        m[c + C_NEXT_TICK] += m[K_TICK]
    else:
        tick = (t - m[c + C_PHASE]) // m[K_TICK]
        m[c + C_NEXT_TICK] = m[c + C_PHASE] + (tick + 1) * m[K_TICK]
    p = m[c + C_RUNNING]
    if p >= 0 and m[p + KIND] == RANK:
        m[p + COUNTER] = max(0, m[p + COUNTER] - (tick - m[c + C_CHARGED]))
    m[c + C_CHARGED] = tick


@inlined
def goodness(m: Memory, p: int, c: int, current: int) -> int:
    """How much the process deserves processor c, on which `current` runs."""
    if m[p + KIND] != RANK:
        return _SYSTEM
    if m[p + COUNTER] == 0:
        return 0
    weight = m[p + COUNTER] + 20 - m[p + NICE]
    if m[p + PROCESSOR] == c:
        weight += m[K_STAY]
    if p == current:
        weight += 1
    return int(weight)


@inlined
def set_expiry(m: Memory, n: int, c: int) -> None:
    """When the quantum of the rank on processor c ends."""
    at = NEVER
    p = m[c + C_RUNNING]
    if p >= 0 and m[p + KIND] == RANK:
        at = m[c + C_PHASE] + (m[c + C_CHARGED] + m[p + COUNTER]) * m[K_TICK]
    m[m[c + C_DUE]] = at
    following = NEXT + m[n + N_INDEX]
    m[following] = min(m[following], at)


@part
def new_epoch(m: Memory, n: int, t: int) -> None:
    """Half the rest and a new quantum for everybody, asleep or not."""
    first = m[n + N_FIRST]
    end = first + m[K_PROCESSORS] * PROCESSOR_FIELDS
    for c in range(first, end, PROCESSOR_FIELDS):
        charge(m, c, t)
    occupant = n + N_DUE + m[K_WIDTH]
    for w in range(occupant + m[K_PROCESSORS] + 1, occupant + m[n + N_SLOTS]):
        p = m[w]
        if p >= 0 and m[p + KIND] == RANK:
            m[p + COUNTER] = (m[p + COUNTER] >> 1) + m[m[K_QUANTA] + m[p + NICE] + 20]
    for c in range(first, end, PROCESSOR_FIELDS):
        set_expiry(m, n, c)


@inlined
def add_ready(m: Memory, n: int, p: int) -> None:
    """A process waits for a processor and may run."""
    m[n + N_DUE + 2 * m[K_WIDTH] + m[n + N_READY]] = p
    m[n + N_READY] += 1


@inlined
def drop_ready(m: Memory, n: int, p: int) -> None:
    """It no longer waits, or may not run."""
    w = n + N_DUE + 2 * m[K_WIDTH]
    m[n + N_READY] -= 1
    last = w + m[n + N_READY]
    while m[w] != p:
        w += 1
    m[w] = m[last]


@inlined
def choose(m: Memory, n: int, c: int, t: int) -> int:
    """Who should have processor c; NOBODY when nobody wants it."""
    current = m[c + C_RUNNING]
    ready = n + N_DUE + 2 * m[K_WIDTH]
    while True:
        best, chosen, queued = _NEVER_CHOSEN, NOBODY, -1
        if current >= 0:
            best, chosen, queued = goodness(m, current, c, current), current, m[current + QUEUED]
        for w in range(ready, ready + m[n + N_READY]):
            p = m[w]
            weight = goodness(m, p, c, current)
            # of equals the one that came last: arrivals are put at the head of the queue
            if weight > best or (weight == best and m[p + QUEUED] > queued):
                best, chosen, queued = weight, p, m[p + QUEUED]
        if chosen < 0 or best != 0:
            return chosen
        new_epoch(m, n, t)


@inlined
def settle_in(m: Memory, c: int, p: int, before: int) -> None:
    """Rank p has processor c, having run on `before`: it owes misses, and goes on with its computation, if any.

    On another processor its whole working set is missing; on the same one others have thrown out as much as they
    brought in.
    """
    whole = m[m[p + JOB] + J_REFILL]
    if before != c:
        m[p + OWES] = whole
    else:
        m[p + OWES] = min(whole, m[p + OWES] + m[c + C_BROUGHT] - m[p + BROUGHT_THEN])
    if m[p + PHASE] == COMPUTING:
        miss(m, p, m[p + REMAINING])


@inlined
def put(m: Memory, n: int, c: int, p: int, t: int) -> None:
    """Process p gets processor c and acts when the switch is done."""
    drop_ready(m, n, p)
    before = m[p + PROCESSOR]
    m[p + STATE] = RUNNING
    m[p + PROCESSOR] = c
    m[p + ACTS_FROM] = t + m[K_SWITCH]
    m[p + ON_SINCE] = t
    m[c + C_RUNNING] = p
    if m[p + KIND] == RANK:
        settle_in(m, c, p, before)
        note_running(m, p, t)
    act(m, p)


@inlined
def take_off(m: Memory, p: int, t: int) -> None:
    """The process no longer has a processor, whose next user is not decided yet."""
    c = m[p + PROCESSOR]
    charge(m, c, t)
    account(m, p, t)
    unmiss(m, p)
    m[p + CPU] += t - m[p + ON_SINCE]
    m[p + BROUGHT_THEN] = m[c + C_BROUGHT]
    m[p + STATE] = READY
    m[m[p + DUE]] = NEVER
    m[c + C_RUNNING] = NOBODY
    if m[p + KIND] == RANK:
        note_stopped(m, p, t)


@part
def decide(m: Memory, n: int, c: int, t: int) -> int:
    """Give processor c to whoever deserves it; returns who lost it and still wants to run, else NOBODY."""
    charge(m, c, t)
    m[c + C_DECIDED] = t
    before = m[c + C_RUNNING]
    chosen = choose(m, n, c, t)
    displaced = NOBODY
    if chosen != before:
        if before >= 0:
            take_off(m, before, t)
            add_ready(m, n, before)
            displaced = before
        if chosen >= 0:
            put(m, n, c, chosen, t)
    set_expiry(m, n, c)
    return displaced


@inlined
def find_place(m: Memory, n: int, p: int, t: int) -> int:
    """The processor that a process which has become ready should ask for; NOBODY when none is worth it."""
    if m[m[p + PROCESSOR] + C_RUNNING] < 0:
        return int(m[p + PROCESSOR])
    first = m[n + N_FIRST]
    end = first + m[K_PROCESSORS] * PROCESSOR_FIELDS
    idle, idle_since = NOBODY, NEVER
    for c in range(first, end, PROCESSOR_FIELDS):
        if m[c + C_RUNNING] < 0 and m[c + C_DECIDED] < idle_since:
            idle, idle_since = c, m[c + C_DECIDED]
    if idle >= 0:
        return idle
    target, most = NOBODY, 0
    for c in range(first, end, PROCESSOR_FIELDS):
        charge(m, c, t)
        current = m[c + C_RUNNING]
        gain = goodness(m, p, c, current) - goodness(m, current, c, current)
        if gain > most:
            target, most = c, gain
    return target


@part
def make_room(m: Memory, n: int, p: int, t: int) -> None:
    """A process has become ready: it may displace another, which looks for a place in turn."""
    while p >= 0 and m[p + STATE] == READY and m[p + OFF] == 0:
        c = find_place(m, n, p, t)
        if c < 0:
            return
        p = decide(m, n, c, t)


@part
def wake(m: Memory, n: int, p: int, t: int) -> None:
    """A process becomes ready and comes into the run queue."""
    m[p + STATE] = READY
    m[n + N_QUEUE] += 1
    m[p + QUEUED] = m[n + N_QUEUE]
    m[m[p + DUE]] = NEVER
    if m[p + OFF] == 0:
        add_ready(m, n, p)
        make_room(m, n, p, t)


@inlined
def fall_asleep(m: Memory, n: int, p: int, t: int) -> None:
    """A running process blocks until its `READY_AT`; somebody else gets the processor."""
    c = m[p + PROCESSOR]
    take_off(m, p, t)
    m[p + STATE] = ASLEEP
    set_due(m, p, m[p + READY_AT])
    decide(m, n, c, t)
