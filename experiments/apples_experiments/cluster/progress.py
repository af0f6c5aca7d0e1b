"""Progress of a rank: computation, messages, waiting by polling or spinning and blocking, and its monitor's counts.

An exchange takes its latency from the moment at which the rank and all its partners have entered it. A rank whose
messages have a known arrival is put into its next computation at once, with a `BEGIN` in the future; an
interruption before that reverts it. `T_COMM` includes waiting for a processor within communication, like a wall
clock, and excludes time held stopped. A rank sends its status (scheduled or not) ahead of its messages, and while it
waits: a slow rank may read an old status.
"""

from __future__ import annotations

import numpy as np

from apples_experiments.cluster import layout as f
from apples_experiments.cluster.jit import inlined, part
from apples_experiments.cluster.layout import Memory


@inlined
def mix(key: int) -> float:
    """Return a value in [0, 1) that follows from the key alone (the finaliser of splitmix64)."""
    # unsigned throughout: signed overflow is undefined in compiled code
    x = np.uint64(key)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return float(x >> np.uint64(11)) / 9007199254740992.0


@inlined
def length(m: Memory, p: int) -> int:
    """Return the computation of the rank's current iteration in nanoseconds; 0 after the last one."""
    if m[p + f.ITERATION] >= m[p + f.ITERATIONS]:
        return 0
    pieces = m[m[p + f.JOB] + f.J_PIECES]
    if pieces > 1 and m[p + f.ITERATION] % pieces != 0:
        return 1
    if m[p + f.VARIATION] == 0:
        return int(m[p + f.COMPUTE])
    u = mix(m[p + f.KEY] + m[p + f.ITERATION])
    return int(m[p + f.COMPUTE] * (1.0 + m[p + f.VARIATION] * 1e-9 * (2.0 * u - 1.0)))


@inlined
def miss(m: Memory, p: int, work: int) -> None:
    """Begin a computation of `work` ns, with its cache misses while the working set returns."""
    misses = m[p + f.OWES]
    if misses > 0:
        misses = min(misses, work * m[m[p + f.JOB] + f.J_COLD] // 1000)
        m[p + f.OWES] -= misses
        m[m[p + f.PROCESSOR] + f.C_BROUGHT] += misses
    m[p + f.MISSES] = misses
    m[p + f.REMAINING] = work + misses


@inlined
def missed_by(m: Memory, p: int, t: int) -> int:
    """Return the misses since the current computation began: they come first, evenly spread."""
    misses = m[p + f.MISSES]
    if misses == 0:
        return 0
    cold, gone = m[m[p + f.JOB] + f.J_COLD], t - m[p + f.BEGIN]
    # No more than are left, and all by the end.
    return int(max(min(misses, gone * cold // (1000 + cold)), misses - (m[p + f.REMAINING] - gone)))


@inlined
def unmiss(m: Memory, p: int) -> None:
    """Undo the misses of a computation that is interrupted or has not begun."""
    misses = m[p + f.MISSES]
    if misses > 0:
        m[p + f.MISSES] = 0
        m[p + f.REMAINING] -= misses
        m[p + f.OWES] += misses
        m[m[p + f.PROCESSOR] + f.C_BROUGHT] -= misses


@inlined
def set_due(m: Memory, p: int, at: int) -> None:
    """Set the next event of a process."""
    m[m[p + f.DUE]] = at
    following = f.NEXT + m[m[p + f.NODE] + f.N_INDEX]
    m[following] = min(m[following], at)


@inlined
def expect(m: Memory, p: int, at: int) -> None:
    """Set the next event of a running rank, or its report of a message if that is earlier."""
    if m[f.K_MESSAGES] == 1 and m[p + f.KNOCK] < f.NEVER and m[m[p + f.SHARE] + f.S_SCHEDULED] == 0:
        at = min(at, max(m[p + f.KNOCK], m[p + f.ACTS_FROM]))
    set_due(m, p, at)


@inlined
def begin_next(m: Memory, p: int, at: int) -> None:
    """Begin the next computation at `at`, when the messages have arrived."""
    m[p + f.ITERATION] += 1
    m[p + f.PHASE] = f.COMPUTING
    m[p + f.BEGIN] = at
    miss(m, p, length(m, p))
    expect(m, p, at + m[p + f.REMAINING])


@inlined
def act(m: Memory, p: int) -> None:
    """Continue a process that has its processor, from `ACTS_FROM` on."""
    at = m[p + f.ACTS_FROM]
    if m[p + f.KIND] != f.RANK:
        m[p + f.BEGIN] = at
        set_due(m, p, at + m[p + f.REMAINING])
    elif m[p + f.PHASE] == f.COMPUTING:
        m[p + f.BEGIN] = at
        expect(m, p, at + m[p + f.REMAINING])
    elif m[p + f.READY_AT] <= at:
        begin_next(m, p, at)
    else:
        if m[f.K_MESSAGES] == 1:
            tell_status(m, p, at)
        wait_on(m, p)


@inlined
def wait_on(m: Memory, p: int) -> None:
    """Let a running rank without its messages poll, or spin for a while."""
    deadline = f.NEVER if m[p + f.POLLS] == 1 else max(m[p + f.ACTS_FROM], m[p + f.SPIN_UNTIL])
    if m[p + f.READY_AT] < f.NEVER and m[p + f.READY_AT] <= deadline:
        begin_next(m, p, m[p + f.READY_AT])
    else:
        expect(m, p, deadline)


@inlined
def account(m: Memory, p: int, t: int) -> None:
    """Account for a running process up to `t`, and revert a computation that has not begun."""
    if m[p + f.PHASE] != f.COMPUTING:
        return
    if m[p + f.WAITING_SINCE] >= 0:
        if m[p + f.BEGIN] > t:
            unmiss(m, p)
            m[p + f.ITERATION] -= 1
            m[p + f.PHASE] = f.WAITING
            return
        m[p + f.T_COMM] += m[p + f.BEGIN] - m[p + f.WAITING_SINCE] - m[p + f.HELD_WAITING]
        m[p + f.C_COMM] += 1
        m[p + f.WAITING_SINCE] = -1
        if m[f.K_MESSAGES] == 1:
            m[p + f.KNOCK] = f.NEVER
    if t > m[p + f.BEGIN]:
        missed = missed_by(m, p, t)
        m[p + f.T_CPU] += t - m[p + f.BEGIN] - missed
        m[p + f.MISSES] -= missed
        m[p + f.REMAINING] -= t - m[p + f.BEGIN]
        m[p + f.BEGIN] = t


@inlined
def communicates(m: Memory, p: int) -> bool:
    """Return whether the rank exchanges messages after its computations."""
    return bool(m[m[p + f.JOB] + f.J_PATTERN] != f.ALONE and m[m[p + f.JOB] + f.J_RANKS] > 1)


@inlined
def enter(m: Memory, p: int, t: int) -> None:
    """End a computation and send its messages."""
    job, parity, k = m[p + f.JOB], m[p + f.ITERATION] & 1, m[p + f.ITERATION]
    m[p + f.PHASE] = f.WAITING
    m[p + f.WAITING_SINCE] = t
    m[p + f.HELD_WAITING] = 0
    m[p + f.READY_AT] = f.NEVER
    m[p + f.ACTS_FROM] = t
    m[p + f.SPIN_UNTIL] = t + m[f.K_SPIN]
    m[p + f.SENT_EVEN + parity] = t
    if m[f.K_MESSAGES] == 1:
        m[p + f.KNOCK] = f.NEVER
        tell_status(m, p, t)
    wait_on(m, p)
    if m[job + f.J_PATTERN] == f.RING:
        exchange(m, p)
        exchange(m, m[p + f.LEFT])
        exchange(m, m[p + f.RIGHT])
    else:
        meet(m, job, parity, t)
    if m[f.K_MESSAGES] == 1:
        tell_partners(m, p, k, t)


@inlined
def sent(m: Memory, q: int, k: int) -> int:
    """Return the time at which rank q's messages of iteration k left; -1 if they have not."""
    if m[q + f.ITERATION] > k or (m[q + f.ITERATION] == k and m[q + f.PHASE] == f.WAITING):
        return int(m[q + f.SENT_EVEN + (k & 1)])
    return -1


@inlined
def exchange(m: Memory, p: int) -> None:
    """Give a rank of a ring its messages, if it waits and both neighbours have sent theirs."""
    if m[p + f.PHASE] != f.WAITING or m[p + f.READY_AT] < f.NEVER:
        return
    k = m[p + f.ITERATION]
    a, b = sent(m, m[p + f.LEFT], k), sent(m, m[p + f.RIGHT], k)
    if a >= 0 and b >= 0:
        deliver(m, p, max(m[p + f.WAITING_SINCE], a, b) + m[m[p + f.JOB] + f.J_LATENCY])


@part
def meet(m: Memory, job: int, parity: int, t: int) -> None:
    """Handle a rank that reaches the meeting of all ranks of its job; the last one releases them."""
    m[job + f.J_SENT_EVEN + parity] += 1
    m[job + f.J_LATEST_EVEN + parity] = max(m[job + f.J_LATEST_EVEN + parity], t)
    if m[job + f.J_SENT_EVEN + parity] < m[job + f.J_RANKS]:
        return
    at = m[job + f.J_LATEST_EVEN + parity] + m[job + f.J_LATENCY]
    m[job + f.J_SENT_EVEN + parity] = 0
    m[job + f.J_LATEST_EVEN + parity] = 0
    first = m[f.K_MEMBERS] + m[job + f.J_FIRST]
    for i in range(first, first + m[job + f.J_RANKS]):
        deliver(m, m[i], at)


@inlined
def deliver(m: Memory, p: int, at: int) -> None:
    """Set `at` as the arrival time of all messages for which rank p waits."""
    m[p + f.READY_AT] = at
    if m[p + f.STATE] == f.RUNNING:
        if m[p + f.POLLS] == 1 or at <= max(m[p + f.ACTS_FROM], m[p + f.SPIN_UNTIL]):
            begin_next(m, p, max(at, m[p + f.ACTS_FROM]))
    elif m[p + f.STATE] == f.ASLEEP and m[p + f.OFF] & f.HELD == 0:
        set_due(m, p, at)


@part
def tell_status(m: Memory, p: int, t: int) -> None:
    """Send a change of rank p's status; a change to scheduled is a request."""
    scheduled = m[m[p + f.SHARE] + f.S_SCHEDULED]
    if m[p + f.TOLD] == scheduled:
        return
    m[p + f.TOLD], m[p + f.TOLD_AT] = scheduled, t
    if scheduled == 0:
        return
    job, at = m[p + f.JOB], t + m[m[p + f.JOB] + f.J_LATENCY]
    if m[job + f.J_PATTERN] == f.RING:
        knock_elsewhere(m, p, m[p + f.LEFT], at)
        knock_elsewhere(m, p, m[p + f.RIGHT], at)
    else:
        first = m[f.K_MEMBERS] + m[job + f.J_FIRST]
        for i in range(first, first + m[job + f.J_RANKS]):
            knock_elsewhere(m, p, m[i], at)


@inlined
def knock_elsewhere(m: Memory, p: int, q: int, at: int) -> None:
    """Let rank q on another node receive p's status at `at`."""
    if m[q + f.NODE] != m[p + f.NODE]:
        knock(m, q, at)


@inlined
def takes_as_scheduled(m: Memory, p: int, q: int, t: int) -> bool:
    """Return whether rank p takes rank q of another node as scheduled, by its last received status."""
    if m[q + f.NODE] == m[p + f.NODE]:
        return False
    # Statuses alternate: one still in transit is the opposite of the one before.
    return bool((m[q + f.TOLD] == 1) == (m[q + f.TOLD_AT] + m[m[p + f.JOB] + f.J_LATENCY] <= t))


@part
def may_report(m: Memory, p: int, t: int) -> bool:
    """Return whether rank p waits, or just did, and takes one of its partners as scheduled."""
    job = m[p + f.JOB]
    if m[p + f.PHASE] == f.COMPUTING and (m[p + f.WAITING_SINCE] < 0 or m[p + f.BEGIN] < t):
        return False
    if m[job + f.J_PATTERN] == f.RING:
        return takes_as_scheduled(m, p, m[p + f.LEFT], t) or takes_as_scheduled(m, p, m[p + f.RIGHT], t)
    first = m[f.K_MEMBERS] + m[job + f.J_FIRST]
    scheduled_turn = False
    for i in range(first, first + m[job + f.J_RANKS]):
        scheduled_turn = scheduled_turn or takes_as_scheduled(m, p, m[i], t)
    return scheduled_turn


@part
def tell_partners(m: Memory, p: int, k: int, t: int) -> None:
    """Let waiting partners on other nodes report this message, and this rank report earlier ones.

    A message has one status, sent ahead of it, for all its pieces.
    """
    job, latency = m[p + f.JOB], m[m[p + f.JOB] + f.J_LATENCY]
    if k % m[job + f.J_PIECES] != 0:
        return
    if m[job + f.J_PATTERN] == f.RING:
        tell(m, p, m[p + f.LEFT], k, t + latency)
        if m[p + f.RIGHT] != m[p + f.LEFT]:
            tell(m, p, m[p + f.RIGHT], k, t + latency)
    else:
        first = m[f.K_MEMBERS] + m[job + f.J_FIRST]
        for i in range(first, first + m[job + f.J_RANKS]):
            tell(m, p, m[i], k, t + latency)


@part
def tell(m: Memory, p: int, q: int, k: int, at: int) -> None:
    """Deliver p's message of iteration k to q at `at`; q's message may have left before."""
    if m[q + f.NODE] == m[p + f.NODE]:
        return
    entered = sent(m, q, k)
    if entered < 0:
        return
    # a rank that is through with the wait has nothing to report; one that is put ahead still waits
    if m[p + f.TOLD] == 1 and m[q + f.WAITING_SINCE] == entered:
        knock(m, q, at)
    if takes_as_scheduled(m, p, q, at):
        knock(m, p, at)


@part
def knock(m: Memory, q: int, at: int) -> None:
    """Let rank q report from `at` on, as soon as it runs."""
    if at >= m[q + f.KNOCK]:
        return
    m[q + f.KNOCK] = at
    if m[q + f.STATE] == f.RUNNING and m[m[q + f.SHARE] + f.S_SCHEDULED] == 0:
        set_due(m, q, min(m[m[q + f.DUE]], max(at, m[q + f.ACTS_FROM])))
