"""Possible run times of a job, from jobs that ended: their run times as shares of their requests.

Similar jobs, the first group with a ratio that is long enough: the user's last jobs with the same request, the user's
last jobs, everybody's last jobs. A job with a performance model is compared with other such jobs, by the model's value.
"""

from collections import deque
from collections.abc import Hashable, Iterator

import numpy as np

from apples.queueing.jobs import QueueJob
from apples.queueing.state import Floats

#: Ratios that are kept of a user's jobs with one request, of a user, and of all.
_SAME, _USER, _ALL = 20, 20, 300

#: Most groups. Beyond it, the group that appeared first is dropped.
_MOST_GROUPS = 20_000


class PastRuns:
    """Ratios of run time and stated time by group of similar jobs."""

    def __init__(self) -> None:
        self._ratios: dict[Hashable, deque[float]] = {}
        self._sorted: dict[Hashable, Floats] = {}

    def ended(self, job: QueueJob, run_s: float) -> None:
        """Learn from an ended job. Ends must be passed in order of time."""
        for group, most in _groups(job):
            ratios = self._ratios.setdefault(group, deque(maxlen=most))
            ratios.append(run_s / stated_s(job))
            self._sorted.pop(group, None)
        while len(self._ratios) > _MOST_GROUPS:
            group = next(iter(self._ratios))
            del self._ratios[group]
            self._sorted.pop(group, None)

    def longer_than(self, job: QueueJob, elapsed_s: float) -> Floats:
        """Return possible run times above `elapsed_s`, s, ascending; empty if the job has outlived all.

        Without similar jobs these are the model's value and the request.
        """
        least = elapsed_s / stated_s(job)
        for group, _ in _groups(job):
            ratios = self._ascending(group)
            longer = ratios[ratios.searchsorted(least, "right") :]
            if len(longer):
                return longer * stated_s(job)
        return np.array(sorted({s for s in (stated_s(job), job.request_s) if s > elapsed_s}))

    def _ascending(self, group: Hashable) -> Floats:
        ratios = self._sorted.get(group)
        if ratios is None:
            ratios = self._sorted[group] = np.sort(np.array(self._ratios.get(group, ())))
        return ratios


def stated_s(job: QueueJob) -> float:
    """Return the run time that was stated at submission, s: the model's if there is one, else the request."""
    return job.request_s if job.model_s is None else job.model_s


def _groups(job: QueueJob) -> Iterator[tuple[Hashable, int]]:
    """Yield (group, ratios to keep), most similar first."""
    modelled = job.model_s is not None
    yield (job.user, modelled, stated_s(job)), _SAME
    yield (job.user, modelled), _USER
    yield modelled, _ALL
