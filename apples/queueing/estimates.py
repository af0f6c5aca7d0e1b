"""Run time estimates from what similar jobs did: request × A, where A is a percentile of their run / request.

Section 4 of Tang et al. 2013: *similar* is a key of user, project and requested time; *recent* a window before the
submission; *aggressive* the percentile. A is never above 1 nor below a floor, and a job with too few similar ones keeps
its request. Estimators are told of ends and asked at submissions; none sees a run time before the job is over.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from apples.errors import ConfigError
from apples.queueing.jobs import QueueJob

KEYS = ("all", "project", "user", "double", "triple")
"""double : user and project.  triple : those and the requested time."""

MONTH_S = 30 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """Similarity, recency, aggressiveness. The defaults are those the paper recommends (section 4.2.5).

    key : one of `KEYS`.  window_s : of ends before the submission, infinite for all.  percentile : 0 to 100
    floor : least A.  minimum : of similar jobs
    """

    key: str = "triple"
    window_s: float = MONTH_S
    percentile: float = 85.0
    floor: float = 0.5
    minimum: int = 10

    def __post_init__(self) -> None:
        """Raises `ConfigError` for every value that is not legal."""
        problems = []
        if self.key not in KEYS:
            problems.append(f"key {self.key!r} is unknown; legal are {', '.join(KEYS)}")
        if not self.window_s > 0:
            problems.append(f"window {self.window_s!r} s; a time above 0 s is legal")
        if not 0 <= self.percentile <= 100:
            problems.append(f"percentile {self.percentile!r}; 0 to 100 are legal")
        if not 0 <= self.floor <= 1:
            problems.append(f"floor {self.floor!r} on the adjustment; 0 to 1 are legal")
        if self.minimum < 1:
            problems.append(f"minimum {self.minimum!r} of similar jobs; 1 or more are legal")
        if problems:
            raise ConfigError("\n".join(problems))

    def group(self, user: Hashable, project: Hashable, request_s: float) -> Hashable:
        """What similar jobs have in common."""
        if self.key == "triple":
            return user, project, request_s
        if self.key == "double":
            return user, project
        return {"all": None, "project": project, "user": user}[self.key]


@dataclass(slots=True)
class _Similar:
    """Ratios of one group inside the window: by time of end, and sorted."""

    by_end: deque[tuple[float, float]] = field(default_factory=deque)
    ordered: list[float] = field(default_factory=list)


class Ratios:
    """R = run / request of ended jobs, by group, inside a window. R above 1 counts as 1, as the paper has it."""

    def __init__(self, window_s: float) -> None:
        """window_s : ends older than this are forgotten."""
        self._window_s = window_s
        self._groups: dict[Hashable, _Similar] = {}

    def add(self, group: Hashable, end_s: float, ratio: float) -> None:
        """A job ended; ends come in order of time."""
        similar = self._groups.get(group)
        if similar is None:
            similar = self._groups[group] = _Similar()
        ratio = min(ratio, 1.0)
        similar.by_end.append((end_s, ratio))
        insort(similar.ordered, ratio)
        self._forget(similar, end_s)

    def sorted(self, group: Hashable, now_s: float) -> Sequence[float]:
        """Ratios of the group inside the window, ascending."""
        similar = self._groups.get(group)
        if similar is None:
            return ()
        self._forget(similar, now_s)
        return similar.ordered

    def _forget(self, similar: _Similar, now_s: float) -> None:
        oldest = now_s - self._window_s
        while similar.by_end and similar.by_end[0][0] < oldest:
            ratio = similar.by_end.popleft()[1]
            del similar.ordered[bisect_left(similar.ordered, ratio)]


def percentile_of(ordered: Sequence[float], percentile: float) -> float:
    """The value at int(fraction × n) of n sorted ones, as Cobalt takes it; the last at most."""
    return ordered[min(int(percentile / 100.0 * len(ordered)), len(ordered) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeEstimate:
    """What a job is expected to take.

    source : "history", "model" or "request".  similar : number of ended jobs that were looked at
    """

    seconds: float
    source: str
    similar: int


class Estimator(Protocol):
    """Told of ends, asked at submissions, both in order of time."""

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """A job is over."""

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """What this job is expected to take."""


class SimilarJobs:
    """The paper's adjustment: a percentile of what similar jobs used of their request."""

    def __init__(self, scheme: Scheme) -> None:
        """scheme : how to adjust."""
        self.scheme = scheme
        self._ratios = Ratios(scheme.window_s)

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """A job is over; ends come in order of time."""
        group = self.scheme.group(job.user, job.project, job.request_s)
        self._ratios.add(group, end_s, run_s / job.request_s)

    def history(self, job: QueueJob, now_s: float) -> Sequence[float]:
        """Run / request of similar jobs inside the window, ascending."""
        return self._ratios.sorted(self.scheme.group(job.user, job.project, job.request_s), now_s)

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """From history, or the request where there are too few similar jobs."""
        ordered = self.history(job, now_s)
        if len(ordered) >= self.scheme.minimum:
            ratio = max(percentile_of(ordered, self.scheme.percentile), self.scheme.floor)
            seconds, source = max(job.request_s * ratio, 1.0), "history"
        else:
            seconds, source = job.request_s, "request"
        return RunTimeEstimate(seconds=seconds, source=source, similar=len(ordered))


class RecentRuns:
    """Mean run time of the user's last jobs (Tsafrir, Etsion and Feitelson 2007: the last two), at most the request."""

    def __init__(self, last: int = 2) -> None:
        """last : number of jobs to average. Raises `ConfigError`."""
        if last < 1:
            raise ConfigError(f"mean of the last {last} jobs; 1 or more are legal")
        self.last = last
        self._runs: dict[Hashable, deque[float]] = {}

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """A job is over."""
        self._runs.setdefault(job.user, deque(maxlen=self.last)).append(run_s)

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """The mean, or the request until the user has ended so many jobs."""
        runs = self._runs.get(job.user, ())
        if len(runs) < self.last:
            return RunTimeEstimate(seconds=job.request_s, source="request", similar=len(runs))
        seconds = min(max(sum(runs) / len(runs), 1.0), job.request_s)
        return RunTimeEstimate(seconds=seconds, source="history", similar=len(runs))


class ModelFirst:
    """A calibrated performance model's answer where the job brings one, else what another estimator says."""

    def __init__(self, other: Estimator) -> None:
        """other : for jobs without a model's answer."""
        self._other = other

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """A job is over; the other estimator learns from it in either case."""
        self._other.ended(job, run_s, end_s)

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """At most the request, which ends the job. The other is asked in any case, and may keep what it said."""
        found = self._other.estimate(job, now_s)
        if job.model_s is None:
            return found
        return RunTimeEstimate(seconds=min(max(job.model_s, 1.0), job.request_s), source="model", similar=0)
