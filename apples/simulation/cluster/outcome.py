"""What comes of a simulation: when jobs started and ended, what monitors counted, how ranks were classified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apples.coscheduling.classes import ProcessClass, Reading
from apples.coscheduling.events import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """What became of a job. Seconds from the start of the simulation; `started` is when its ranks were put up."""

    name: str
    arrived_s: float
    started_s: float
    finished_s: float

    @property
    def response_s(self) -> float:
        """From submission to the end of its last rank."""
        return self.finished_s - self.arrived_s

    @property
    def wait_s(self) -> float:
        """From submission to the start."""
        return self.started_s - self.arrived_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of all jobs.

    readings : what each rank's monitor has counted in all
    classes : by process, the class it had most often since it was first judged; empty where the policy has no
        classes, or the job was over before
    """

    jobs: Mapping[str, JobOutcome]
    readings: Mapping[Process, Reading]
    classes: Mapping[Process, ProcessClass]

    @property
    def turnaround_s(self) -> float:
        """The end of the last job."""
        return max(job.finished_s for job in self.jobs.values())

    @property
    def mean_response_s(self) -> float:
        """Mean over jobs."""
        return sum(job.response_s for job in self.jobs.values()) / len(self.jobs)

    @property
    def mean_wait_s(self) -> float:
        """Mean over jobs."""
        return sum(job.wait_s for job in self.jobs.values()) / len(self.jobs)
