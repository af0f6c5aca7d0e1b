"""What the application costs on this machine: the benchmark BM and the memory benchmark BMmem of the paper.

All ranks of the world compute at once, as they will in a run, because they share caches and memory
bandwidth; the answer of the slowest rank counts. Times are medians over batches, so that a passing
disturbance does not become a constant of the model (Wolski et al. 2000, §3.1, §3.4). It measures nothing
about the network between hosts: that is the weather service's.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from stencil_app.decomposition import Decomposition
from stencil_app.errors import OutputError
from stencil_app.files import replace_with
from stencil_app.mpi import agree
from stencil_app.physics import Problem
from stencil_app.runtime import Slab
from stencil_app.timing import Stopwatch

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

BENCHMARK_VERSION = 1
#: Bytes of one slab's two buffers: well beyond a core's own caches, as the slabs of real runs are.
SLAB_BYTES = 64 * 2**20
_BATCHES = 9
_SWEEP_SECONDS = 0.6
_EXCHANGES = 25


def default_rows(problem_bytes_per_row: int) -> int:
    """Rows of each slab when the user does not say: `SLAB_BYTES`, at least 2 rows."""
    return max(2, SLAB_BYTES // problem_bytes_per_row)


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def measure(comm: Intracomm, problem: Problem, watch: Stopwatch) -> dict[str, Any]:
    """Run the benchmark with equal slabs on all ranks; collective. The document of rank 0 is complete."""
    rows = problem.size // comm.size
    bytes_per_row, bytes_fixed = _memory(problem, rows)
    slab = Slab(problem, Decomposition((rows,) * comm.size), comm)
    problem.initialise(slab.interior, slab.first_row)
    slab.dress()
    begin = perf_counter()
    watch.setup_done = begin
    sweep_s = _sweep_seconds(slab)
    exchange_s = _exchange_seconds(slab)
    measured_s = perf_counter() - begin
    mine = (sweep_s, exchange_s, bytes_per_row, bytes_fixed, watch.setup_done - watch.started, measured_s)
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
    # Two sizes, so that what the interpreter and MPI take drops out of the slope.
    readings = []
    for height in (rows, 2 * rows):
        buffers = [problem.layout.allocate(height) for _ in range(2)]
        readings.append(resident_bytes())
        del buffers
    per_row = (readings[1] - readings[0]) / rows
    return per_row, readings[0] - per_row * rows


def _sweep_seconds(slab: Slab) -> float:
    """Median seconds of one sweep while all ranks sweep."""

    def batch(sweeps: int) -> float:
        slab.comm.Barrier()
        start = perf_counter()
        for _ in range(sweeps):
            slab.problem.sweep(slab.field, slab.other, slab.first_row)
            slab.swap()
        return (perf_counter() - start) / sweeps

    batch(1)
    # The same number everywhere: ranks that finish early would leave the others the machine.
    slowest = max(slab.comm.allgather(batch(2)))
    sweeps = max(1, round(_SWEEP_SECONDS / _BATCHES / slowest))
    return median(batch(sweeps) for _ in range(_BATCHES))


def _exchange_seconds(slab: Slab) -> float:
    """Median seconds of one halo exchange with the neighbours ready."""
    seconds = []
    with slab.halo() as halo:
        for _ in range(_EXCHANGES):
            slab.comm.Barrier()
            start = perf_counter()
            halo.exchange(slab.field)
            seconds.append(perf_counter() - start)
    return median(seconds)


def write_benchmark(comm: Intracomm, path: Path, document: dict[str, Any]) -> None:
    """Rank 0 writes the document, atomically; raises `OutputError` on all ranks."""
    problems = []
    if comm.rank == 0:
        try:
            with replace_with(path) as temporary:
                temporary.write_text(json.dumps(document, indent=1) + "\n")
        except OSError as error:
            problems.append(f"{path}: the benchmark could not be written: {error.strerror}")
    agree(comm, problems, OutputError)
