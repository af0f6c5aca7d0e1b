"""Models of each request and answer on the queue's socket, and of each record of its store.

The manager reads and writes by these models. Clients and supervisors import none of this, because it would double the
time of their start: clients exchange plain JSON, and supervisors read what the manager wrote.
"""

from collections.abc import Mapping
from typing import Annotated, Any, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)

from apples.daemons.ipc.requests import problems, short
from apples.errors import HistoryError
from apples.livequeue.records import JobRecord

#: Longest path of Linux with its NUL, longest word of a command line with its NUL, and longest span of time (10 years).
_PATH, _WORD, _LONGEST_S = 4096, 131072, 10 * 365 * 86400.0
#: Most duty cycles of a job.
_MOST_RANKS = 65_536
#: The largest number of a job in the store.
LAST_JOB = 2**63 - 1


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("printable characters are legal")
    return text


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("text without NUL is legal")
    return text


def _absolute(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("an absolute path is legal")
    return _without_nul(text)


def _variable(text: str) -> str:
    if not text or "=" in text:
        raise ValueError("a name without '=' is legal")
    return _without_nul(text)


Label = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
Name = Annotated[Label, Field(min_length=1)]
Word = Annotated[str, Field(max_length=_WORD), AfterValidator(_without_nul)]
Place = Annotated[str, Field(max_length=_PATH), AfterValidator(_absolute)]
Variable = Annotated[str, Field(max_length=_WORD), AfterValidator(_variable)]
Span_s = Annotated[float, Field(gt=0, le=_LONGEST_S)]
JobId = Annotated[int, Field(ge=1, strict=True)]


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class JobRequest(_Model):
    """The argument of `submit`; `apples.livequeue.records.Submission` has the meaning of each value."""

    token: Name
    name: Name
    project: Label
    command: Annotated[list[Word], Field(min_length=1, max_length=_WORD)]
    directory: Place
    environment: dict[Variable, Word]
    umask: Annotated[int, Field(ge=0, le=0o777)]
    output: Place
    error: Place
    procs: Annotated[int, Field(ge=1, le=2**31 - 1)]
    request_s: Span_s
    model_s: Span_s | None = None
    duties: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(max_length=_MOST_RANKS)] = []

    @field_validator("duties")
    @classmethod
    def _one_for_each_rank(cls, duties: list[float], found: ValidationInfo) -> list[float]:
        if len(duties) not in (0, 1, found.data.get("procs", len(duties))):
            raise ValueError(f"{len(duties)} numbers; one, or one for each processor is legal")
        return duties


class PageRequest(_Model):
    """The argument of `queue`. all: include jobs that have ended. after: only jobs with higher numbers."""

    all: bool = False
    after: Annotated[int, Field(ge=0, le=LAST_JOB)] = 0


#: Requests with the type of their argument.
REQUESTS: Mapping[str, TypeAdapter[Any]] = {
    "submit": TypeAdapter(JobRequest),
    "queue": TypeAdapter(PageRequest | None),
    "why": TypeAdapter(JobId),
    "cancel": TypeAdapter(Annotated[list[JobId], Field(max_length=1000, strict=True)]),
    "wait": TypeAdapter(JobId),
}


class Instants(_Model):
    """Instants of a job, in seconds since the queue's origin."""

    submitted_s: float
    start_s: float | None
    freed_s: float | None


class JobRow(_Model):
    """One job in an answer. Durations in s, times in s since the epoch.

    duties, beside: as in `JobRecord`.
    start_early, start_late: None if the job is not waiting or has no prediction.
    detail, command, directory, output: only for the job's owner, the manager's user and root.
    """

    id: int
    name: str
    user: str
    project: str
    procs: int
    hosts: dict[str, int]
    request_s: float
    estimate_s: float
    state: str
    position: int | None
    submitted: float
    waited_s: float
    start: float | None
    start_early: float | None = None
    start_late: float | None = None
    backfilled: bool
    duties: list[float] = []
    beside: int | None = None
    ended: float | None
    held_s: float | None
    outcome: str | None
    exit_code: int | None
    attempts: int
    instants: Instants
    detail: str | None = None
    cpus: list[int] = []
    command: list[str] | None = None
    directory: str | None = None
    output: str | None = None


class FirstJob(_Model):
    """The reservation of the first job in line."""

    job: int
    at: float


class QueuePage(_Model):
    """One page of the queue. `more`: the last number if there may be more jobs, else None."""

    version: int = 1
    processors: int
    hosts: dict[str, int]
    free: int
    priority: str
    backfill: str
    estimates: str
    first: FirstJob | None
    origin: float
    more: int | None
    jobs: list[JobRow]


class Cancelled(_Model):
    """The result of `cancel` for one job: its state, or the refusal."""

    job: int
    state: str | None = Field(default=None, serialization_alias="is")
    refused: str | None = None
    code: int | None = None


class Answer(_Model):
    """One line to a client: the value of its request, or a refusal. `code`: the exit code of the error."""

    job: int | None = None
    queue: QueuePage | None = None
    why: str | None = None
    cancel: list[Cancelled] | None = None
    ended: JobRow | None = None
    refused: str | None = None
    code: int | None = None

    def line(self) -> bytes:
        """Return the JSON line. Numbers that are not finite become null."""
        return self.model_dump_json(exclude_unset=True, by_alias=True).encode() + b"\n"


def stored_job(values: dict[str, Any]) -> JobRecord:
    """Return the validated record of a job; raise `HistoryError` if the store has been damaged."""
    try:
        _STORED.model_validate(values)
    except ValidationError as error:
        raise HistoryError("\n".join(problems(f"job {short(values['id'])}", error))) from None
    return JobRecord(**values)


_STORED_FIELDS: dict[str, Any] = {name: (kind, ...) for name, kind in get_type_hints(JobRecord).items()}
_STORED = create_model("StoredJob", __base__=_Model, **_STORED_FIELDS)
