"""How a rank gets on: computation, messages, waiting by polling or by spinning and blocking; and what its monitor sees.

An exchange takes its latency from the moment at which the rank and all its partners have entered it. A rank whose
messages have a known arrival is at once put into its next computation, with a `BEGIN` that lies ahead; whoever
interrupts it before that puts it back. `T_COMM` includes waiting for a processor within communication, as a clock
on the wall does, and leaves out time held stopped. Whether its job is scheduled a rank tells the others ahead of its
messages, and while it waits: what somebody who gets on slowly finds in his mail may be old.
"""

from __future__ import annotations

import numpy as np

from apples.simulation.cluster.jit import inlined, part
from apples.simulation.cluster.layout import (
    ACTS_FROM,
    ALONE,
    ASLEEP,
    BEGIN,
    C_BROUGHT,
    C_COMM,
    COMPUTE,
    COMPUTING,
    DUE,
    HELD,
    HELD_WAITING,
    ITERATION,
    ITERATIONS,
    J_COLD,
    J_FIRST,
    J_LATENCY,
    J_LATEST_EVEN,
    J_PATTERN,
    J_PIECES,
    J_RANKS,
    J_SENT_EVEN,
    JOB,
    K_MEMBERS,
    K_MESSAGES,
    K_SPIN,
    KEY,
    KIND,
    KNOCK,
    LEFT,
    MISSES,
    N_INDEX,
    NEVER,
    NEXT,
    NODE,
    OFF,
    OWES,
    PHASE,
    POLLS,
    PROCESSOR,
    RANK,
    READY_AT,
    REMAINING,
    RIGHT,
    RING,
    RUNNING,
    S_SCHEDULED,
    SENT_EVEN,
    SHARE,
    SPIN_UNTIL,
    STATE,
    T_COMM,
    T_CPU,
    TOLD,
    TOLD_AT,
    VARIATION,
    WAITING,
    WAITING_SINCE,
    Memory,
)


@inlined
def mix(key: int) -> float:
    """A number in [0, 1) that follows from the key alone (the finaliser of splitmix64)."""
    # unsigned throughout: signed overflow is undefined in compiled code
    x = np.uint64(key)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return float(x >> np.uint64(11)) / 9007199254740992.0


@inlined
def length(m: Memory, p: int) -> int:
    """Computation of the iteration that the rank is in, nanoseconds; 0 when all are done."""
    if m[p + ITERATION] >= m[p + ITERATIONS]:
        return 0
    pieces = m[m[p + JOB] + J_PIECES]
    if pieces > 1 and m[p + ITERATION] % pieces != 0:
        return 1
    if m[p + VARIATION] == 0:
        return int(m[p + COMPUTE])
    u = mix(m[p + KEY] + m[p + ITERATION])
    return int(m[p + COMPUTE] * (1.0 + m[p + VARIATION] * 1e-9 * (2.0 * u - 1.0)))


@inlined
def miss(m: Memory, p: int, work: int) -> None:
    """So much computation is under way from now on, with the misses that it has while the working set comes back."""
    misses = m[p + OWES]
    if misses > 0:
        misses = min(misses, work * m[m[p + JOB] + J_COLD] // 1000)
        m[p + OWES] -= misses
        m[m[p + PROCESSOR] + C_BROUGHT] += misses
    m[p + MISSES] = misses
    m[p + REMAINING] = work + misses


@inlined
def missed_by(m: Memory, p: int, t: int) -> int:
    """Misses since the computation under way began: they come first, evenly among what is computed."""
    misses = m[p + MISSES]
    if misses == 0:
        return 0
    cold, gone = m[m[p + JOB] + J_COLD], t - m[p + BEGIN]
    # No more than are left, and all by the end.
    return int(max(min(misses, gone * cold // (1000 + cold)), misses - (m[p + REMAINING] - gone)))


@inlined
def unmiss(m: Memory, p: int) -> None:
    """The computation under way is interrupted, or was only put ahead: misses left in it have not happened."""
    misses = m[p + MISSES]
    if misses > 0:
        m[p + MISSES] = 0
        m[p + REMAINING] -= misses
        m[p + OWES] += misses
        m[m[p + PROCESSOR] + C_BROUGHT] -= misses


@inlined
def set_due(m: Memory, p: int, at: int) -> None:
    """The next event of a process."""
    m[m[p + DUE]] = at
    following = NEXT + m[m[p + NODE] + N_INDEX]
    m[following] = min(m[following], at)


@inlined
def expect(m: Memory, p: int, at: int) -> None:
    """The next event of a running rank, or its report of a message if that is earlier."""
    if m[K_MESSAGES] == 1 and m[p + KNOCK] < NEVER and m[m[p + SHARE] + S_SCHEDULED] == 0:
        at = min(at, max(m[p + KNOCK], m[p + ACTS_FROM]))
    set_due(m, p, at)


@inlined
def begin_next(m: Memory, p: int, at: int) -> None:
    """The messages are there at `at`: the next computation begins then."""
    m[p + ITERATION] += 1
    m[p + PHASE] = COMPUTING
    m[p + BEGIN] = at
    miss(m, p, length(m, p))
    expect(m, p, at + m[p + REMAINING])


@inlined
def act(m: Memory, p: int) -> None:
    """A process that has its processor, and can do something from `ACTS_FROM` on, does it."""
    at = m[p + ACTS_FROM]
    if m[p + KIND] != RANK:
        m[p + BEGIN] = at
        set_due(m, p, at + m[p + REMAINING])
    elif m[p + PHASE] == COMPUTING:
        m[p + BEGIN] = at
        expect(m, p, at + m[p + REMAINING])
    elif m[p + READY_AT] <= at:
        begin_next(m, p, at)
    else:
        if m[K_MESSAGES] == 1:
            tell_status(m, p, at)
        wait_on(m, p)


@inlined
def wait_on(m: Memory, p: int) -> None:
    """A running rank whose messages are not there yet polls, or spins for a while."""
    deadline = NEVER if m[p + POLLS] == 1 else max(m[p + ACTS_FROM], m[p + SPIN_UNTIL])
    if m[p + READY_AT] < NEVER and m[p + READY_AT] <= deadline:
        begin_next(m, p, m[p + READY_AT])
    else:
        expect(m, p, deadline)


@inlined
def account(m: Memory, p: int, t: int) -> None:
    """What a running process has done up to `t`; a computation that has not begun is taken back."""
    if m[p + PHASE] != COMPUTING:
        return
    if m[p + WAITING_SINCE] >= 0:
        if m[p + BEGIN] > t:
            unmiss(m, p)
            m[p + ITERATION] -= 1
            m[p + PHASE] = WAITING
            return
        m[p + T_COMM] += m[p + BEGIN] - m[p + WAITING_SINCE] - m[p + HELD_WAITING]
        m[p + C_COMM] += 1
        m[p + WAITING_SINCE] = -1
        if m[K_MESSAGES] == 1:
            m[p + KNOCK] = NEVER
    if t > m[p + BEGIN]:
        missed = missed_by(m, p, t)
        m[p + T_CPU] += t - m[p + BEGIN] - missed
        m[p + MISSES] -= missed
        m[p + REMAINING] -= t - m[p + BEGIN]
        m[p + BEGIN] = t


@inlined
def communicates(m: Memory, p: int) -> bool:
    """Does the rank exchange messages after its computations."""
    return bool(m[m[p + JOB] + J_PATTERN] != ALONE and m[m[p + JOB] + J_RANKS] > 1)


@inlined
def enter(m: Memory, p: int, t: int) -> None:
    """A computation is done and its messages leave."""
    job, parity, k = m[p + JOB], m[p + ITERATION] & 1, m[p + ITERATION]
    m[p + PHASE] = WAITING
    m[p + WAITING_SINCE] = t
    m[p + HELD_WAITING] = 0
    m[p + READY_AT] = NEVER
    m[p + ACTS_FROM] = t
    m[p + SPIN_UNTIL] = t + m[K_SPIN]
    m[p + SENT_EVEN + parity] = t
    if m[K_MESSAGES] == 1:
        m[p + KNOCK] = NEVER
        tell_status(m, p, t)
    wait_on(m, p)
    if m[job + J_PATTERN] == RING:
        exchange(m, p)
        exchange(m, m[p + LEFT])
        exchange(m, m[p + RIGHT])
    else:
        meet(m, job, parity, t)
    if m[K_MESSAGES] == 1:
        tell_partners(m, p, k, t)


@inlined
def sent(m: Memory, q: int, k: int) -> int:
    """When rank q's messages of iteration k left; -1 if they have not."""
    if m[q + ITERATION] > k or (m[q + ITERATION] == k and m[q + PHASE] == WAITING):
        return int(m[q + SENT_EVEN + (k & 1)])
    return -1


@inlined
def exchange(m: Memory, p: int) -> None:
    """A rank of a ring gets its messages if it waits and both neighbours have sent theirs."""
    if m[p + PHASE] != WAITING or m[p + READY_AT] < NEVER:
        return
    k = m[p + ITERATION]
    a, b = sent(m, m[p + LEFT], k), sent(m, m[p + RIGHT], k)
    if a >= 0 and b >= 0:
        deliver(m, p, max(m[p + WAITING_SINCE], a, b) + m[m[p + JOB] + J_LATENCY])


@part
def meet(m: Memory, job: int, parity: int, t: int) -> None:
    """A rank has come to where all ranks of its job meet; the last one lets them go."""
    m[job + J_SENT_EVEN + parity] += 1
    m[job + J_LATEST_EVEN + parity] = max(m[job + J_LATEST_EVEN + parity], t)
    if m[job + J_SENT_EVEN + parity] < m[job + J_RANKS]:
        return
    at = m[job + J_LATEST_EVEN + parity] + m[job + J_LATENCY]
    m[job + J_SENT_EVEN + parity] = 0
    m[job + J_LATEST_EVEN + parity] = 0
    first = m[K_MEMBERS] + m[job + J_FIRST]
    for i in range(first, first + m[job + J_RANKS]):
        deliver(m, m[i], at)


@inlined
def deliver(m: Memory, p: int, at: int) -> None:
    """All messages that rank p waits for are there from `at` on."""
    m[p + READY_AT] = at
    if m[p + STATE] == RUNNING:
        if m[p + POLLS] == 1 or at <= max(m[p + ACTS_FROM], m[p + SPIN_UNTIL]):
            begin_next(m, p, max(at, m[p + ACTS_FROM]))
    elif m[p + STATE] == ASLEEP and m[p + OFF] & HELD == 0:
        set_due(m, p, at)


@part
def tell_status(m: Memory, p: int, t: int) -> None:
    """Rank p tells the others when its job has been scheduled, which is a request, or is so no more."""
    scheduled = m[m[p + SHARE] + S_SCHEDULED]
    if m[p + TOLD] == scheduled:
        return
    m[p + TOLD], m[p + TOLD_AT] = scheduled, t
    if scheduled == 0:
        return
    job, at = m[p + JOB], t + m[m[p + JOB] + J_LATENCY]
    if m[job + J_PATTERN] == RING:
        knock_elsewhere(m, p, m[p + LEFT], at)
        knock_elsewhere(m, p, m[p + RIGHT], at)
    else:
        first = m[K_MEMBERS] + m[job + J_FIRST]
        for i in range(first, first + m[job + J_RANKS]):
            knock_elsewhere(m, p, m[i], at)


@inlined
def knock_elsewhere(m: Memory, p: int, q: int, at: int) -> None:
    """Rank q hears of p at `at`, if it is on another node."""
    if m[q + NODE] != m[p + NODE]:
        knock(m, q, at)


@inlined
def takes_as_scheduled(m: Memory, p: int, q: int, t: int) -> bool:
    """Whether rank p takes rank q of another node as scheduled, by what that has told."""
    if m[q + NODE] == m[p + NODE]:
        return False
    # Statuses alternate: what is still on its way is the contrary of what was told before.
    return bool((m[q + TOLD] == 1) == (m[q + TOLD_AT] + m[m[p + JOB] + J_LATENCY] <= t))


@part
def may_report(m: Memory, p: int, t: int) -> bool:
    """Whether rank p still waits, or has just waited, and takes one that it exchanges messages with as scheduled."""
    job = m[p + JOB]
    if m[p + PHASE] == COMPUTING and (m[p + WAITING_SINCE] < 0 or m[p + BEGIN] < t):
        return False
    if m[job + J_PATTERN] == RING:
        return takes_as_scheduled(m, p, m[p + LEFT], t) or takes_as_scheduled(m, p, m[p + RIGHT], t)
    first = m[K_MEMBERS] + m[job + J_FIRST]
    found = False
    for i in range(first, first + m[job + J_RANKS]):
        found = found or takes_as_scheduled(m, p, m[i], t)
    return found


@part
def tell_partners(m: Memory, p: int, k: int, t: int) -> None:
    """Partners on other nodes that wait may report this message; this rank may report those that came before.

    A message has one status, ahead of it, however many pieces it goes in.
    """
    job, latency = m[p + JOB], m[m[p + JOB] + J_LATENCY]
    if k % m[job + J_PIECES] != 0:
        return
    if m[job + J_PATTERN] == RING:
        tell(m, p, m[p + LEFT], k, t + latency)
        if m[p + RIGHT] != m[p + LEFT]:
            tell(m, p, m[p + RIGHT], k, t + latency)
    else:
        first = m[K_MEMBERS] + m[job + J_FIRST]
        for i in range(first, first + m[job + J_RANKS]):
            tell(m, p, m[i], k, t + latency)


@part
def tell(m: Memory, p: int, q: int, k: int, at: int) -> None:
    """The message of p for iteration k reaches q at `at`; the one of q may have left before."""
    if m[q + NODE] == m[p + NODE]:
        return
    entered = sent(m, q, k)
    if entered < 0:
        return
    # a rank that is through with the wait has nothing to report; one that is put ahead still waits
    if m[p + TOLD] == 1 and m[q + WAITING_SINCE] == entered:
        knock(m, q, at)
    if takes_as_scheduled(m, p, q, at):
        knock(m, p, at)


@part
def knock(m: Memory, q: int, at: int) -> None:
    """Rank q has something to report from `at` on, as soon as it runs."""
    if at >= m[q + KNOCK]:
        return
    m[q + KNOCK] = at
    if m[q + STATE] == RUNNING and m[m[q + SHARE] + S_SCHEDULED] == 0:
        set_due(m, q, min(m[m[q + DUE]], max(at, m[q + ACTS_FROM])))
