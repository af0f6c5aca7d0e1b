"""Runs of plans on the mock grid.

A run begins at the grid's present time, advances it, and leaves its processes in the load for sensors. A host that dies
ends the run as `failed`, and the outcome names it. `execution` simulates the run. No process is started, and ranks
print nothing.
"""

import math
from dataclasses import replace

import numpy as np

from apples.errors import LaunchError
from apples.launching.verdict import LAUNCHER_FAILED, TIME_LIMIT
from apples.model.launchrequest import LaunchRequest, Notify
from apples.model.plan import Assignment, Outcome, Plan, RankObservation, RankStatus
from apples.model.template import Workload
from apples.simulation.execution import Execution, MockJob, execute
from apples.simulation.gridsteering import SimulatedSteering
from apples.simulation.mock_grid import MockGrid
from apples.simulation.window import Chain
from nws.base.records import copied

#: Signal that ends the remaining ranks after one was lost: SIGTERM.
_TERMINATED = 15
#: Times of a rank in a simulated run.
_SPENT = ("setup_s", "compute_s", "communicate_s", "wait_s")


def check_hosts(grid: MockGrid, request: LaunchRequest) -> None:
    """Raise `LaunchError` if a host of the plan is not part of the grid or is dead."""
    problems = []
    for name in request.plan.hosts:
        try:
            died_at = grid.died_at[grid.host_index(name)]
        except KeyError:
            known = ", ".join(host.name for host in grid.grid.hosts)
            problems.append(f"host {name} is not part of mock grid {grid.grid.name!r} ({known})")
            continue
        if died_at <= grid.now:
            problems.append(f"host {name} does not answer (it died at {died_at:.0f} s); plan without it")
    if problems:
        raise LaunchError("\n".join(problems))


def run_on_grid(grid: MockGrid, request: LaunchRequest, notify: Notify) -> Outcome:
    """Run to the end in simulated time; raise `LaunchError` as `check_hosts` does."""
    check_hosts(grid, request)
    plan = request.plan
    every, work = request.checkpoint_every, request.workload
    # A checkpoint has one of the two fields in a rank's memory.
    kept_s = work.size * work.bytes_per_row / 2 / grid.scenario.storage_Bps
    job = replace(job_of(grid, plan, work), checkpoint_every=every, checkpoint_s=kept_s)
    launched = grid.now
    steering, controller = None, request.controller
    if controller is not None:
        rows = np.array(plan.rows, dtype=np.int64)
        steering = SimulatedSteering(grid, work, controller, (job.chain.hosts, rows))
    happened = execute(grid, job, launched, grid.next_run(), steering=steering)
    moves = () if controller is None else controller.ended()
    limit = math.inf if request.time_limit_s is None else request.time_limit_s
    unnoticed_s = 0.0 if happened.lost_host is None else float(grid.noticed_s[happened.lost_host])
    took = min(happened.ended + unnoticed_s - launched, limit)
    grid.occupy(job.chain.hosts, job.chain.memory_bytes, launched, launched + took)
    grid.advance(took)
    if happened.ended + unnoticed_s - launched > limit:
        return replace(_ended_by_limit(plan, limit), moves=moves)
    if happened.lost_host is not None:
        lost = _lost(plan, grid.grid.hosts[happened.lost_host].name, happened)
        # The host died in the last iteration.
        saved = None if every is None else max(0, happened.iterations - 1) // every * every
        return replace(lost, observed_s=took, kept_iterations=saved, moves=moves)
    if steering is not None and steering.ended:
        notify(steering.why)
        return replace(_adapted(plan, happened), observed_s=took, moves=moves)
    notify(f"mock grid {grid.grid.name}: {took:.1f} s of simulated time")
    return replace(_finished(plan, happened), moves=moves)


def job_of(grid: MockGrid, plan: Plan, workload: Workload) -> MockJob:
    """Return the simulated job of a plan and a workload."""
    hosts = np.array([grid.host_index(a.host) for a in plan.assignments], dtype=np.int64)
    rows = np.array(plan.rows, dtype=np.float64)
    return MockJob(
        chain=Chain(
            hosts=hosts,
            work_s=rows * grid.machines.sweep_s[hosts] * grid.row_cost(workload),
            memory_bytes=workload.bytes_fixed + workload.bytes_per_row * rows,
        ),
        iterations=workload.iterations,
        messages=workload.messages / workload.iterations,
        exchanged_bytes=workload.bytes_exchanged / workload.iterations,
    )


def _finished(plan: Plan, happened: Execution) -> Outcome:
    return Outcome(
        ended="finished",
        exit_code=0,
        observed_s=happened.ended - happened.launched,
        statuses=_statuses(plan, exit_code=0),
        observations=tuple(_observation(a, happened) for a in plan.assignments),
    )


def _observation(rank: Assignment, happened: Execution) -> RankObservation:
    spent_s = {name: float(getattr(happened, name)[rank.rank]) for name in _SPENT}
    return copied(
        RankObservation,
        rank,
        iterations=happened.iterations,
        **spent_s,
        total_s=sum(spent_s.values()) + happened.checkpoint_s,
        checkpoint_s=happened.checkpoint_s,
        checkpoints=happened.checkpoints,
    )


def _statuses(plan: Plan, exit_code: int | None = None, signal: int | None = None) -> tuple[RankStatus, ...]:
    return tuple(
        RankStatus(rank=a.rank, host=a.host, exit_code=exit_code, signal=signal) for a in plan.assignments
    )


def _adapted(plan: Plan, happened: Execution) -> Outcome:
    """Return the outcome of a run that ended with a checkpoint, to resume with another plan."""
    return Outcome(
        ended="adapted",
        exit_code=128 + _TERMINATED,
        observed_s=happened.ended - happened.launched,
        statuses=_statuses(plan, exit_code=128 + _TERMINATED),
        message="the run was ended to go on with another plan",
        kept_iterations=happened.iterations,
    )


def _lost(plan: Plan, host: str, happened: Execution) -> Outcome:
    took = happened.ended - happened.launched
    return Outcome(
        ended="failed",
        exit_code=LAUNCHER_FAILED,
        observed_s=took,
        statuses=tuple(
            one if one.host != host else replace(one, signal=None)
            for one in _statuses(plan, signal=_TERMINATED)
        ),
        message=f"host {host} was lost after {took:.1f} s; the other ranks were ended. "
        f"Run again without it: --exclude {host}",
        lost={host: f"was lost after {took:.1f} s"},
    )


def _ended_by_limit(plan: Plan, limit_s: float) -> Outcome:
    return Outcome(
        ended="time limit",
        exit_code=TIME_LIMIT,
        observed_s=limit_s,
        statuses=_statuses(plan, signal=_TERMINATED),
        message=f"the time limit of {limit_s:g} s ended the run",
    )
