"""Strict shares of jobs on a node, like the class scheduler of Tru64 Unix (Yoo and Jette, section 2.2.2).

In every interval a job may use its share of the node's processor time. After that, none of its processes runs until
the next interval. Unused time is not given to other jobs. New shares apply at once, to the remaining interval.
"""

from __future__ import annotations

from apples_experiments.cluster import layout as f
from apples_experiments.cluster.jit import part
from apples_experiments.cluster.layout import Memory


@part
def settle(m: Memory, s: int, t: int) -> None:
    """Subtract the job's use up to `t` from its budget, and compute when the budget will be exhausted."""
    m[s + f.S_BUDGET] -= m[s + f.S_RUNNING] * (t - m[s + f.S_SINCE])
    m[s + f.S_SINCE] = t
    m[s + f.S_EXHAUSTED] = f.NEVER
    if m[s + f.S_RUNNING] > 0:
        # rounded up, so that the budget is exhausted at its end
        m[s + f.S_EXHAUSTED] = t + (max(0, m[s + f.S_BUDGET]) + m[s + f.S_RUNNING] - 1) // m[s + f.S_RUNNING]


@part
def note_running(m: Memory, p: int, t: int) -> None:
    """Account for a rank that has got a processor."""
    if m[f.K_MESSAGES] == 1:
        settle(m, m[p + f.SHARE], t)
        m[m[p + f.SHARE] + f.S_RUNNING] += 1
        settle(m, m[p + f.SHARE], t)
        set_next(m, m[p + f.NODE])


@part
def note_stopped(m: Memory, p: int, t: int) -> None:
    """Account for a rank that has lost its processor."""
    if m[f.K_MESSAGES] == 1:
        settle(m, m[p + f.SHARE], t)
        m[m[p + f.SHARE] + f.S_RUNNING] -= 1
        settle(m, m[p + f.SHARE], t)
        set_next(m, m[p + f.NODE])


@part
def set_next(m: Memory, n: int) -> None:
    """Set the class scheduler's next event on the node: the end of the interval or of a budget."""
    at = m[n + f.N_INTERVAL_END]
    first = m[f.K_PROCESSORS] + 1
    for w in range(n + f.N_DUE + m[f.K_WIDTH] + first, n + f.N_DUE + m[f.K_WIDTH] + m[n + f.N_SLOTS]):
        p = m[w]
        if p >= 0 and m[p + f.KIND] == f.RANK:
            at = min(at, m[m[p + f.SHARE] + f.S_EXHAUSTED])
    m[n + f.N_DUE + m[f.K_PROCESSORS]] = at
    following = f.NEXT + m[n + f.N_INDEX]
    m[following] = min(m[following], at)


@part
def new_budgets(m: Memory, n: int, t: int) -> None:
    """Give every job its share of the remaining interval."""
    left = m[n + f.N_INTERVAL_END] - t
    for s in range(m[n + f.N_SHARE], m[n + f.N_SHARE] + m[f.K_JOBS] * f.SHARE_FIELDS, f.SHARE_FIELDS):
        settle(m, s, t)
        m[s + f.S_BUDGET] = int(m[s + f.S_SHARE] * 1e-9 * left * m[f.K_PROCESSORS])
        settle(m, s, t)


@part
def next_interval(m: Memory, n: int) -> None:
    """Begin the next interval."""
    m[n + f.N_INTERVAL_END] += m[f.K_INTERVAL]
