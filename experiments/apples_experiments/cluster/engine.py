"""The simulation's loop: nodes advance together in windows that no message can cross.

A message takes at least `K_LOOKAHEAD`, so events of one node within a window of that length reach no other node
before the window's end. Within it every node runs its own events in order of time, and the order of nodes does
not matter. Order of events of one node at the same nanosecond: ends of quanta by processor, class scheduler, processes
by slot. `run` returns early when a rank has ended or has something to report to its policy.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from apples_experiments.cluster import layout as f
from apples_experiments.cluster.classscheduler import new_budgets, set_next
from apples_experiments.cluster.jit import compiled, inlined, part, words
from apples_experiments.cluster.layout import Memory
from apples_experiments.cluster.localscheduler import decide, fall_asleep, make_room, wake
from apples_experiments.cluster.lockstep import leap
from apples_experiments.cluster.nodewide import carry_out, class_event, set_barred, tell_changes
from apples_experiments.cluster.progress import (
    account,
    begin_next,
    communicates,
    enter,
    expect,
    length,
    may_report,
    missed_by,
    mix,
    set_due,
    wait_on,
)


@part
def finish(m: Memory, n: int, p: int, t: int) -> None:
    """End a rank."""
    m[p + f.READY_AT] = f.NEVER
    fall_asleep(m, n, p, t)
    m[p + f.STATE] = f.GONE
    m[p + f.FINISHED] = t
    m[m[p + f.DUE] + m[f.K_WIDTH]] = f.NO_PROCESS
    m[m[p + f.JOB] + f.J_LEFT] -= 1
    m[f.K_ENDED] += 1


@part
def report(m: Memory, n: int, p: int, t: int) -> None:
    """Handle a message for a job that is not scheduled: if its sender is scheduled, its policy gets an event."""
    m[p + f.KNOCK] = f.NEVER
    if may_report(m, p, t):
        m[n + f.N_REQUEST] = p
        m[n + f.N_REQUEST_AT] = t
        m[n + f.N_FROZEN] = 1
        m[f.K_REPORTS] += 1
    go_on(m, p)


@part
def go_on(m: Memory, p: int) -> None:
    """Set the next event of a running rank after one that does not change its activity."""
    if m[p + f.PHASE] == f.COMPUTING:
        expect(m, p, m[p + f.BEGIN] + m[p + f.REMAINING])
    else:
        wait_on(m, p)


@inlined
def comes_of_itself(m: Memory, p: int, t: int) -> bool:
    """Return whether a running rank ends its computation, or its spinning, at `t`."""
    if m[p + f.PHASE] == f.COMPUTING:
        return bool(t >= m[p + f.BEGIN] + m[p + f.REMAINING])
    return bool(m[p + f.POLLS] == 0 and t >= max(m[p + f.ACTS_FROM], m[p + f.SPIN_UNTIL]))


@inlined
def rank_event(m: Memory, n: int, p: int, t: int) -> None:
    """Handle the arrival of messages for a sleeping rank, or the end of its computation or spinning."""
    if m[p + f.STATE] == f.ASLEEP:
        wake(m, n, p, t)
    elif m[f.K_MESSAGES] == 1 and m[p + f.KNOCK] <= t and m[m[p + f.SHARE] + f.S_SCHEDULED] == 0:
        report(m, n, p, t)
    elif m[f.K_MESSAGES] == 1 and not comes_of_itself(m, p, t):
        # it was to report a message, but its job has been scheduled meanwhile
        go_on(m, p)
    elif m[p + f.PHASE] == f.WAITING:
        fall_asleep(m, n, p, t)
    else:
        account(m, p, t)
        if m[p + f.ITERATION] >= m[p + f.ITERATIONS]:
            finish(m, n, p, t)
        elif communicates(m, p):
            enter(m, p, t)
        else:
            m[p + f.ACTS_FROM] = t
            begin_next(m, p, t)


@part
def system_event(m: Memory, n: int, p: int, t: int) -> None:
    """Handle a daemon that wakes or sleeps, or a node manager that has decided."""
    if m[p + f.STATE] == f.ASLEEP:
        m[p + f.REMAINING] = m[p + f.COMPUTE]
        wake(m, n, p, t)
        return
    m[p + f.READY_AT] = f.NEVER
    if m[p + f.KIND] == f.DAEMON:
        m[n + f.N_RANDOM] += 1
        m[p + f.READY_AT] = t + 1 + int(-math.log(1.0 - mix(m[n + f.N_RANDOM])) * m[f.K_NOISE_MEAN])
    fall_asleep(m, n, p, t)
    if m[p + f.KIND] != f.DAEMON and m[n + f.N_ORDERS] == 1:
        m[n + f.N_ORDERS] = 0
        carry_out(m, n, t)


@inlined
def earliest(m: Memory, first: int, end: int) -> int:
    """Return the least value of a row of next events; unused entries of its cache lines are NEVER."""
    t = f.NEVER
    for w in range(first, end, 8):
        a = min(min(m[w], m[w + 1]), min(m[w + 2], m[w + 3]))
        b = min(min(m[w + 4], m[w + 5]), min(m[w + 6], m[w + 7]))
        t = min(t, min(a, b))
    return int(t)


@part
def node_until(m: Memory, n: int, end: int) -> None:
    """Run the node's events up to and including `end`."""
    processors, width, due = m[f.K_PROCESSORS], m[f.K_WIDTH], n + f.N_DUE
    following = f.NEXT + m[n + f.N_INDEX]
    t, stop = m[following], due + m[n + f.N_SLOTS]
    while t <= end:
        at = due
        while at < stop and m[at] != t:
            at += 1
        if at == stop:
            # the event noted as the node's next one has been postponed
            t = m[following] = earliest(m, due, stop)
            continue
        if at < due + processors:
            c = m[n + f.N_FIRST] + (at - due) * f.PROCESSOR_FIELDS
            make_room(m, n, decide(m, n, c, t), t)
        elif at == due + processors:
            class_event(m, n, t)
        elif at < due + processors + 3:
            system_event(m, n, m[at + width], t)
        else:
            rank_event(m, n, m[at + width], t)
            if m[n + f.N_FROZEN] == 1:
                m[following] = f.NEVER
                return
        t = m[following] = earliest(m, due, stop)


@compiled
def run(memory: Memory, until: int) -> int:
    """Advance to `until`, or to the end of the window in which a rank ended or reported; return that time."""
    m = words(memory)
    nodes, stride = m[f.K_NODES], m[f.K_STRIDE]
    while True:
        t = m[f.NEXT]
        for i in range(f.NEXT + 1, f.NEXT + nodes):
            t = min(t, m[i])
        if t > until:
            return until
        if t >= m[f.K_TRY] and m[f.K_MESSAGES] == 0 and leap(m, t, until):
            continue
        end = min(t + m[f.K_LOOKAHEAD] - 1, until)
        for i in range(nodes):
            if m[f.NEXT + i] <= end:
                node_until(m, m[f.K_NODE] + i * stride, end)
        if m[f.K_REPORTS] > 0 or m[f.K_ENDED] > 0:
            return int(end)


@compiled
def wake_managers(memory: Memory, at: NDArray[np.int64], work: int) -> None:
    """Send each node's manager its heartbeat at its own time; it carries out the orders after its work."""
    m = words(memory)
    stride = m[f.K_STRIDE]
    for i in range(m[f.K_NODES]):
        n, p = m[f.K_NODE] + i * stride, m[f.K_PROCESS] + 2 * i * f.PROCESS_FIELDS
        m[n + f.N_ORDERS] = 1
        # a manager that is still at work carries out the new orders with the old
        if m[p + f.STATE] == f.ASLEEP:
            m[p + f.COMPUTE] = work
            set_due(m, p, at[i])


@compiled
def obey(memory: Memory, n: int, t: int) -> None:
    """Carry out a node's orders at once, without its node manager."""
    m = words(memory)
    carry_out(m, n, t)


@compiled
def share_out(memory: Memory, n: int, t: int) -> None:
    """Apply new shares of the node's jobs to the remaining interval."""
    m = words(memory)
    new_budgets(m, n, t)
    set_barred(m, n, t)
    tell_changes(m, n, t)
    set_next(m, n)


@compiled
def thaw(memory: Memory, n: int, t: int) -> None:
    """Continue a node after its policy has answered."""
    m = words(memory)
    m[n + f.N_FROZEN] = 0
    m[f.K_REPORTS] -= 1
    m[f.NEXT + m[n + f.N_INDEX]] = min(m[f.NEXT + m[n + f.N_INDEX]], t)


@compiled
def prepare(memory: Memory, job: int) -> None:
    """Set the first computations of a job that is about to start."""
    m = words(memory)
    first = m[f.K_MEMBERS] + m[job + f.J_FIRST]
    for i in range(first, first + m[job + f.J_RANKS]):
        m[m[i] + f.REMAINING] = length(m, m[i])


@compiled
def read(memory: Memory, now: int, into: NDArray[np.int64]) -> None:
    """Read the monitors' counts at `now` into int64[processes, 3]: t_cpu, t_comm, c_comm."""
    m = words(memory)
    p = m[f.K_PROCESS]
    for i in range(len(into)):
        t_cpu, t_comm, c_comm = m[p + f.T_CPU], m[p + f.T_COMM], m[p + f.C_COMM]
        begun = m[p + f.PHASE] == f.COMPUTING and (m[p + f.WAITING_SINCE] < 0 or m[p + f.BEGIN] <= now)
        if m[p + f.WAITING_SINCE] >= 0:
            seen = m[p + f.HELD_SINCE] if m[p + f.OFF] & f.HELD else now
            t_comm += (m[p + f.BEGIN] if begun else seen) - m[p + f.WAITING_SINCE] - m[p + f.HELD_WAITING]
            c_comm += 1 if begun else 0
        if begun and m[p + f.STATE] == f.RUNNING and m[p + f.BEGIN] < now:
            t_cpu += now - m[p + f.BEGIN] - missed_by(m, p, now)
        into[i, 0], into[i, 1], into[i, 2] = t_cpu, t_comm, c_comm
        p += f.PROCESS_FIELDS
