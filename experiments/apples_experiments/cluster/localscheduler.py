"""The scheduler of a node's operating system, as in Linux 2.4: one run queue, counters, epochs, goodness.

A process has a counter of ticks. Of those that may run, the one with the greatest goodness gets the processor. Goodness
is its counter, plus a bonus on its last processor, one for continuing, and 20 - nice; it is 0 once the counter is used
up. When all have used up theirs, every process of the node gets half its remaining ticks and a new quantum: sleepers
save up. A process that wakes takes its last processor if that is idle, else the longest idle one, else the one whose
process it exceeds most in goodness. A displaced process looks for another processor in turn, and so migrates within
a node. Source: kernel/sched.c of Linux 2.4.18.
"""

from __future__ import annotations

from apples_experiments.cluster import layout as f
from apples_experiments.cluster.classscheduler import note_running, note_stopped
from apples_experiments.cluster.jit import inlined, part
from apples_experiments.cluster.layout import Memory
from apples_experiments.cluster.progress import account, act, miss, set_due, unmiss

_SYSTEM = 1000
_NEVER_CHOSEN = -1000


@inlined
def charge(m: Memory, c: int, t: int) -> None:
    """Subtract the ticks since the last call from the counter of the rank that runs on processor c."""
    if t < m[c + f.C_NEXT_TICK]:
        return
    if t < m[c + f.C_NEXT_TICK] + m[f.K_TICK]:
        # the usual case, without a division
        tick = m[c + f.C_CHARGED] + 1
        m[c + f.C_NEXT_TICK] += m[f.K_TICK]
    else:
        tick = (t - m[c + f.C_PHASE]) // m[f.K_TICK]
        m[c + f.C_NEXT_TICK] = m[c + f.C_PHASE] + (tick + 1) * m[f.K_TICK]
    p = m[c + f.C_RUNNING]
    if p >= 0 and m[p + f.KIND] == f.RANK:
        m[p + f.COUNTER] = max(0, m[p + f.COUNTER] - (tick - m[c + f.C_CHARGED]))
    m[c + f.C_CHARGED] = tick


@inlined
def goodness(m: Memory, p: int, c: int, current: int) -> int:
    """Return the goodness of the process for processor c, on which `current` runs."""
    if m[p + f.KIND] != f.RANK:
        return _SYSTEM
    if m[p + f.COUNTER] == 0:
        return 0
    weight = m[p + f.COUNTER] + 20 - m[p + f.NICE]
    if m[p + f.PROCESSOR] == c:
        weight += m[f.K_STAY]
    if p == current:
        weight += 1
    return int(weight)


@inlined
def set_expiry(m: Memory, n: int, c: int) -> None:
    """Set the end of the quantum of the rank on processor c."""
    at = f.NEVER
    p = m[c + f.C_RUNNING]
    if p >= 0 and m[p + f.KIND] == f.RANK:
        at = m[c + f.C_PHASE] + (m[c + f.C_CHARGED] + m[p + f.COUNTER]) * m[f.K_TICK]
    m[m[c + f.C_DUE]] = at
    following = f.NEXT + m[n + f.N_INDEX]
    m[following] = min(m[following], at)


@part
def new_epoch(m: Memory, n: int, t: int) -> None:
    """Give every process, asleep or not, half its remaining ticks and a new quantum."""
    first = m[n + f.N_FIRST]
    end = first + m[f.K_PROCESSORS] * f.PROCESSOR_FIELDS
    for c in range(first, end, f.PROCESSOR_FIELDS):
        charge(m, c, t)
    occupant = n + f.N_DUE + m[f.K_WIDTH]
    for w in range(occupant + m[f.K_PROCESSORS] + 1, occupant + m[n + f.N_SLOTS]):
        p = m[w]
        if p >= 0 and m[p + f.KIND] == f.RANK:
            m[p + f.COUNTER] = (m[p + f.COUNTER] >> 1) + m[m[f.K_QUANTA] + m[p + f.NICE] + 20]
    for c in range(first, end, f.PROCESSOR_FIELDS):
        set_expiry(m, n, c)


@inlined
def add_ready(m: Memory, n: int, p: int) -> None:
    """Add a process to the run queue."""
    m[n + f.N_DUE + 2 * m[f.K_WIDTH] + m[n + f.N_READY]] = p
    m[n + f.N_READY] += 1


@inlined
def drop_ready(m: Memory, n: int, p: int) -> None:
    """Remove a process from the run queue."""
    w = n + f.N_DUE + 2 * m[f.K_WIDTH]
    m[n + f.N_READY] -= 1
    last = w + m[n + f.N_READY]
    while m[w] != p:
        w += 1
    m[w] = m[last]


@inlined
def choose(m: Memory, n: int, c: int, t: int) -> int:
    """Return the process that should have processor c; NO_PROCESS if there is none."""
    current = m[c + f.C_RUNNING]
    ready = n + f.N_DUE + 2 * m[f.K_WIDTH]
    while True:
        best, chosen, queued = _NEVER_CHOSEN, f.NO_PROCESS, -1
        if current >= 0:
            best, chosen, queued = goodness(m, current, c, current), current, m[current + f.QUEUED]
        for w in range(ready, ready + m[n + f.N_READY]):
            p = m[w]
            weight = goodness(m, p, c, current)
            # of equals the one that came last: arrivals are put at the head of the queue
            if weight > best or (weight == best and m[p + f.QUEUED] > queued):
                best, chosen, queued = weight, p, m[p + f.QUEUED]
        if chosen < 0 or best != 0:
            return chosen
        new_epoch(m, n, t)


@inlined
def settle_in(m: Memory, c: int, p: int, before: int) -> None:
    """Put rank p on processor c after `before`: it owes cache misses and continues its computation, if any.

    On another processor its whole working set is missing; on the same one, as much as other ranks have brought in.
    """
    whole = m[m[p + f.JOB] + f.J_REFILL]
    if before != c:
        m[p + f.OWES] = whole
    else:
        m[p + f.OWES] = min(whole, m[p + f.OWES] + m[c + f.C_BROUGHT] - m[p + f.BROUGHT_THEN])
    if m[p + f.PHASE] == f.COMPUTING:
        miss(m, p, m[p + f.REMAINING])


@inlined
def put(m: Memory, n: int, c: int, p: int, t: int) -> None:
    """Give processor c to process p, which acts after the context switch."""
    drop_ready(m, n, p)
    before = m[p + f.PROCESSOR]
    m[p + f.STATE] = f.RUNNING
    m[p + f.PROCESSOR] = c
    m[p + f.ACTS_FROM] = t + m[f.K_SWITCH]
    m[p + f.ON_SINCE] = t
    m[c + f.C_RUNNING] = p
    if m[p + f.KIND] == f.RANK:
        settle_in(m, c, p, before)
        note_running(m, p, t)
    act(m, p)


@inlined
def take_off(m: Memory, p: int, t: int) -> None:
    """Take the processor from a process; its next user is not decided yet."""
    c = m[p + f.PROCESSOR]
    charge(m, c, t)
    account(m, p, t)
    unmiss(m, p)
    m[p + f.CPU] += t - m[p + f.ON_SINCE]
    m[p + f.BROUGHT_THEN] = m[c + f.C_BROUGHT]
    m[p + f.STATE] = f.READY
    m[m[p + f.DUE]] = f.NEVER
    m[c + f.C_RUNNING] = f.NO_PROCESS
    if m[p + f.KIND] == f.RANK:
        note_stopped(m, p, t)


@part
def decide(m: Memory, n: int, c: int, t: int) -> int:
    """Give processor c to the best process; return the displaced one if it can still run, else NO_PROCESS."""
    charge(m, c, t)
    m[c + f.C_DECIDED] = t
    before = m[c + f.C_RUNNING]
    chosen = choose(m, n, c, t)
    displaced = f.NO_PROCESS
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
    """Return the processor for which a ready process should compete; NO_PROCESS if there is none."""
    if m[m[p + f.PROCESSOR] + f.C_RUNNING] < 0:
        return int(m[p + f.PROCESSOR])
    first = m[n + f.N_FIRST]
    end = first + m[f.K_PROCESSORS] * f.PROCESSOR_FIELDS
    idle, idle_since = f.NO_PROCESS, f.NEVER
    for c in range(first, end, f.PROCESSOR_FIELDS):
        if m[c + f.C_RUNNING] < 0 and m[c + f.C_DECIDED] < idle_since:
            idle, idle_since = c, m[c + f.C_DECIDED]
    if idle >= 0:
        return idle
    target, most = f.NO_PROCESS, 0
    for c in range(first, end, f.PROCESSOR_FIELDS):
        charge(m, c, t)
        current = m[c + f.C_RUNNING]
        gain = goodness(m, p, c, current) - goodness(m, current, c, current)
        if gain > most:
            target, most = c, gain
    return target


@part
def make_room(m: Memory, n: int, p: int, t: int) -> None:
    """Let a ready process displace another, which looks for a processor in turn."""
    while p >= 0 and m[p + f.STATE] == f.READY and m[p + f.OFF] == 0:
        c = find_place(m, n, p, t)
        if c < 0:
            return
        p = decide(m, n, c, t)


@part
def wake(m: Memory, n: int, p: int, t: int) -> None:
    """Put a process that has become ready into the run queue."""
    m[p + f.STATE] = f.READY
    m[n + f.N_QUEUE] += 1
    m[p + f.QUEUED] = m[n + f.N_QUEUE]
    m[m[p + f.DUE]] = f.NEVER
    if m[p + f.OFF] == 0:
        add_ready(m, n, p)
        make_room(m, n, p, t)


@inlined
def fall_asleep(m: Memory, n: int, p: int, t: int) -> None:
    """Block a running process until its `READY_AT`, and give its processor away."""
    c = m[p + f.PROCESSOR]
    take_off(m, p, t)
    m[p + f.STATE] = f.ASLEEP
    set_due(m, p, m[p + f.READY_AT])
    decide(m, n, c, t)
