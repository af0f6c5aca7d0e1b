"""Parallel runs of dynamic workloads: every policy at every load from every seed, one process for each processor.

A case gives the same figures on every machine, and all policies get the same jobs at the same times.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from apples.queueing.easyqueue import warm
from apples.simulation.batch.trace import Trace
from apples_experiments.coscheduled_runs import compile_once
from apples_experiments.dynamic_settings import DynamicSettings
from apples_experiments.dynamic_workloads import Set
from apples_experiments.dynamicjobs.jobs import JobKind, bsp_jobs, loaded
from apples_experiments.dynamicjobs.measures import (
    JobTimes,
    Saturation,
    WorkloadFigures,
    accepted_load,
    ideal,
    measure,
    saturation,
)
from apples_experiments.dynamicjobs.running import Site, run


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DynamicCase:
    """One simulation."""

    policy: str
    load: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All runs of a set. `loads`: in ascending order. `full`: the load that keeps the queue full."""

    policies: tuple[str, ...]
    loads: tuple[float, ...]
    seeds: tuple[int, ...]
    full: float
    courses: Mapping[DynamicCase, JobTimes]
    figures: Mapping[DynamicCase, WorkloadFigures]

    def mean(self, policy: str, load: float, what: Callable[[WorkloadFigures], float]) -> float:
        """Return the mean of a figure over the seeds."""
        return sum(self.over_seeds(policy, load, what)) / len(self.seeds)

    def over_seeds(self, policy: str, load: float, what: Callable[[WorkloadFigures], float]) -> list[float]:
        """Return a figure for each seed."""
        return [what(self.figures[DynamicCase(policy=policy, load=load, seed=seed)]) for seed in self.seeds]

    def saturation(self, policy: str, keeps_up: float, seed: int | None = None) -> Saturation:
        """Return the saturation for one seed, or for the mean accepted load over all seeds."""
        accepted = [
            self.mean(policy, load, _accepted)
            if seed is None
            else self.figures[DynamicCase(policy=policy, load=load, seed=seed)].accepted
            for load in self.loads
        ]
        return saturation(self.loads, accepted, keeps_up)

    def ideal_saturation(self, keeps_up: float) -> Saturation:
        """Return the saturation of an ideal machine without waste, with the same jobs."""
        accepted = []
        for load in self.loads:
            same = [DynamicCase(policy=self.policies[0], load=load, seed=seed) for seed in self.seeds]
            accepted.append(sum(accepted_load(ideal(self.courses[case])) for case in same) / len(same))
        return saturation(self.loads, accepted, keeps_up)


def sweep(workloads: Set, settings: DynamicSettings, progress: Callable[[str], None]) -> Sweep:
    """Run the set with the settings' policies and seeds. `progress`: receives a line for each finished case."""
    cases = [
        DynamicCase(policy=policy, load=load, seed=seed)
        for policy in reversed(settings.policies)
        for seed in settings.seeds
        for load in dict.fromkeys((*workloads.loads, workloads.full))
    ]
    courses: dict[DynamicCase, JobTimes] = {}
    for case, course in _run_all(workloads, settings.vary, cases):
        courses[case] = course
        response_s = measure(course, workloads.bound_s).response.mean
        progress(
            f"{len(courses)}/{len(cases)} {case.policy}, load {case.load:.0%}, seed {case.seed}: "
            f"mean response {response_s:.1f} s"
        )
    return Sweep(
        policies=settings.policies,
        loads=workloads.loads,
        seeds=settings.seeds,
        full=workloads.full,
        courses=courses,
        figures={case: measure(course, workloads.bound_s) for case, course in courses.items()},
    )


def run_case(site: Site, policy: str, work: tuple[Trace, tuple[JobKind, ...]], seed: int) -> JobTimes:
    """Return the result of one case, run in this process. `work`: jobs with their arrivals and their programs."""
    trace, kinds = work
    return run(site, policy, trace, bsp_jobs(site.machine, trace, kinds), seed=seed)


def _run_all(
    workloads: Set, vary: str, cases: Sequence[DynamicCase]
) -> Iterator[tuple[DynamicCase, JobTimes]]:
    """Yield cases and results as they finish."""
    molds = {seed: workloads.workload(seed) for seed in {case.seed for case in cases}}

    def work(case: DynamicCase) -> tuple[Trace, tuple[JobKind, ...]]:
        trace, kinds = molds[case.seed]
        # The full queue needs more arrivals; run times ten times as long would be another workload.
        how = "arrivals" if case.load == workloads.full else vary
        return loaded(trace, case.load, vary=how), kinds

    compile_once()
    warm()
    workers = min(len(cases), len(os.sched_getaffinity(0)))
    if workers <= 1:
        for case in cases:
            yield case, run_case(workloads.site, case.policy, work(case), case.seed)
        return
    # children inherit the compiled engine from their parent; "spawn" would load it again in each
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        futures = {
            pool.submit(run_case, workloads.site, case.policy, work(case), case.seed): case for case in cases
        }
        for future in as_completed(futures):
            yield futures[future], future.result()


def _accepted(figures: WorkloadFigures) -> float:
    return figures.accepted
