"""Accuracy of run time estimates: every source estimates a job at its submission and is scored at its end.

One source decides. The others show what a site would gain by another source, or by a performance model.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from apples.queueing.estimates import Estimator, RunTimeEstimate
from apples.queueing.jobs import QueueJob


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateScore:
    """Score of one source.

    jobs: number of jobs that ended.
    accuracy: mean of equation 3.
    under: share of jobs that ran longer than estimated.
    """

    jobs: int
    accuracy: float
    under: float


@dataclass(slots=True)
class _Sums:
    jobs: int = 0
    accuracy: float = 0.0
    under: int = 0


class Scoreboard:
    """An estimator that returns the value of one source, and scores all sources, requests and models."""

    def __init__(self, decides: str, sources: Mapping[str, Estimator]) -> None:
        """Score these sources. `decides`: name of the source whose estimates are returned."""
        self._decides, self._sources = decides, dict(sources)
        self._estimates: dict[int, dict[str, float]] = {}
        self._sums: dict[str, _Sums] = {}

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """Return the estimate of the source that decides, and keep those of all sources."""
        answers = {name: source.estimate(job, now_s) for name, source in self._sources.items()}
        seconds = {name: answer.seconds for name, answer in answers.items()}
        seconds["request"] = job.request_s
        if job.model_s is not None:
            seconds["model"] = job.model_s
        self._estimates[job.id] = seconds
        return answers[self._decides]

    def estimates(self, job_id: int) -> Mapping[str, float]:
        """Return the estimate of each source for a job that has not ended, s."""
        return self._estimates.get(job_id, {})

    def restore(self, job_id: int, estimates: Mapping[str, float]) -> None:
        """Set estimates that an earlier process made for a job."""
        self._estimates[job_id] = dict(estimates)

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """Score the estimates of a job, then pass its run time to all sources."""
        for name, seconds in self._estimates.pop(job.id, {}).items():
            sums = self._sums.setdefault(name, _Sums())
            larger = max(seconds, run_s)
            sums.jobs += 1
            sums.accuracy += min(seconds, run_s) / larger if larger > 0 else 1.0
            sums.under += run_s > seconds
        for source in self._sources.values():
            source.ended(job, run_s, end_s)

    def forget(self, job_id: int) -> None:
        """Remove a job that left the queue without a run."""
        self._estimates.pop(job_id, None)

    def scores(self) -> dict[str, EstimateScore]:
        """Return the score of each source, best first."""
        scores = {
            name: EstimateScore(jobs=s.jobs, accuracy=s.accuracy / s.jobs, under=s.under / s.jobs)
            for name, s in self._sums.items()
        }
        return dict(sorted(scores.items(), key=lambda item: -item[1].accuracy))
