"""What happens to all ranks of a node at once: the node manager's orders, and the class scheduler's shares."""

from __future__ import annotations

from apples.simulation.cluster.classscheduler import new_budgets, next_interval, set_next, settle
from apples.simulation.cluster.jit import part
from apples.simulation.cluster.layout import (
    ACTS_FROM,
    ASLEEP,
    BARRED,
    BEGIN,
    C_RUNNING,
    DUE,
    HELD,
    HELD_SINCE,
    HELD_WAITING,
    K_PROCESSORS,
    K_WIDTH,
    KIND,
    N_DUE,
    N_FIRST,
    N_INTERVAL_END,
    N_SLOTS,
    NEVER,
    NICE,
    OFF,
    PHASE,
    POLLS,
    PROCESSOR_FIELDS,
    RANK,
    READY,
    READY_AT,
    RUNNING,
    S_BUDGET,
    SHARE,
    STATE,
    WAITING,
    WAITING_SINCE,
    WANTS_NICE,
    WANTS_POLLS,
    WANTS_RUN,
    Memory,
)
from apples.simulation.cluster.localscheduler import add_ready, decide, drop_ready, make_room, take_off, wake
from apples.simulation.cluster.progress import account, act, set_due, tell_status


@part
def hold(m: Memory, n: int, p: int, t: int) -> None:
    """The policy stops a rank."""
    if m[p + STATE] == RUNNING:
        take_off(m, p, t)
    elif m[p + STATE] == ASLEEP:
        m[m[p + DUE]] = NEVER
    elif m[p + OFF] == 0:
        drop_ready(m, n, p)
    m[p + OFF] |= HELD
    m[p + HELD_SINCE] = t


@part
def release(m: Memory, n: int, p: int, t: int) -> None:
    """The policy lets a rank go on; if it sleeps it does so until its messages are there."""
    m[p + OFF] &= ~HELD
    if m[p + WAITING_SINCE] >= 0:
        m[p + HELD_WAITING] += t - m[p + HELD_SINCE]
    if m[p + STATE] == READY or (m[p + STATE] == ASLEEP and m[p + READY_AT] <= t):
        wake(m, n, p, t)
    elif m[p + STATE] == ASLEEP:
        set_due(m, p, m[p + READY_AT])


@part
def carry_out(m: Memory, n: int, t: int) -> None:
    """Do with every rank of the node what its policy wants: first who stops, then who goes on."""
    occupant = n + N_DUE + m[K_WIDTH]
    first, end = occupant + m[K_PROCESSORS] + 1, occupant + m[n + N_SLOTS]
    for w in range(first, end):
        p = m[w]
        if p < 0 or m[p + KIND] != RANK:
            continue
        m[p + NICE] = m[p + WANTS_NICE]
        if m[p + WANTS_POLLS] != m[p + POLLS]:
            m[p + POLLS] = m[p + WANTS_POLLS]
            if m[p + STATE] == RUNNING:
                account(m, p, t)
                m[p + ACTS_FROM] = max(m[p + ACTS_FROM], t)
                act(m, p)
        if m[p + WANTS_RUN] == 0 and m[p + OFF] & HELD == 0:
            hold(m, n, p, t)
    for w in range(first, end):
        p = m[w]
        if p < 0 or m[p + KIND] != RANK:
            continue
        if m[p + WANTS_RUN] == 1 and m[p + OFF] & HELD:
            release(m, n, p, t)
        elif m[p + NICE] < 0 and m[p + STATE] == READY:
            make_room(m, n, p, t)
    fill_idle(m, n, t)


@part
def fill_idle(m: Memory, n: int, t: int) -> None:
    """Processors that have nobody look for somebody."""
    first = m[n + N_FIRST]
    for c in range(first, first + m[K_PROCESSORS] * PROCESSOR_FIELDS, PROCESSOR_FIELDS):
        if m[c + C_RUNNING] < 0:
            decide(m, n, c, t)


@part
def class_event(m: Memory, n: int, t: int) -> None:
    """The class scheduler's interval is over, or a job has used up its share."""
    if t >= m[n + N_INTERVAL_END]:
        next_interval(m, n)
        new_budgets(m, n, t)
    set_barred(m, n, t)
    set_next(m, n)


@part
def set_barred(m: Memory, n: int, t: int) -> None:
    """Stop ranks of jobs without budget, let those of the others run again."""
    occupant = n + N_DUE + m[K_WIDTH]
    for w in range(occupant + m[K_PROCESSORS] + 1, occupant + m[n + N_SLOTS]):
        p = m[w]
        if p < 0 or m[p + KIND] != RANK:
            continue
        settle(m, m[p + SHARE], t)
        empty = m[m[p + SHARE] + S_BUDGET] <= 0
        if empty and m[p + OFF] & BARRED == 0:
            if m[p + STATE] == RUNNING:
                take_off(m, p, t)
            elif m[p + STATE] == READY and m[p + OFF] == 0:
                drop_ready(m, n, p)
            m[p + OFF] |= BARRED
        elif not empty and m[p + OFF] & BARRED:
            m[p + OFF] &= ~BARRED
            if m[p + STATE] == READY and m[p + OFF] == 0:
                add_ready(m, n, p)
                make_room(m, n, p, t)
    fill_idle(m, n, t)


@part
def tell_changes(m: Memory, n: int, t: int) -> None:
    """Another job has been scheduled: ranks that run, and wait, tell the others; those that do not run do so later."""
    occupant = n + N_DUE + m[K_WIDTH]
    for w in range(occupant + m[K_PROCESSORS] + 1, occupant + m[n + N_SLOTS]):
        p = m[w]
        if p < 0 or m[p + KIND] != RANK or m[p + STATE] != RUNNING:
            continue
        if m[p + PHASE] == WAITING or (m[p + WAITING_SINCE] >= 0 and m[p + BEGIN] > t):
            tell_status(m, p, max(t, m[p + ACTS_FROM]))
