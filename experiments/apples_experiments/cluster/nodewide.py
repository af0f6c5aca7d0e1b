"""Events of all ranks of a node at once: the node manager's orders, and the class scheduler's shares."""

from __future__ import annotations

from apples_experiments.cluster import layout as f
from apples_experiments.cluster.classscheduler import new_budgets, next_interval, set_next, settle
from apples_experiments.cluster.jit import part
from apples_experiments.cluster.layout import Memory
from apples_experiments.cluster.localscheduler import add_ready, decide, drop_ready, make_room, take_off, wake
from apples_experiments.cluster.progress import account, act, set_due, tell_status


@part
def hold(m: Memory, n: int, p: int, t: int) -> None:
    """Stop a rank, as its policy orders."""
    if m[p + f.STATE] == f.RUNNING:
        take_off(m, p, t)
    elif m[p + f.STATE] == f.ASLEEP:
        m[m[p + f.DUE]] = f.NEVER
    elif m[p + f.OFF] == 0:
        drop_ready(m, n, p)
    m[p + f.OFF] |= f.HELD
    m[p + f.HELD_SINCE] = t


@part
def release(m: Memory, n: int, p: int, t: int) -> None:
    """Resume a rank, as its policy orders; if it sleeps, it sleeps until its messages have arrived."""
    m[p + f.OFF] &= ~f.HELD
    if m[p + f.WAITING_SINCE] >= 0:
        m[p + f.HELD_WAITING] += t - m[p + f.HELD_SINCE]
    if m[p + f.STATE] == f.READY or (m[p + f.STATE] == f.ASLEEP and m[p + f.READY_AT] <= t):
        wake(m, n, p, t)
    elif m[p + f.STATE] == f.ASLEEP:
        set_due(m, p, m[p + f.READY_AT])


@part
def carry_out(m: Memory, n: int, t: int) -> None:
    """Bring every rank of the node into its wanted state; stops come before resumes."""
    occupant = n + f.N_DUE + m[f.K_WIDTH]
    first, end = occupant + m[f.K_PROCESSORS] + 1, occupant + m[n + f.N_SLOTS]
    for w in range(first, end):
        p = m[w]
        if p < 0 or m[p + f.KIND] != f.RANK:
            continue
        m[p + f.NICE] = m[p + f.WANTS_NICE]
        if m[p + f.WANTS_POLLS] != m[p + f.POLLS]:
            m[p + f.POLLS] = m[p + f.WANTS_POLLS]
            if m[p + f.STATE] == f.RUNNING:
                account(m, p, t)
                m[p + f.ACTS_FROM] = max(m[p + f.ACTS_FROM], t)
                act(m, p)
        if m[p + f.WANTS_RUN] == 0 and m[p + f.OFF] & f.HELD == 0:
            hold(m, n, p, t)
    for w in range(first, end):
        p = m[w]
        if p < 0 or m[p + f.KIND] != f.RANK:
            continue
        if m[p + f.WANTS_RUN] == 1 and m[p + f.OFF] & f.HELD:
            release(m, n, p, t)
        elif m[p + f.NICE] < 0 and m[p + f.STATE] == f.READY:
            make_room(m, n, p, t)
    fill_idle(m, n, t)


@part
def fill_idle(m: Memory, n: int, t: int) -> None:
    """Give idle processors to waiting processes."""
    first = m[n + f.N_FIRST]
    for c in range(first, first + m[f.K_PROCESSORS] * f.PROCESSOR_FIELDS, f.PROCESSOR_FIELDS):
        if m[c + f.C_RUNNING] < 0:
            decide(m, n, c, t)


@part
def class_event(m: Memory, n: int, t: int) -> None:
    """Handle the end of the class scheduler's interval, or of a job's budget."""
    if t >= m[n + f.N_INTERVAL_END]:
        next_interval(m, n)
        new_budgets(m, n, t)
    set_barred(m, n, t)
    set_next(m, n)


@part
def set_barred(m: Memory, n: int, t: int) -> None:
    """Stop ranks of jobs without budget, and let the others run again."""
    occupant = n + f.N_DUE + m[f.K_WIDTH]
    for w in range(occupant + m[f.K_PROCESSORS] + 1, occupant + m[n + f.N_SLOTS]):
        p = m[w]
        if p < 0 or m[p + f.KIND] != f.RANK:
            continue
        settle(m, m[p + f.SHARE], t)
        empty = m[m[p + f.SHARE] + f.S_BUDGET] <= 0
        if empty and m[p + f.OFF] & f.BARRED == 0:
            if m[p + f.STATE] == f.RUNNING:
                take_off(m, p, t)
            elif m[p + f.STATE] == f.READY and m[p + f.OFF] == 0:
                drop_ready(m, n, p)
            m[p + f.OFF] |= f.BARRED
        elif not empty and m[p + f.OFF] & f.BARRED:
            m[p + f.OFF] &= ~f.BARRED
            if m[p + f.STATE] == f.READY and m[p + f.OFF] == 0:
                add_ready(m, n, p)
                make_room(m, n, p, t)
    fill_idle(m, n, t)


@part
def tell_changes(m: Memory, n: int, t: int) -> None:
    """Send the new status after a switch of the scheduled job: running and waiting ranks now, others later."""
    occupant = n + f.N_DUE + m[f.K_WIDTH]
    for w in range(occupant + m[f.K_PROCESSORS] + 1, occupant + m[n + f.N_SLOTS]):
        p = m[w]
        if p < 0 or m[p + f.KIND] != f.RANK or m[p + f.STATE] != f.RUNNING:
            continue
        if m[p + f.PHASE] == f.WAITING or (m[p + f.WAITING_SINCE] >= 0 and m[p + f.BEGIN] > t):
            tell_status(m, p, max(t, m[p + f.ACTS_FROM]))
