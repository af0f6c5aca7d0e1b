"""Which estimates came nearest: every source is asked at a job's submission and judged at its end.

One of them decides; the others are asked beside it, so that a site sees what it would gain by another choice, and how
a performance model does against history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apples.queueing.estimates import Estimator, RunTimeEstimate
from apples.queueing.jobs import QueueJob


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateScore:
    """Of one source. jobs : that ended.  accuracy : mean of equation 3.  under : share that ran longer"""

    jobs: int
    accuracy: float
    under: float


@dataclass(slots=True)
class _Sums:
    jobs: int = 0
    accuracy: float = 0.0
    under: int = 0


class Scoreboard:
    """An estimator that passes on what one says and keeps the score of all, of requests, and of models' answers."""

    def __init__(self, decides: str, sources: Mapping[str, Estimator]) -> None:
        """decides : name of the source whose estimates are passed on."""
        self._decides, self._sources = decides, dict(sources)
        self._said: dict[int, dict[str, float]] = {}
        self._sums: dict[str, _Sums] = {}

    def estimate(self, job: QueueJob, now_s: float) -> RunTimeEstimate:
        """Ask everybody; the answer is that of the source that decides."""
        answers = {name: source.estimate(job, now_s) for name, source in self._sources.items()}
        said = {name: answer.seconds for name, answer in answers.items()}
        said["request"] = job.request_s
        if job.model_s is not None:
            said["model"] = job.model_s
        self._said[job.id] = said
        return answers[self._decides]

    def said(self, job_id: int) -> Mapping[str, float]:
        """What each source said of a job that is not over, s."""
        return self._said.get(job_id, {})

    def recall(self, job_id: int, said: Mapping[str, float]) -> None:
        """What was said of a job before this board was built again."""
        self._said[job_id] = dict(said)

    def ended(self, job: QueueJob, run_s: float, end_s: float) -> None:
        """Judge what was said of this job, then let everybody learn from it."""
        for name, seconds in self._said.pop(job.id, {}).items():
            sums = self._sums.setdefault(name, _Sums())
            larger = max(seconds, run_s)
            sums.jobs += 1
            sums.accuracy += min(seconds, run_s) / larger if larger > 0 else 1.0
            sums.under += run_s > seconds
        for source in self._sources.values():
            source.ended(job, run_s, end_s)

    def forget(self, job_id: int) -> None:
        """A job left without having run."""
        self._said.pop(job_id, None)

    def scores(self) -> dict[str, EstimateScore]:
        """By source, the best first."""
        found = {
            name: EstimateScore(jobs=s.jobs, accuracy=s.accuracy / s.jobs, under=s.under / s.jobs)
            for name, s in self._sums.items()
        }
        return dict(sorted(found.items(), key=lambda item: -item[1].accuracy))
