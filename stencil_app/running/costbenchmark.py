"""Costs of the application on this machine: the benchmark BM and the memory benchmark BMmem of the paper.

All ranks compute at once, as in a run, because they share caches and memory bandwidth; the slowest rank counts. The
real loop is timed, phase by phase, in CPU time. Medians over iterations are taken, so that neither load nor a passing
disturbance becomes a constant of the model (Wolski et al. 2000, §3.1, §3.4). Costs hold for slabs of about the measured
size: a slab that fits the last-level cache can be twice as fast per row. The network is not measured here; the weather
service does that.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from nws.base.files import write_whole
from nws.base.oserrors import REASON, os_errors_as
from nws.base.residentmemory import resident_bytes
from stencil_app.errors import OutputError
from stencil_app.mesh.decomposition import Decomposition
from stencil_app.mesh.slab import Slab
from stencil_app.physics import Problem
from stencil_app.running.mpi import agreed
from stencil_app.running.runtime import Controls, State, StopRequest, begin, iterate
from stencil_app.running.timing import Stopwatch

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

BENCHMARK_VERSION = 1
#: Bytes of one slab's two buffers: beyond a core's own caches, as the slabs of real runs are.
SLAB_BYTES = 32 * 2**20
_SECONDS = 0.6
_RESIDUAL_EVERY = 8
#: Iterations before measuring, and limits on how many are measured, where there are no residuals.
_WARMING, _LEAST, _MOST = 2, 5, 1600


def default_rows(problem_bytes_per_row: int) -> int:
    """Return the default rows of each slab: `SLAB_BYTES`, at least 2 rows."""
    return max(2, SLAB_BYTES // problem_bytes_per_row)


def measure(
    comm: Intracomm, problem: Problem, residual_every: int | None, watch: Stopwatch
) -> dict[str, Any]:
    """Return document of a benchmark with equal slabs on all ranks, the slowest rank's values; collective.

    residual_every : iterations from one residual to the next in the runs it is to hold for; None for runs without
    """
    rows = problem.size // comm.size
    bytes_per_row, bytes_fixed = _memory(problem, rows)
    slab = Slab(problem, Decomposition((rows,) * comm.size), comm)
    state = begin(slab, None)
    start = perf_counter()
    watch.setup_done = start
    compute_s, exchange_s = _iteration_seconds(slab, state, residual_every)
    measured_s = perf_counter() - start
    mine = (compute_s, exchange_s, bytes_per_row, bytes_fixed, watch.setup_done - watch.started, measured_s)
    worst = [max(column) for column in zip(*comm.allgather(mine), strict=True)]
    seconds_per_row = worst[0] / rows
    return {
        "version": BENCHMARK_VERSION,
        "application": problem.name,
        "parameters": dict(problem.parameters),
        "host": socket.gethostname(),
        "ranks": comm.size,
        "rows": rows,
        "seconds_per_row": seconds_per_row,
        "seconds_per_cell": seconds_per_row / problem.layout.cells_per_row,
        "exchange_s": worst[1] if comm.size > 1 else None,
        "message_bytes": problem.layout.message_bytes,
        "bytes_per_row": worst[2],
        "bytes_fixed": worst[3],
        "setup_s": worst[4],
        "measured_s": worst[5],
    }


def _memory(problem: Problem, rows: int) -> tuple[float, float]:
    # Two sizes, so that the memory of interpreter and MPI drops out of the slope.
    readings = []
    for height in (rows, 2 * rows):
        buffers = [problem.layout.allocate(height) for _ in range(2)]
        readings.append(resident_bytes())
        del buffers
    per_row = (readings[1] - readings[0]) / rows
    return per_row, readings[0] - per_row * rows


def _loop(slab: Slab, state: State, iterations: int, residual_every: int) -> Stopwatch:
    # CPU time does not run while another process has the core: the cost holds for a dedicated machine.
    watch = Stopwatch(0.0, clock=thread_time)
    controls = Controls(iterations=state.iteration + iterations, residual_every=residual_every)
    iterate(slab, state, controls, watch=watch, stop=StopRequest())
    return watch


def _iteration_seconds(slab: Slab, state: State, residual_every: int | None) -> tuple[float, float]:
    """Return median seconds of the compute and of the exchange phase of the real loop, all ranks at work.

    Residuals are taken more often than in a run, so that their cost is known, and then charged at the run's rate.
    """
    if residual_every is None:
        first = _loop(slab, state, _WARMING, 0)
        slowest = max(slab.comm.allgather(sum(first.compute) / _WARMING))
        watch = _loop(slab, state, min(max(round(_SECONDS / slowest), _LEAST), _MOST), 0)
        return median(watch.compute), median(watch.exchange)
    # Two passes at least, of which one has no residual, unless the run has no such passes.
    sweeps = slab.problem.sweeps
    every = min(residual_every, max(_RESIDUAL_EVERY, 2 * sweeps))
    first = _loop(slab, state, every, every)
    # The same number everywhere: a rank that stopped early would leave the others waiting.
    slowest = max(slab.comm.allgather(sum(first.compute) / every))
    rounds = min(max(round(_SECONDS / slowest / every), 2), 200)
    watch = _loop(slab, state, rounds * every, every)
    costs = [median(watch.compute[n::every]) for n in range(every)]
    if every == residual_every:
        return sum(costs) / every, median(watch.exchange)
    plain, due = median(costs[:-sweeps]), median(costs[-sweeps:])
    return plain + max(0.0, due - plain) * sweeps / residual_every, median(watch.exchange)


def write_benchmark(comm: Intracomm, path: Path, document: dict[str, Any]) -> None:
    """Rank 0 writes the document, atomically; raises `OutputError` on all ranks."""
    unwritten = f"{path}: the benchmark could not be written: {REASON}"
    with agreed(comm, OutputError), os_errors_as(OutputError, unwritten):
        if comm.rank == 0:
            write_whole(path, json.dumps(document, indent=1) + "\n")
