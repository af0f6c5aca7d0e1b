"""The records that the compiled pass works on: a row for every job, and lists of rows.

Jobs are slots (row numbers). The queue is in order of submission, with vacated places until it closes ranks; the
running list is in order of expected end. Everything is allocated once, so a job costs the same memory however long the
queue is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Rows = np.ndarray[Any, Any]
"""An array of records; columns by name."""

#: Indices into `State.counts`. QUEUED : places of the queue in use, vacated ones included.  WAITING : jobs in them
#: FREE : idle processors.  STARTED : jobs that the last pass started
#: HEAD : place of the top of the queue, -1 unknown.  RANKED : places that were compared for it
#: CHECKED : places that cannot start as long as neither head nor processors change.  EXTRA : beside the head's job
QUEUED, WAITING, RUNNING, FREE, STARTED, HEAD, RANKED, CHECKED, EXTRA, COUNTS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

#: Indices into `State.times`. HEAD_UNTIL : nobody overtakes the head's priority before.  SHADOW : the head's promise
HEAD_UNTIL, SHADOW, TIMES = 0, 1, 2

#: Rows of `State.columns`, by place in the queue. RANK : what the priority needs of a job, see `apples.queueing.head`
PROCS, SPAN, SUBMIT, RANK, COLUMNS = 0, 1, 2, 3, 4

#: `PROCS` of a place whose job has left: it never fits.
VACANT = np.inf

#: Rows of `State.lists`: waiting slots, running slots, slots that the last pass started, room for a pass.
QUEUE, RUNNERS, STARTS, SCRATCH, LISTS = 0, 1, 2, 3, 4

#: Codes of `Rules.priority`.
FCFS, SJF, WFP, EXPRESSION = 0, 1, 2, 3

#: Codes of `Rules.backfill`.
NO_BACKFILL, EASY, CONSERVATIVE = 0, 1, 2

#: Codes of `Rules.overrun`.
TO_REQUEST, BY_INCREMENT, BY_DOUBLING, BY_HALF = 0, 1, 2, 3

#: A job. Seconds throughout; times since whatever origin the caller uses.
#: procs : processors asked for.  request : what the user asked for.  priority_s, backfill_s, running_s : what the
#: policy believes, for ordering the queue, for a candidate to backfill, and once it runs.  start, expected : when
#: a started job started, and when it is expected to end.  reservation : of a waiting job under conservative
#: backfilling, infinite without one.  waiting : 1 while in the queue.  backfilled : 1 if it overtook another
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
    """Of a queue and its machine.

    jobs : `JOB` records by slot.  lists : int64[LISTS, slots]
    columns : float64[COLUMNS, slots], what a pass reads of each waiting job, side by side because queues grow long
    scores : room for a pass, by place in the queue.  counts, times : see the indices
    """

    jobs: Rows
    lists: Ints
    columns: Floats
    scores: Floats
    counts: Ints
    times: Floats


class Rules(NamedTuple):
    """The policy as numbers. increment_s : see `apples.queueing.settings`.  operations, constants : the expression.
    stack : room for its values
    """

    priority: int
    backfill: int
    overrun: int
    increment_s: float
    operations: Ints
    constants: Floats
    stack: Floats


def empty_state(slots: int, processors: int) -> QueueState:
    """Room for so many jobs on an idle machine of so many processors."""
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
