"""A job that has its processors to itself runs many iterations at once.

Where every rank of a ring runs and polls, all other ranks on its nodes are held, and no system process is due, a
rank's time depends on its neighbours alone. Then iterations are walked through one after the other instead of
events by time; the figures are the same to the nanosecond. Ends of quanta within such a stretch change counters
only, and are made up for afterwards. A stretch ends well before the job's first rank does.
"""

from __future__ import annotations

from apples.simulation.cluster.jit import part
from apples.simulation.cluster.layout import (
    ACTS_FROM,
    BEGIN,
    C_COMM,
    COMPUTING,
    HELD,
    HELD_WAITING,
    ITERATION,
    ITERATIONS,
    J_FIRST,
    J_LATENCY,
    J_PATTERN,
    J_RANKS,
    JOB,
    JOB_FIELDS,
    K_JOB,
    K_JOBS,
    K_MEMBERS,
    K_PROCESSORS,
    K_SPIN,
    K_TRY,
    K_WIDTH,
    KIND,
    LEFT,
    MISSES,
    N_DUE,
    N_SLOTS,
    NEVER,
    NODE,
    OFF,
    PHASE,
    POLLS,
    RANK,
    READY_AT,
    REMAINING,
    RIGHT,
    RING,
    RUNNING,
    SENT_EVEN,
    SPIN_UNTIL,
    STATE,
    T_COMM,
    T_CPU,
    WAITING,
    WAITING_SINCE,
    Memory,
)
from apples.simulation.cluster.progress import length, miss, sent, set_due

_TRY_AGAIN = 1_000_000  # ns


@part
def leap(m: Memory, t: int, until: int) -> bool:
    """From t on, take every job that nothing interferes with as far as that lasts; was there one."""
    m[K_TRY] = t + _TRY_AGAIN
    done = False
    for job in range(m[K_JOB], m[K_JOB] + m[K_JOBS] * JOB_FIELDS, JOB_FIELDS):
        if m[job + J_PATTERN] == RING and m[job + J_RANKS] > 1:
            horizon = free_until(m, job, until)
            if horizon > t:
                walk(m, job, horizon)
                m[K_TRY] = horizon
                done = True
    return done


@part
def free_until(m: Memory, job: int, until: int) -> int:
    """How long nothing interferes with the job; -1 when something does already."""
    first = m[K_MEMBERS] + m[job + J_FIRST]
    last = m[first + m[job + J_RANKS] - 1]
    if m[m[first] + STATE] != RUNNING or m[last + ITERATION] >= m[last + ITERATIONS] - m[job + J_RANKS]:
        return -1
    horizon, node = until, -1
    for i in range(first, first + m[job + J_RANKS]):
        p = m[i]
        if m[p + STATE] != RUNNING or m[p + POLLS] == 0:
            return -1
        if m[p + NODE] != node:
            node = m[p + NODE]
            due = node + N_DUE
            for w in range(due + m[K_PROCESSORS], due + m[node + N_SLOTS]):
                q = m[w + m[K_WIDTH]]
                if q >= 0 and m[q + KIND] == RANK:
                    if m[q + JOB] != job and m[q + OFF] & HELD == 0:
                        return -1
                elif q >= 0 and m[q + STATE] == RUNNING:
                    return -1
                else:
                    horizon = min(horizon, m[w] - 1)
    return horizon


@part
def walk(m: Memory, job: int, horizon: int) -> None:
    """Iteration by iteration, all that happens up to the horizon."""
    first = m[K_MEMBERS] + m[job + J_FIRST]
    end = first + m[job + J_RANKS]
    k = m[m[first] + ITERATION]
    for i in range(first, end):
        k = min(k, m[m[i] + ITERATION])
    # the first rank to end has seen all others come within so many iterations of the last
    limit = m[m[first] + ITERATIONS] - m[job + J_RANKS]
    going = True
    while going and k < limit:
        going = enter_all(m, first, end, k, horizon)
        pass_on(m, first, end, k, m[job + J_LATENCY])
        k += 1
    for i in range(first, end):
        p = m[i]
        if m[p + PHASE] == COMPUTING:
            set_due(m, p, m[p + BEGIN] + m[p + REMAINING])
        else:
            set_due(m, p, NEVER)


@part
def enter_all(m: Memory, first: int, end: int, k: int, horizon: int) -> bool:
    """Ranks whose computation k ends by the horizon send; is anybody in or beyond iteration k's exchange."""
    going, spin = False, m[K_SPIN]
    for i in range(first, end):
        p = m[i]
        if m[p + ITERATION] != k:
            going = going or m[p + ITERATION] > k
        elif m[p + PHASE] == WAITING:
            going = True
        else:
            at = m[p + BEGIN] + m[p + REMAINING]
            if at <= horizon:
                going = True
                if m[p + WAITING_SINCE] >= 0:
                    m[p + T_COMM] += m[p + BEGIN] - m[p + WAITING_SINCE] - m[p + HELD_WAITING]
                    m[p + C_COMM] += 1
                m[p + T_CPU] += m[p + REMAINING] - m[p + MISSES]
                m[p + BEGIN] = at
                m[p + REMAINING] = m[p + MISSES] = 0
                m[p + PHASE] = WAITING
                m[p + WAITING_SINCE] = at
                m[p + HELD_WAITING] = 0
                m[p + READY_AT] = NEVER
                m[p + ACTS_FROM] = at
                m[p + SPIN_UNTIL] = at + spin
                m[p + SENT_EVEN + (k & 1)] = at
    return going


@part
def pass_on(m: Memory, first: int, end: int, k: int, latency: int) -> None:
    """Ranks that have the messages of iteration k compute on."""
    for i in range(first, end):
        p = m[i]
        if m[p + ITERATION] != k or m[p + PHASE] != WAITING:
            continue
        a, b = sent(m, m[p + LEFT], k), sent(m, m[p + RIGHT], k)
        if a >= 0 and b >= 0:
            at = max(m[p + WAITING_SINCE], a, b) + latency
            m[p + READY_AT] = at
            m[p + ITERATION] += 1
            m[p + PHASE] = COMPUTING
            m[p + BEGIN] = max(at, m[p + ACTS_FROM])
            miss(m, p, length(m, p))
