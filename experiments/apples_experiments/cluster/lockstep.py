"""Fast path of a job that has its processors to itself: many iterations at once.

If every rank of a ring runs and polls, all other ranks on its nodes are held, and no system process is due, a rank's
time depends on its neighbours alone. Then iterations are computed one after the other instead of by events; the
values are equal to the nanosecond. Ends of quanta within such a stretch only change counters, and are applied
afterwards. A stretch ends well before the first rank of the job ends.
"""

from __future__ import annotations

from apples_experiments.cluster import layout as f
from apples_experiments.cluster.jit import part
from apples_experiments.cluster.layout import Memory
from apples_experiments.cluster.progress import length, miss, sent, set_due

_TRY_AGAIN = 1_000_000  # ns


@part
def leap(m: Memory, t: int, until: int) -> bool:
    """Advance every undisturbed job from t as far as possible; return whether there was one."""
    m[f.K_TRY] = t + _TRY_AGAIN
    done = False
    for job in range(m[f.K_JOB], m[f.K_JOB] + m[f.K_JOBS] * f.JOB_FIELDS, f.JOB_FIELDS):
        if m[job + f.J_PATTERN] == f.RING and m[job + f.J_RANKS] > 1:
            horizon = free_until(m, job, until)
            if horizon > t:
                walk(m, job, horizon)
                m[f.K_TRY] = horizon
                done = True
    return done


@part
def free_until(m: Memory, job: int, until: int) -> int:
    """Return the time until which nothing disturbs the job; -1 if it is disturbed now."""
    first = m[f.K_MEMBERS] + m[job + f.J_FIRST]
    last = m[first + m[job + f.J_RANKS] - 1]
    if (
        m[m[first] + f.STATE] != f.RUNNING
        or m[last + f.ITERATION] >= m[last + f.ITERATIONS] - m[job + f.J_RANKS]
    ):
        return -1
    horizon, node = until, -1
    for i in range(first, first + m[job + f.J_RANKS]):
        p = m[i]
        if m[p + f.STATE] != f.RUNNING or m[p + f.POLLS] == 0:
            return -1
        if m[p + f.NODE] != node:
            node = m[p + f.NODE]
            due = node + f.N_DUE
            for w in range(due + m[f.K_PROCESSORS], due + m[node + f.N_SLOTS]):
                q = m[w + m[f.K_WIDTH]]
                if q >= 0 and m[q + f.KIND] == f.RANK:
                    if m[q + f.JOB] != job and m[q + f.OFF] & f.HELD == 0:
                        return -1
                elif q >= 0 and m[q + f.STATE] == f.RUNNING:
                    return -1
                else:
                    horizon = min(horizon, m[w] - 1)
    return horizon


@part
def walk(m: Memory, job: int, horizon: int) -> None:
    """Compute iteration by iteration up to the horizon."""
    first = m[f.K_MEMBERS] + m[job + f.J_FIRST]
    end = first + m[job + f.J_RANKS]
    k = m[m[first] + f.ITERATION]
    for i in range(first, end):
        k = min(k, m[m[i] + f.ITERATION])
    # the first rank to end has seen all others come within so many iterations of the last
    limit = m[m[first] + f.ITERATIONS] - m[job + f.J_RANKS]
    going = True
    while going and k < limit:
        going = enter_all(m, first, end, k, horizon)
        pass_on(m, first, end, k, m[job + f.J_LATENCY])
        k += 1
    for i in range(first, end):
        p = m[i]
        if m[p + f.PHASE] == f.COMPUTING:
            set_due(m, p, m[p + f.BEGIN] + m[p + f.REMAINING])
        else:
            set_due(m, p, f.NEVER)


@part
def enter_all(m: Memory, first: int, end: int, k: int, horizon: int) -> bool:
    """Let ranks that end computation k by the horizon send; return whether any is in or after exchange k."""
    going, spin = False, m[f.K_SPIN]
    for i in range(first, end):
        p = m[i]
        if m[p + f.ITERATION] != k:
            going = going or m[p + f.ITERATION] > k
        elif m[p + f.PHASE] == f.WAITING:
            going = True
        else:
            at = m[p + f.BEGIN] + m[p + f.REMAINING]
            if at <= horizon:
                going = True
                if m[p + f.WAITING_SINCE] >= 0:
                    m[p + f.T_COMM] += m[p + f.BEGIN] - m[p + f.WAITING_SINCE] - m[p + f.HELD_WAITING]
                    m[p + f.C_COMM] += 1
                m[p + f.T_CPU] += m[p + f.REMAINING] - m[p + f.MISSES]
                m[p + f.BEGIN] = at
                m[p + f.REMAINING] = m[p + f.MISSES] = 0
                m[p + f.PHASE] = f.WAITING
                m[p + f.WAITING_SINCE] = at
                m[p + f.HELD_WAITING] = 0
                m[p + f.READY_AT] = f.NEVER
                m[p + f.ACTS_FROM] = at
                m[p + f.SPIN_UNTIL] = at + spin
                m[p + f.SENT_EVEN + (k & 1)] = at
    return going


@part
def pass_on(m: Memory, first: int, end: int, k: int, latency: int) -> None:
    """Let ranks that have the messages of iteration k compute."""
    for i in range(first, end):
        p = m[i]
        if m[p + f.ITERATION] != k or m[p + f.PHASE] != f.WAITING:
            continue
        a, b = sent(m, m[p + f.LEFT], k), sent(m, m[p + f.RIGHT], k)
        if a >= 0 and b >= 0:
            at = max(m[p + f.WAITING_SINCE], a, b) + latency
            m[p + f.READY_AT] = at
            m[p + f.ITERATION] += 1
            m[p + f.PHASE] = f.COMPUTING
            m[p + f.BEGIN] = max(at, m[p + f.ACTS_FROM])
            miss(m, p, length(m, p))
