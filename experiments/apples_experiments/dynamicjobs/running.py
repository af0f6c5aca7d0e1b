"""One dynamic workload under one policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apples.coscheduling.policies import CoschedulingConstants, policy_kind
from apples.simulation.batch.trace import Trace
from apples_experiments.cluster.constants import ClusterConstants
from apples_experiments.cluster.simulation import simulate
from apples_experiments.cluster.workload import BspJob
from apples_experiments.dynamicjobs.admission import AdmissionQueue
from apples_experiments.dynamicjobs.measures import JobTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A machine and its policy.

    mpl: rows of the matrix, 1 for a policy that gives processors to one job at a time.
    increment_s: see `apples_experiments.dynamicjobs.rows.RowQueues`.
    """

    machine: ClusterConstants
    constants: CoschedulingConstants
    mpl: int
    increment_s: float


def run(site: Site, policy: str, trace: Trace, jobs: tuple[BspJob, ...], *, seed: int) -> JobTimes:
    """Run all jobs to their ends. `trace`: source of the jobs, with requests and arrivals.

    Raises:
        ConfigError: the policy is unknown, or a job does not fit.
    """
    exclusive = policy_kind(policy).exclusive
    requests = dict(zip((job.name for job in jobs), trace.request.tolist(), strict=True))
    admission = AdmissionQueue(
        site.machine, requests, mpl=1 if exclusive else site.mpl, increment_s=site.increment_s
    )
    course_by_job = simulate(
        site.machine, jobs, policy, seed=seed, constants=site.constants, admission=admission
    ).jobs
    return JobTimes(
        submit=np.array([job.arrival_s for job in jobs]),
        start=np.array([course_by_job[job.name].started_s for job in jobs]),
        finish=np.array([course_by_job[job.name].finished_s for job in jobs]),
        run=trace.run,
        procs=trace.procs,
        processors=site.machine.nodes * site.machine.processors,
    )
