"""Dedicated runs on the mock grid: benchmark values of one host without other processes.

The application runs on the idle host with slabs of several heights, as in the paper (Wolski et al. 2000, §3.1: "we run
PMHD3D on dedicated machines with various problem sizes"). Only elapsed times and CPU times are used, so calibration
works as on real hosts.
"""

import math
from dataclasses import replace

import numpy as np

from apples.errors import LaunchError
from apples.model.grid import Host
from apples.model.template import Benchmark, Workload
from apples.simulation.execution import MockJob, execute
from apples.simulation.mock_grid import MockGrid
from apples.simulation.scenario import NO_LOAD, Scenario
from apples.simulation.window import Chain

#: Heights of the benchmark's slabs, in rows, and sweeps over each.
_SLABS = (25, 50, 100, 200, 400)
_SWEEPS = 50
#: Largest share of the host's memory for a benchmark.
_MEMORY_SHARE = 0.8


def dedicated(grid: MockGrid) -> MockGrid:
    """Return the same machines without other processes. Links keep their traffic."""
    scenario: Scenario = replace(grid.scenario, loads={"dedicated": NO_LOAD})
    idle = MockGrid(grid.grid, scenario, load="dedicated", seed=grid.seed)
    idle.died_at = grid.died_at
    return idle


def measure(
    grid: MockGrid, host: Host, workload: Workload, *, ranks: int, rng: np.random.Generator
) -> Benchmark:
    """Return the benchmark of `workload`'s application with `ranks` ranks on `host`; raise `LaunchError`."""
    idle = dedicated(grid)
    index = idle.host_index(host.name)
    if idle.died_at[index] <= grid.now:
        raise LaunchError(f"host {host.name} does not answer: no benchmark of it can be made")
    most = _most_rows(idle, index, workload, ranks)
    slabs = [rows for rows in _SLABS if rows <= most] or [most]
    work = idle.machines.sweep_s[index] * idle.row_cost(workload)
    hosts = np.full(ranks, index, dtype=np.int64)
    at, seconds, setups = 0.0, [], []
    for rows in slabs:
        memory = np.full(ranks, workload.bytes_fixed + workload.bytes_per_row * rows)
        job = MockJob(
            chain=Chain(hosts=hosts, work_s=np.full(ranks, work * rows), memory_bytes=memory),
            iterations=_SWEEPS,
            messages=workload.messages / workload.iterations,
            exchanged_bytes=workload.bytes_exchanged / workload.iterations,
        )
        happened = execute(idle, job, at, rng)
        seconds.append(float(happened.compute_s.mean()) / (rows * _SWEEPS))
        loop = float((happened.compute_s + happened.communicate_s + happened.wait_s).max())
        setups.append(happened.ended - happened.launched - loop)
        at = happened.ended
    error = grid.scenario.sensors.memory_error
    return Benchmark(
        ranks=ranks,
        seconds_per_row=float(np.mean(seconds)),
        startup_s=float(np.mean(setups)),
        bytes_per_row=workload.bytes_per_row * (1 + float(rng.normal(0.0, error))),
    )


def _most_rows(grid: MockGrid, host: int, workload: Workload, ranks: int) -> int:
    """Return the highest slab that array and memory allow, at least one row."""
    limits = [float(max(_SLABS))]
    if workload.max_rows is not None:
        limits.append(workload.max_rows)
    if workload.bytes_per_row > 0:
        room = float(grid.machines.memory_bytes[host]) * _MEMORY_SHARE / ranks - workload.bytes_fixed
        limits.append(room / workload.bytes_per_row)
    return max(1, math.floor(min(limits)))
