"""Records of a job of the live queue: its submission, its state and its end. Standard library only."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

WAITING, STARTING, RUNNING, ENDED = "waiting", "starting", "running", "ended"
"""States. starting: the start is decided, and no supervisor has claimed the job yet."""

FINISHED, FAILED, TIME_LIMIT, CANCELLED, NOT_STARTED, LOST = (
    "finished",
    "failed",
    "time limit",
    "cancelled",
    "not started",
    "lost",
)
"""Outcomes. not started: directory, output file or program cannot be used. lost: the end was not observed."""

CONDITIONS = ("ok", "any", "failed")
"""How a job that another one waits for has to end. ok: finished with exit code 0. failed: any other way.

Of an array: all of its jobs end, and for `failed` one of them fails.
"""

TURN = "turn"
"""A condition on the other jobs of an array, as `turn:N`: fewer than N of them may start or hold processors."""

JOB_NAME = r"[1-9][0-9]{0,39}(_[0-9]{1,7})?"
"""Form of the number of a job or an array, or of a job of an array, `ARRAY_TASK`."""

CODE_TIME_LIMIT, CODE_LOST, CODE_CANCELLED = 124, 125, 143


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDemand:
    """The demand of a user on the queue.

    token: unique value of the client, so that a repeated request makes one job.
    request_s: wall time after which the job is ended.
    model_s: run time by a performance model, or None.
    output, error: paths in which %j, %x and %u are replaced when the job starts. Equal paths make one file.
    duties: share of its processor that each rank computes for, or one value for all ranks. Not empty: the job may share
        its processors with another job that allows it.
    held: it waits until it is released.
    after: conditions on other jobs, each as `KIND:JOB`; see `CONDITIONS`. JOB is a number, or `ARRAY_TASK`.
    at_once: most jobs of its array that run at once, 0 without limit.
    affinity: CPUs of the process that submitted.
    """

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
    model_s: float | None = None
    duties: tuple[float, ...] = ()
    held: bool = False
    after: tuple[str, ...] = ()
    at_once: int = 0
    affinity: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(JobDemand):
    """A request to run one command.

    nice, rlimits: of the process that submitted; rlimits as (soft, hard) by name.
    tasks: numbers of the jobs of an array, each of which runs the command. Empty: it is one job.
    """

    gid: int
    environment: Mapping[str, str] = field(repr=False)
    umask: int
    nice: int = 0
    rlimits: Mapping[str, Sequence[int]] = field(default_factory=dict)
    tasks: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Return the bytes that the store needs for it, without its row's numbers."""
        texts = (self.token, self.name, self.project, self.directory, self.output, self.error, *self.command)
        pairs = (text for pair in self.environment.items() for text in pair)
        return sum(len(text.encode()) + 4 for text in (*texts, *pairs)) + 8 * len(self.duties)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord(JobDemand):
    """A job in the store, without its environment.

    Times are seconds since the queue's origin, except `ended_at`: s since the epoch.

    submitted_s, start_s, freed_s: instants. A job that was held or waited for others counts as submitted when it may
        start. At `freed_s` the end was recorded and the processors were released.
    estimate_s: run time, estimated at submission.
    estimates: estimate of each source at submission, s.
    expected_s: expected end of a running job.
    planned_s: reservation of a waiting job, under EASY the first one that it had as the head.
    foreseen: waits that were predicted at the submission (`apples.queueing.startranges.ForeseenWait` as JSON), or None.
    after: only until all of it holds.
    array, task: first job of its array, and its own number in it; None without an array.
    beside: job that held the processors when this job started as its guest, or None.
    cancel: user who cancelled the running job.
    supervisor: process id.
    attempts: number of supervisors started for the job. At most one of them ran it.
    hosts: processors by host, set at the start. Empty if the machine had shrunk by then.
    cpus: CPUs of this host that the job is held to, set at the start. Empty if it has no processors of this host.
    bytes: size of its submission.
    """

    id: int
    estimate_s: float
    estimates: Mapping[str, float]
    state: str
    submitted_s: float
    start_s: float | None = None
    freed_s: float | None = None
    expected_s: float | None = None
    planned_s: float | None = None
    foreseen: str | None = None
    array: int | None = None
    task: int | None = None
    backfilled: bool = False
    beside: int | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    outcome: str | None = None
    detail: str | None = None
    cancel: str | None = None
    supervisor: int | None = None
    attempts: int = 0
    hosts: Mapping[str, int] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()
    bytes: int = 0

    @property
    def held_s(self) -> float | None:
        """Return the seconds for which it held its processors, or None before they were released."""
        return None if self.start_s is None or self.freed_s is None else self.freed_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """The end of a job. `ended_at`: s since the epoch. `detail`: one sentence, or empty."""

    outcome: str
    exit_code: int
    ended_at: float = field(default_factory=time.time)
    detail: str = ""
