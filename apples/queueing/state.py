"""The records that the compiled pass works on: a row for every job, and lists of rows.

Jobs are slots (row numbers). The queue is in order of submission, the running list in order of expected end. Everything
is allocated once, so a job costs the same memory however long the queue is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = np.ndarray[Any, Any]
"""An array of records; columns by name."""

#: Indices into `State.counts`. FREE : idle processors.  STARTED : jobs that the last pass started
QUEUED, RUNNING, FREE, STARTED, COUNTS = 0, 1, 2, 3, 4

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


class State(NamedTuple):
    """jobs : `JOB` records by slot.  lists : int64[LISTS, slots].  scores : room for a pass, by place in the queue."""

    jobs: Rows
    lists: Ints
    scores: Floats
    counts: Ints


class Rules(NamedTuple):
    """The policy as numbers. increment_s : see `apples.queueing.settings`.  operations, constants : the expression."""

    priority: int
    backfill: int
    overrun: int
    increment_s: float
    operations: Ints
    constants: Floats


def empty_state(slots: int, processors: int) -> State:
    """Room for so many jobs on an idle machine of so many processors."""
    counts = np.zeros(COUNTS, np.int64)
    counts[FREE] = processors
    jobs = np.zeros(slots, JOB)
    jobs["start"] = jobs["expected"] = np.nan
    jobs["reservation"] = np.inf
    return State(jobs=jobs, lists=np.zeros((LISTS, slots), np.int64), scores=np.zeros(slots), counts=counts)
