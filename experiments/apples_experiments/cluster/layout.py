"""Layout of the simulator's memory: one array of integers that compiled code and Python share.

All times are nanoseconds from the start, so that sums are exact and two ways to compute a moment agree. Shares
and variations are in billionths. Processes, nodes, processors, jobs and shares are records in the array, and
compiled code addresses each by the index of its first field: ``m[p + f.PHASE]``. Constants are at the beginning, then
the next event of every node. A node's own next events follow its fields: the ends of its processors' quanta, its
class scheduler, its processes in their slots. `NEVER` means that there is no event.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Memory: TypeAlias = NDArray[np.int64]

NEVER = 2**62
NO_PROCESS = -1

#: Kinds of processes; the last two are the system's and come before all others.
RANK, DAEMON, MANAGER = range(3)
#: States: not there; waiting for a processor; on one; asleep until `READY_AT`.
GONE, READY, RUNNING, ASLEEP = range(4)
#: Phases of a rank: computing for iteration `ITERATION`, or waiting for the messages that end it.
COMPUTING, WAITING = range(2)
#: Reasons why a process may not run: stopped by the policy, or its job has used up its share.
HELD, BARRED = 1, 2
#: Partners of a rank in the exchange after each computation.
ALONE, RING, EVERYBODY = range(3)

# Constants, at the beginning.
(
    K_NODES,
    K_PROCESSORS,
    K_TICK,
    K_STAY,  # goodness for staying on the same processor
    K_SWITCH,
    K_SPIN,
    K_LOOKAHEAD,
    K_NOISE_MEAN,
    K_INTERVAL,  # of the class scheduler
    K_MESSAGES,  # 1: arrivals of messages are reported to the policy, and jobs have shares
    K_JOBS,
    K_WIDTH,  # entries of a node's row of next events
    K_STRIDE,  # from one node to the next
    K_REPORTS,  # nodes that wait for an answer of their policy
    K_ENDED,  # ranks that ended since Python last looked
    K_TRY,  # when to look again for a job that nothing interferes with
    K_NODE,  # addresses of the first node, processor, process, job, share, and of the list of members
    K_PROCESSOR,
    K_PROCESS,
    K_JOB,
    K_SHARE,
    K_MEMBERS,
    K_QUANTA,  # ticks of a quantum at nice -20, then upwards
) = range(23)
NEXT = 64  # next event of node 0, 1, …
QUANTA = 40

# A process, eight fields to a line of the cache: fields that its neighbours read; that an event changes; of its job and
# its monitor; of the local scheduler; rarely used ones.
(
    ITERATION,
    PHASE,
    STATE,
    READY_AT,  # the messages are there; for the system's processes: next time to wake
    SENT_EVEN,  # when the message of the last even iteration left
    SENT_ODD,
    LEFT,  # neighbours
    RIGHT,
    BEGIN,  # of the running stretch of computation; may lie ahead
    REMAINING,  # computation left at `BEGIN`, misses included
    WAITING_SINCE,  # start of the wait that is not yet accounted for, else -1
    ACTS_FROM,  # first moment at which it does something since it was put on its processor
    SPIN_UNTIL,
    HELD_WAITING,  # time held during this wait
    DUE,  # address of its next event in the node's row
    NODE,  # addresses of its node and, below, of its job and of the job's share there
    T_CPU,
    T_COMM,
    C_COMM,
    POLLS,  # 1: waits by polling; 0: by spinning and blocking
    ITERATIONS,
    COMPUTE,  # length of a computation; of a burst for the system's processes
    VARIATION,
    JOB,
    KIND,
    OFF,  # HELD | BARRED
    PROCESSOR,  # where it runs or last ran
    COUNTER,  # ticks left of its quantum
    NICE,
    QUEUED,  # its number in the run queue
    ON_SINCE,
    BROUGHT_THEN,  # misses of its last processor's ranks when it lost that processor
    CPU,  # processor time used in all
    SHARE,
    KNOCK,  # first message of this wait from a scheduled sender, while it is not reported
    KEY,  # of the variation
    TOLD,  # whether its job is scheduled on its node, as last sent to the others
    TOLD_AT,  # when it did
    HELD_SINCE,
    FINISHED,
    WANTS_RUN,  # orders, carried out when the node manager has run
    WANTS_POLLS,
    WANTS_NICE,
    OWES,  # misses, as time, until its working set is back; those of the computation under way are not among them
    MISSES,  # misses left in the computation under way, part of `REMAINING`
) = range(45)
PROCESS_FIELDS = 48

# A processor.
(
    C_RUNNING,
    C_BROUGHT,  # misses of all its ranks so far, as time, with those of the computation under way
    C_CHARGED,  # ticks seen so far
    C_NEXT_TICK,  # when the next one is
    C_PHASE,  # a moment at which it ticks
    C_DECIDED,  # last decision of the scheduler
    C_NODE,
    C_DUE,
) = range(8)
PROCESSOR_FIELDS = 8

# A node; then its next events, the process in each slot, and the run queue.
(
    N_INDEX,
    N_FIRST,  # its first processor
    N_SLOTS,  # entries of its row in use
    N_QUEUE,  # counts arrivals in the run queue
    N_ORDERS,  # 1: the manager's burst ends in orders
    N_FROZEN,  # 1: waits for the policy's answer to a request
    N_REQUEST,  # process that has something to report
    N_REQUEST_AT,
    N_INTERVAL_END,  # of the class scheduler
    N_RANDOM,
    N_SHARE,  # share of the first job
    N_READY,  # how many wait for a processor and may run
) = range(12)
N_DUE = 16

# A job.
(
    J_PATTERN,
    J_LATENCY,
    J_REFILL,
    J_RANKS,
    J_FIRST,  # in the list of members
    J_SENT_EVEN,  # ranks that have sent in the even iteration under way
    J_SENT_ODD,
    J_LATEST_EVEN,
    J_LATEST_ODD,
    J_LEFT,  # ranks that have not ended
    J_PIECES,  # exchanges in a row with no computation between them
    J_COLD,  # thousandths of a computation that misses add while caches are cold
) = range(12)
JOB_FIELDS = 12

# The share of a job on a node.
S_SHARE, S_BUDGET, S_RUNNING, S_SINCE, S_EXHAUSTED, S_SCHEDULED = range(6)
SHARE_FIELDS = 8
