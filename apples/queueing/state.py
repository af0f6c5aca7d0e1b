"""Records of the compiled pass: a row for every job, and lists of rows.

A slot is the row number of a job. The queue is in order of submission, with vacant places until it is compacted. The
running list is in order of expected end. All arrays are allocated once, so memory per job is constant.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Rows = np.ndarray[Any, Any]
"""An array of records; columns by name."""

#: Indices into `QueueState.counts`. QUEUED: places of the queue, vacant ones included. WAITING: jobs in them.
#: FREE: idle processors. STARTED: jobs that the last pass started. HEAD: place of the head, -1 unknown.
#: RANKED: places that were compared with the head. CHECKED: places that cannot start until head or processors change.
#: EXTRA: processors that the head leaves to other jobs at its reservation.
QUEUED, WAITING, RUNNING, FREE, STARTED, HEAD, RANKED, CHECKED, EXTRA, COUNTS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

#: Indices into `QueueState.times`. HEAD_UNTIL: the head has the highest priority until then. SHADOW: its reservation.
HEAD_UNTIL, SHADOW, TIMES = 0, 1, 2

#: Rows of `QueueState.columns`, by place in the queue. RANK: value for the priority, see `apples.queueing.kernel`.
PROCS, SPAN, SUBMIT, RANK, COLUMNS = 0, 1, 2, 3, 4

#: `PROCS` of a place whose job has left: it never fits.
VACANT = np.inf

#: Rows of `QueueState.lists`: waiting slots, running slots, slots that the last pass started, scratch values.
QUEUE, RUNNERS, STARTS, SCRATCH, LISTS = 0, 1, 2, 3, 4

#: Codes of `Rules.priority`.
FCFS, SJF, WFP, EXPRESSION = 0, 1, 2, 3

#: Codes of `Rules.backfill`.
NO_BACKFILL, EASY, CONSERVATIVE = 0, 1, 2

#: Codes of `Rules.backfill_order`.
BY_PRIORITY, SHORTEST, SMALLEST_AREA = 0, 1, 2

#: Codes of `Rules.overrun`.
TO_REQUEST, BY_INCREMENT, BY_DOUBLING, BY_HALF = 0, 1, 2, 3

#: A job. Times in s since the caller's origin. procs: requested processors. request: requested run time.
#: priority_s, backfill_s, running_s: assumed run times for the order, for backfilling, and for a running job.
#: start, expected: start and expected end of a started job. reservation: of a waiting job, or infinity; under EASY the
#: first one that it had as the head. waiting: 1 while in the queue. backfilled: 1 if the job overtook another one.
JOB = np.dtype(
    [
        ("submit", np.float64),
        ("procs", np.int64),
        ("request", np.float64),
        ("priority_s", np.float64),
        ("backfill_s", np.float64),
        ("running_s", np.float64),
        ("start", np.float64),
        ("expected", np.float64),
        ("reservation", np.float64),
        ("waiting", np.int64),
        ("backfilled", np.int64),
    ]
)


class QueueState(NamedTuple):
    """State of a queue and its machine.

    jobs: `JOB` records by slot.
    lists: int64[LISTS, slots].
    columns: float64[COLUMNS, slots], the values of waiting jobs that a pass reads, contiguous because queues grow long.
    scores: float64[slots], scratch values of a pass by place in the queue.
    counts, times: see the indices above.
    """

    jobs: Rows
    lists: Ints
    columns: Floats
    scores: Floats
    counts: Ints
    times: Floats


class Rules(NamedTuple):
    """The policy as numbers.

    increment_s, delay_budget_s: see `apples.queueing.settings`.
    operations, constants: stack program of the expression.
    stack: float64, space for its values.
    """

    priority: int
    backfill: int
    backfill_order: int
    overrun: int
    increment_s: float
    delay_budget_s: float
    operations: Ints
    constants: Floats
    stack: Floats


def empty_state(slots: int, processors: int) -> QueueState:
    """Return the state of an idle machine, with space for `slots` jobs."""
    counts = np.zeros(COUNTS, np.int64)
    counts[FREE], counts[HEAD] = processors, -1
    jobs = np.zeros(slots, JOB)
    jobs["start"] = jobs["expected"] = np.nan
    jobs["reservation"] = np.inf
    return QueueState(
        jobs=jobs,
        lists=np.zeros((LISTS, slots), np.int64),
        columns=np.zeros((COLUMNS, slots)),
        scores=np.zeros(slots),
        counts=counts,
        times=np.zeros(TIMES),
    )
