"""Result of a simulation: start and end of jobs, counts of the monitors, classes of ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apples.coscheduling.classes import MonitorCounts, ProcessClass
from apples.coscheduling.events import Process
from apples_experiments.cluster.workload import BspJob


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """Times of one job in seconds from the start of the simulation; `started_s` is the start of its ranks."""

    name: str
    arrived_s: float
    started_s: float
    finished_s: float

    @property
    def response_s(self) -> float:
        """Time from submission to the end of its last rank."""
        return self.finished_s - self.arrived_s

    @property
    def wait_s(self) -> float:
        """Time from submission to the start."""
        return self.started_s - self.arrived_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOutcome:
    """Result for all jobs.

    readings : final monitor counts of each rank
    classes : by process, its most frequent class since it was first judged; empty if the policy has no
        classes, or the job ended before
    """

    jobs: Mapping[str, JobOutcome]
    readings: Mapping[Process, MonitorCounts]
    classes: Mapping[Process, ProcessClass]

    @property
    def turnaround_s(self) -> float:
        """End of the last job."""
        return max(job.finished_s for job in self.jobs.values())

    @property
    def mean_response_s(self) -> float:
        """Mean response time over jobs."""
        return sum(job.response_s for job in self.jobs.values()) / len(self.jobs)

    @property
    def mean_wait_s(self) -> float:
        """Mean waiting time over jobs."""
        return sum(job.wait_s for job in self.jobs.values()) / len(self.jobs)


def outcome_of(
    jobs: Mapping[str, BspJob],
    times: Mapping[str, tuple[int, int]],
    pages: Mapping[Process | None, Sequence[int]],
    seen: Mapping[Process, Counter[ProcessClass]],
) -> ClusterOutcome:
    """Return the result from the counts of a simulation, in nanoseconds.

    times : start and end by job.  pages : t_cpu, t_comm and c_comm by process; None for system processes
    seen : by process, how often each class was seen
    """
    return ClusterOutcome(
        jobs={
            name: JobOutcome(
                name=name,
                arrived_s=jobs[name].arrival_s,
                started_s=started / 1e9,
                finished_s=finished / 1e9,
            )
            for name, (started, finished) in times.items()
        },
        readings={
            process: MonitorCounts(t_cpu / 1e9, t_comm / 1e9, c_comm)
            for process, (t_cpu, t_comm, c_comm) in pages.items()
            if process is not None
        },
        classes={process: kinds.most_common(1)[0][0] for process, kinds in seen.items()},
    )
