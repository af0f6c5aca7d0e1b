"""Parallel runs of many simulated cases, one process for each processor of this machine.

Every case is one workload under one policy from one seed, and gives the same figures on every machine. The longest
cases start first, so that no processor is idle at the end.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from apples.coscheduling.policies import CoschedulingConstants
from apples_experiments.cluster.constants import ClusterConstants, free_of_cost
from apples_experiments.cluster.outcome import ClusterOutcome
from apples_experiments.cluster.simulation import simulate
from apples_experiments.cluster.workload import BspJob


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCase:
    """One simulation. `label`: its name in results and progress lines."""

    label: tuple[str, ...]
    machine: ClusterConstants
    jobs: tuple[BspJob, ...]
    policy: str
    seed: int
    constants: CoschedulingConstants = field(default_factory=CoschedulingConstants)
    at_once: int | None = None
    degree: int | None = None


def run_case(case: ClusterCase) -> ClusterOutcome:
    """Return the outcome of one case, run in this process."""
    return simulate(
        case.machine,
        case.jobs,
        case.policy,
        seed=case.seed,
        constants=case.constants,
        at_once=case.at_once,
        degree=case.degree,
    )


def run_cases(cases: Sequence[ClusterCase], progress: Callable[[str], None]) -> list[ClusterOutcome]:
    """Return the outcomes of all cases, in the order given. `progress`: receives a line for each finished case."""
    workers = min(len(cases), len(os.sched_getaffinity(0)))
    if workers <= 1:
        return [run_case(case) for case in cases]
    compile_once()
    outcomes: dict[int, ClusterOutcome] = {}
    # children inherit the compiled engine from their parent; "spawn" would load it again in each
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        order = sorted(range(len(cases)), key=lambda i: _effort(cases[i]), reverse=True)
        futures = {pool.submit(run_case, cases[i]): i for i in order}
        for future in as_completed(futures):
            i = futures[future]
            outcomes[i] = future.result()
            progress(f"{' '.join(cases[i].label)}: {outcomes[i].turnaround_s:.1f} s")
    return [outcomes[i] for i in range(len(cases))]


def _effort(case: ClusterCase) -> int:
    """Return the approximate cost of a case: iterations of all ranks, times ten if ranks interrupt each other."""
    steps = sum(len(job.nodes) * job.iterations for job in case.jobs)
    return steps * (1 if case.policy in ("batch", "gang") else 10)


def compile_once() -> None:
    """Compile the engine, or load it from the disk, before the processes that need it start."""
    machine = free_of_cost(nodes=1, processors=1, ticks_per_s=1024)
    simulate(machine, [BspJob(name="one", nodes=(0,), compute_s=(0.1,), iterations=1)], "gang", seed=1)
