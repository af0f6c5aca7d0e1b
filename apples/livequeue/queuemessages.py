"""Every document on the queue's socket, one record each, and the check of the store's records.

Manager and clients read with the same decoders (`QUEUE_REQUESTS`). Supervisors import none of this: they read what the
manager wrote.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from apples.daemons.ipc.requests import Exchange, matching, short
from apples.errors import HistoryError
from apples.livequeue.records import CONDITIONS, JOB_NAME, JobRecord
from apples.queueing.settings import RANGE_PERCENTILE

#: Longest path of Linux with its NUL, longest word of a command line with its NUL, and longest span of time (10 years).
_PATH, _WORD, _LONGEST_S = 4096, 131072, 10 * 365 * 86400.0
#: Most duty cycles of a job.
_MOST_RANKS = 65_536
#: Most jobs that one waits for.
_MOST_CONDITIONS = 100
#: Most jobs of an array, and the largest number of one in it.
MOST_TASKS, _LAST_TASK = 1000, 999_999
#: The largest number of a job in the store.
LAST_JOB = 2**63 - 1

Label = Annotated[str, Meta(max_length=200)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Word = Annotated[str, matching(r"\A[^\0]*\Z", "text without NUL is legal", max_length=_WORD)]
AbsolutePath = Annotated[str, matching(r"\A/[^\0]*\Z", "an absolute path is legal", max_length=_PATH)]
Variable = Annotated[str, matching(r"\A[^=\0]+\Z", "a name without '=' is legal", max_length=_WORD)]
Span_s = Annotated[float, Meta(gt=0, le=_LONGEST_S)]
#: A number beyond the store's is that of no job (`UnknownJob`), not an illegal value.
JobId = Annotated[int, Meta(ge=1)]
#: A number, of a job or of an array, or a job of an array as 12_3.
JobName = Annotated[
    str, matching(rf"\A{JOB_NAME}\Z", "the number of a job or an array, or ARRAY_TASK is legal")
]

Condition = Annotated[
    str,
    matching(
        rf"\A({'|'.join(CONDITIONS)}):{JOB_NAME}\Z",
        f"{', '.join(f'{kind}:JOB' for kind in CONDITIONS)} are legal",
    ),
]


class JobRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The argument of `submit`; `apples.livequeue.records.Submission` has the meaning of each value."""

    token: Name
    name: Name
    project: Label
    command: Annotated[tuple[Word, ...], Meta(min_length=1, max_length=_WORD)]
    directory: AbsolutePath
    environment: dict[Variable, Word]
    umask: Annotated[int, Meta(ge=0, le=0o777)]
    output: AbsolutePath
    error: AbsolutePath
    procs: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    request_s: Span_s
    model_s: Span_s | None = None
    duties: Annotated[tuple[Annotated[float, Meta(ge=0, le=1)], ...], Meta(max_length=_MOST_RANKS)] = ()
    held: bool = False
    after: Annotated[tuple[Condition, ...], Meta(max_length=_MOST_CONDITIONS)] = ()
    tasks: Annotated[tuple[Annotated[int, Meta(ge=0, le=_LAST_TASK)], ...], Meta(max_length=MOST_TASKS)] = ()
    at_once: Annotated[int, Meta(ge=0, le=MOST_TASKS)] = 0

    def __post_init__(self) -> None:
        for field in ("token", "name", "project"):
            if not getattr(self, field).isprintable():
                raise ValueError(f"{field} {short(getattr(self, field))}: printable characters are legal")
        if len(self.duties) not in (0, 1, self.procs):
            raise ValueError(f"duties: {len(self.duties)} numbers; one, or one for each processor is legal")
        if len(set(self.tasks)) < len(self.tasks) or (self.at_once and not self.tasks):
            raise ValueError("tasks, at_once: different numbers are legal, and a limit of an array")


class PageRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The argument of `queue`.

    all: include jobs that have ended.
    after: only jobs with higher numbers.
    percentile: stated share of starts inside their predicted ranges.
    """

    all: bool = False
    after: Annotated[int, Meta(ge=0, le=LAST_JOB)] = 0
    percentile: Annotated[float, Meta(ge=50, le=99)] = RANGE_PERCENTILE


class Instants(Struct, frozen=True, kw_only=True):
    """Instants of a job, in seconds since the queue's origin."""

    submitted_s: float
    start_s: float | None
    freed_s: float | None


class JobRow(Struct, frozen=True, kw_only=True):
    """One job in an answer. Durations in s, times in s since the epoch.

    duties, held, after, array, task, beside: as in `JobRecord`.
    start_early, start_median, start_late: predicted start. Of a job that has started, as predicted at its submission;
        None without a prediction.
    detail, command, directory, output: only for the job's owner, the manager's user and root.
    """

    id: int
    name: str
    user: str
    project: str
    procs: int
    hosts: Mapping[str, int]
    request_s: float
    estimate_s: float
    state: str
    position: int | None
    submitted: float
    waited_s: float
    start: float | None
    start_early: float | None = None
    start_median: float | None = None
    start_late: float | None = None
    backfilled: bool
    duties: tuple[float, ...] = ()
    held: bool = False
    after: tuple[str, ...] = ()
    array: int | None = None
    task: int | None = None
    beside: int | None = None
    ended: float | None
    held_s: float | None
    outcome: str | None
    exit_code: int | None
    attempts: int
    instants: Instants
    detail: str | None = None
    cpus: tuple[int, ...] = ()
    command: tuple[str, ...] | UnsetType = UNSET
    directory: str | UnsetType = UNSET
    output: str | UnsetType = UNSET


class FirstJob(Struct, frozen=True, kw_only=True):
    """The reservation of the first job in line."""

    job: int
    at: float


class QueuePage(Struct, frozen=True, kw_only=True):
    """One page of the queue.

    more: the last number if there may be more jobs, else None.
    ranges_held: share of recent starts inside the range (80 %) that was predicted at the submission, or None before
        there are enough.
    """

    version: int = 1
    processors: int
    hosts: Mapping[str, int]
    free: int
    priority: str
    backfill: str
    estimates: str
    first: FirstJob | None
    origin: float
    ranges_held: float | None = None
    more: int | UnsetType | None = UNSET
    jobs: tuple[JobRow, ...]


class Changed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of `cancel`, `hold` or `release` for one job: its state, or the refusal with the error's exit code."""

    job: int
    state: str | None = msgspec.field(default=None, name="is")
    refused: str | None = None
    code: int | None = None


#: Requests to the manager of a queue. `wait` is answered when the job has ended.
QUEUE_REQUESTS: Mapping[str, Exchange[Any]] = {
    "submit": Exchange(JobRequest, int),
    "queue": Exchange(PageRequest | None, QueuePage),
    "jobs": Exchange(Annotated[list[JobName], Meta(max_length=1000)], list[int]),
    "why": Exchange(JobId, str),
    **dict.fromkeys(
        ("cancel", "hold", "release"), Exchange(Annotated[list[JobId], Meta(max_length=1000)], list[Changed])
    ),
    "wait": Exchange(JobId, JobRow),
}


def answer(name: str, value: object) -> bytes:
    """Return the line of an answer. Numbers that are not finite become null."""
    return msgspec.json.encode({name: value}) + b"\n"


def stored_job(values: dict[str, Any]) -> JobRecord:
    """Return the validated record of a job; raise `HistoryError` if the store has been damaged."""
    try:
        return msgspec.convert(values, JobRecord)
    except ValueError as error:
        raise HistoryError(f"job {values['id']!r:.60}: {error}") from None
