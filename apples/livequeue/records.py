"""A job of the live queue: what was asked for, and what became of it. Decides nothing; standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WAITING, STARTING, RUNNING, ENDED = "waiting", "starting", "running", "ended"
"""starting : it is decided, and no supervisor has claimed the job yet."""

FINISHED, FAILED, TIME_LIMIT, CANCELLED, NOT_STARTED, LOST = (
    "finished",
    "failed",
    "time limit",
    "cancelled",
    "not started",
    "lost",
)
"""How jobs end. not started : directory, output file or program would not do.  lost : nobody saw how it ended"""

CODE_TIME_LIMIT, CODE_LOST, CODE_CANCELLED = 124, 125, 143


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a user asks for.

    token : made by the submitter, so that asking twice makes one job.  request_s : wall time, then the job is ended
    model_s : run time by a performance model, None without one.  output, error : paths with %j, %x, %u filled in when
    the job starts; the same path for both makes one file
    """

    token: str
    uid: int
    gid: int
    user: str
    project: str
    name: str
    command: tuple[str, ...]
    directory: str
    environment: Mapping[str, str] = field(repr=False)
    umask: int
    output: str
    error: str
    procs: int
    request_s: float
    model_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as the store knows it, without its environment.

    Seconds are since the queue's origin, except `ended_at`, since the epoch.  submitted_s, start_s, freed_s : instants
    of the queue; freed when its end was noted and its processors were given back.  estimate_s : at submission
    said : run time by each source, as asked at submission.  expected_s : end of a running job, as believed
    planned_s : a waiting job's own reservation (conservative backfilling).  cancel : who asked for its end
    hosts : processors by host, from its start on; empty where the machine had shrunk under the queue
    attempts : supervisors that were started for it; one of them at most ran it
    """

    id: int
    token: str
    uid: int
    user: str
    project: str
    name: str
    command: tuple[str, ...]
    directory: str
    output: str
    error: str
    procs: int
    request_s: float
    model_s: float | None
    estimate_s: float
    said: Mapping[str, float]
    state: str
    submitted_s: float
    start_s: float | None = None
    freed_s: float | None = None
    expected_s: float | None = None
    planned_s: float | None = None
    backfilled: bool = False
    ended_at: float | None = None
    exit_code: int | None = None
    outcome: str | None = None
    detail: str | None = None
    cancel: str | None = None
    supervisor: int | None = None
    attempts: int = 0
    hosts: Mapping[str, int] = field(default_factory=dict)

    @property
    def held_s(self) -> float | None:
        """How long it had its processors; None unless they were given back."""
        return None if self.start_s is None or self.freed_s is None else self.freed_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a job ended. ended_at : seconds since the epoch.  detail : one sentence, or empty"""

    outcome: str
    exit_code: int
    ended_at: float
    detail: str = ""
