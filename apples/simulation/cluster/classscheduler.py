"""Strict shares of jobs on a node, as the class scheduler of Tru64 Unix gives them (Yoo and Jette, section 2.2.2).

In every interval a job may use its share of the node's processor time; when that is used up, none of its
processes runs until the next interval. What a job does not use, no other job gets. Shares take effect at once, for
what is left of the interval.
"""

from __future__ import annotations

from apples.simulation.cluster.jit import part
from apples.simulation.cluster.layout import (
    K_INTERVAL,
    K_JOBS,
    K_MESSAGES,
    K_PROCESSORS,
    K_WIDTH,
    KIND,
    N_DUE,
    N_INDEX,
    N_INTERVAL_END,
    N_SHARE,
    N_SLOTS,
    NEVER,
    NEXT,
    NODE,
    RANK,
    S_BUDGET,
    S_EXHAUSTED,
    S_RUNNING,
    S_SHARE,
    S_SINCE,
    SHARE,
    SHARE_FIELDS,
    Memory,
)


@part
def settle(m: Memory, s: int, t: int) -> None:
    """Take what the job has used up to `t` from its budget, and say when it will be used up."""
    m[s + S_BUDGET] -= m[s + S_RUNNING] * (t - m[s + S_SINCE])
    m[s + S_SINCE] = t
    m[s + S_EXHAUSTED] = NEVER
    if m[s + S_RUNNING] > 0:
        # rounded up, so that the budget is used up when its end comes
        m[s + S_EXHAUSTED] = t + (max(0, m[s + S_BUDGET]) + m[s + S_RUNNING] - 1) // m[s + S_RUNNING]


@part
def note_running(m: Memory, p: int, t: int) -> None:
    """A rank has got a processor."""
    if m[K_MESSAGES] == 1:
        settle(m, m[p + SHARE], t)
        m[m[p + SHARE] + S_RUNNING] += 1
        settle(m, m[p + SHARE], t)
        set_next(m, m[p + NODE])


@part
def note_stopped(m: Memory, p: int, t: int) -> None:
    """A rank has lost its processor."""
    if m[K_MESSAGES] == 1:
        settle(m, m[p + SHARE], t)
        m[m[p + SHARE] + S_RUNNING] -= 1
        settle(m, m[p + SHARE], t)
        set_next(m, m[p + NODE])


@part
def set_next(m: Memory, n: int) -> None:
    """The class scheduler's next event on the node: an interval or a budget ends."""
    at = m[n + N_INTERVAL_END]
    first = m[K_PROCESSORS] + 1
    for w in range(n + N_DUE + m[K_WIDTH] + first, n + N_DUE + m[K_WIDTH] + m[n + N_SLOTS]):
        p = m[w]
        if p >= 0 and m[p + KIND] == RANK:
            at = min(at, m[m[p + SHARE] + S_EXHAUSTED])
    m[n + N_DUE + m[K_PROCESSORS]] = at
    following = NEXT + m[n + N_INDEX]
    m[following] = min(m[following], at)


@part
def new_budgets(m: Memory, n: int, t: int) -> None:
    """Every job's share of what is left of the node's interval."""
    left = m[n + N_INTERVAL_END] - t
    for s in range(m[n + N_SHARE], m[n + N_SHARE] + m[K_JOBS] * SHARE_FIELDS, SHARE_FIELDS):
        settle(m, s, t)
        m[s + S_BUDGET] = int(m[s + S_SHARE] * 1e-9 * left * m[K_PROCESSORS])
        settle(m, s, t)


@part
def next_interval(m: Memory, n: int) -> None:
    """The interval is over."""
    m[n + N_INTERVAL_END] += m[K_INTERVAL]
