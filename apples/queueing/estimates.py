"""Run time estimates from similar jobs: request × A, where A is a percentile of their run / request.

Section 4 of Tang et al. 2013: *similar* is a key of user, project and requested time; *recent* is a window before the
submission; *aggressive* is the percentile. A is at most 1 and at least a floor. A job with too few similar jobs keeps
its request. Estimators receive ended jobs and estimate submitted ones. No estimator sees a run time before the end.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from apples.errors import ConfigError
from apples.queueing.jobs import QueueJob
from apples.queueing.state import Floats

KEYS = ("all", "project", "user", "double", "triple")
"""double: user and project. triple: user, project and requested time."""

MONTH_S = 30 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """Similarity, recency and aggressiveness. Defaults are the paper's recommendation (section 4.2.5).

    key: one of `KEYS`.
    window_s: age limit of ended jobs before the submission, or infinity.
    percentile: 0 to 100.
    floor: least value of A.
    minimum: least number of similar jobs.
    """

    key: str = "triple"
    window_s: float = MONTH_S
    percentile: float = 85.0
    floor: float = 0.5
    minimum: int = 10

    def __post_init__(self) -> None:
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
        """Return the value that similar jobs share."""
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
    """R = run / request of ended jobs, by group, inside a window. R above 1 counts as 1, as in the paper."""

    def __init__(self, window_s: float) -> None:
        """Start without ratios. `window_s`: older ends are deleted."""
        self._window_s = window_s
        self._groups: dict[Hashable, _Similar] = {}

    def add(self, group: Hashable, end_s: float, ratio: float) -> None:
        """Add an ended job. Ends must be added in order of time."""
        similar = self._groups.get(group)
        if similar is None:
            similar = self._groups[group] = _Similar()
        ratio = min(ratio, 1.0)
        similar.by_end.append((end_s, ratio))
        insort(similar.ordered, ratio)
        self._forget(similar, end_s)

    def sorted(self, group: Hashable, now_s: float) -> Sequence[float]:
        """Return the ratios of a group inside the window, ascending."""
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
    """Return the value at index int(fraction × n) of n sorted values, as Cobalt does; at most the last one."""
    return ordered[min(int(percentile / 100.0 * len(ordered)), len(ordered) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeEstimate:
    """Estimated run time of a job.

    source: "history", "model" or "request".
    similar: number of ended jobs used.
    """

    seconds: float
    source: str
    similar: int


class Estimator(Protocol):
    """Interface of estimators. Ends and submissions must be passed in order of time."""

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """Learn from an ended job."""

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """Return the estimated run time of a submitted job."""


class SimilarJobs:
    """The paper's adjustment: a percentile of the used share of similar jobs' requests."""

    def __init__(self, scheme: Scheme) -> None:
        """Start without history. `scheme`: parameters of the adjustment."""
        self.scheme = scheme
        self._ratios = Ratios(scheme.window_s)

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """Learn from an ended job. Ends must be passed in order of time."""
        group = self.scheme.group(job.user, job.project, job.request_s)
        self._ratios.add(group, end_s, run_s / job.request_s)

    def history(self, job: QueueJob, now_s: float) -> Sequence[float]:
        """Return run / request of similar jobs inside the window, ascending."""
        return self._ratios.sorted(self.scheme.group(job.user, job.project, job.request_s), now_s)

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """Return the estimate from history, or the request if there are too few similar jobs."""
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
        """Average the last `last` jobs; raise `ConfigError` if that is not at least 1."""
        if last < 1:
            raise ConfigError(f"mean of the last {last} jobs; 1 or more are legal")
        self.last = last
        self._runs: dict[Hashable, deque[float]] = {}

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """Learn from an ended job."""
        self._runs.setdefault(job.user, deque(maxlen=self.last)).append(run_s)

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """Return the mean, or the request until the user has ended `last` jobs."""
        runs = self._runs.get(job.user, ())
        if len(runs) < self.last:
            return RunTimeEstimate(seconds=job.request_s, source="request", similar=len(runs))
        seconds = min(max(sum(runs) / len(runs), 1.0), job.request_s)
        return RunTimeEstimate(seconds=seconds, source="history", similar=len(runs))


class RunTimeEnsemble:
    """Mean of three online estimates, each at most the request. It covers for what each of them gets wrong.

    The mean of the user's last two run times; the geometric mean of the last five of the most similar jobs (user,
    request and processors, then user and request, then user); a recursive least squares fit with forgetting of the
    logarithm of the run time to those of the request, of the processors and of these earlier run times.
    """

    _FORGETTING, _PRIOR = 0.999, 100.0

    def __init__(self) -> None:
        """Start without history."""
        self._last: dict[Hashable, deque[float]] = {}
        self._logarithms: dict[Hashable, deque[float]] = {}
        self._weights = np.zeros(6)
        self._covariance = self._PRIOR * np.eye(6)

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """Learn from an ended job."""
        run_s = max(run_s, 1.0)
        features = self._features(job)
        projected = self._covariance @ features
        gain = projected / (self._FORGETTING + features @ projected)
        self._weights = self._weights + gain * (math.log(run_s) - features @ self._weights)
        covariance = (self._covariance - np.outer(gain, projected)) / self._FORGETTING
        # Rounding would make it asymmetric, and forgetting let it grow without bound in directions never seen.
        covariance = (covariance + covariance.T) / 2.0
        self._covariance = covariance / max(1.0, covariance.trace() / (1e6 * self._PRIOR))
        self._last.setdefault(job.user, deque(maxlen=2)).append(run_s)
        for group in self._groups(job):
            self._logarithms.setdefault(group, deque(maxlen=5)).append(math.log(run_s))

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """Return the mean, or the request for a user of whom no job has ended."""
        last = self._last.get(job.user, ())
        if not last:
            return RunTimeEstimate(seconds=job.request_s, source="request", similar=0)
        features = self._features(job)
        # The logarithms of a request are at most some tens; a fit may be anything.
        logarithms = [features[4], min(float(features @ self._weights), 50.0)]
        values = [*map(math.exp, logarithms), *([sum(last) / 2] if len(last) == 2 else [])]
        seconds = min(
            sum(min(max(value, 1.0), job.request_s) for value in values) / len(values), job.request_s
        )
        return RunTimeEstimate(seconds=seconds, source="history", similar=len(last))

    def _features(self, job: QueueJob) -> Floats:
        """Return 1 and logarithms: request, processors + 1, mean of the last runs, the most similar runs, last run."""
        request = math.log(max(job.request_s, 1.0))
        last = self._last.get(job.user, ())
        mean, latest = (math.log(sum(last) / len(last)), math.log(last[-1])) if last else (request, request)
        similar = next((self._logarithms[g] for g in self._groups(job) if g in self._logarithms), None)
        level = request if similar is None else sum(similar) / len(similar)
        return np.array([1.0, request, math.log(job.procs + 1), mean, level, latest])

    def _groups(self, job: QueueJob) -> tuple[Hashable, ...]:
        return (job.user, job.request_s, job.procs), (job.user, job.request_s), (job.user,)


class ModelFirst:
    """The value of a performance model for jobs that have one, else that of another estimator."""

    def __init__(self, other: Estimator) -> None:
        """Wrap an estimator. `other`: used for jobs without a model's value."""
        self._other = other

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """Pass an ended job to the other estimator, in either case."""
        self._other.ended(job, run_s, end_s)

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """Return at most the request. The other estimator is always called, because it may score its value."""
        estimate = self._other.estimate(job, now_s)
        if job.model_s is None:
            return estimate
        return RunTimeEstimate(seconds=min(max(job.model_s, 1.0), job.request_s), source="model", similar=0)
