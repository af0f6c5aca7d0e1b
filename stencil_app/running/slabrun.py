"""One run from checked settings to its exit code: set up, iterate, write records, print the result.

The only module that joins problem, runtime, checkpoint, records and output. All ranks agree on any failure that may
occur on one rank alone before they continue, so that all ranks end with the same code.

The result of a run for its user: one line on stdout, and the final field as a NumPy file.

The line is short and the same for every slab layout, so that two runs can be compared by it.
"""

from __future__ import annotations

import io
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from nws.base.oserrors import REASON, os_errors_as
from nws.base.records import copied
from stencil_app.errors import OutputError, UsageError
from stencil_app.files.whole import SharedFile
from stencil_app.mesh.decomposition import Decomposition
from stencil_app.mesh.slab import Slab
from stencil_app.physics import Physics, Problem
from stencil_app.running.costbenchmark import default_rows, measure, write_benchmark
from stencil_app.running.mpi import agree, agreed, say, shortage
from stencil_app.running.runsteering import Steering, places
from stencil_app.running.runtime import Controls, State, StopRequest, begin, iterate
from stencil_app.running.timing import Stopwatch, write_record
from stencil_app.settings import Settings

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def run(comm: Intracomm, physics: Physics, settings: Settings, started: float) -> int:
    """Carry out `settings` and return the exit code, 0 or 128 + signal; collective.

    started : `time.perf_counter()` when this process began. Raises `StencilError`, the same on all ranks.
    """
    watch = Stopwatch(started)
    if settings.benchmark is not None:
        _benchmark(comm, physics, settings, watch)
        return 0
    assert settings.slabs is not None
    # From this point a signal must not kill one rank while the others wait for it.
    stop = StopRequest().listen()
    slabs = settings.slabs
    problem = physics.make(slabs.size, settings.physics, settings.sweeps)
    slab = allocate(comm, problem, slabs)
    make_directory(comm, settings.record_dir)
    state = begin(slab, settings.restart)
    if state.iteration > settings.iterations:
        raise UsageError(
            f"--iterations {settings.iterations}: {settings.restart} is already at iteration "
            f"{state.iteration}; give a larger number"
        )
    controls = copied(Controls, settings)
    first = state.iteration
    watch.setup_done = perf_counter()
    steering = Steering(comm, places(settings.progress, settings.watch_slabs), watch)
    iterate(slab, state, controls, watch=watch, stop=stop, steering=steering)
    if settings.record_dir is not None:
        leave_record(settings.record_dir, slab, (first, state), watch)
    if settings.output is not None and not state.signal:
        write_npy(slab, settings.output)
    line = result_line(slab, state)
    say(comm, line)
    return 128 + state.signal if state.signal else 0


def _benchmark(comm: Intracomm, physics: Physics, settings: Settings, watch: Stopwatch) -> None:
    assert settings.benchmark is not None
    rows = settings.rows
    if rows is None:
        rows = default_rows(2 * physics.layout(settings.physics).message_bytes)
    problem = physics.make(rows * comm.size, settings.physics, settings.sweeps)
    need_memory(comm, problem, 3 * rows)
    write_benchmark(comm, settings.benchmark, measure(comm, problem, settings.residual_every, watch))


def allocate(comm: Intracomm, problem: Problem, slabs: Decomposition) -> Slab:
    """Return the slab of this rank; collective. Raises `UsageError` on all ranks if memory does not suffice."""
    problem.fit(slabs)
    need_memory(comm, problem, slabs.heights[comm.rank])
    return Slab(problem, slabs, comm)


def need_memory(comm: Intracomm, problem: Problem, rows: int) -> None:
    """Raise `UsageError` for a mesh that the machine cannot hold, before it is allocated; collective."""
    needed = 2 * problem.layout.field_bytes(rows) + problem.layout.scratch_bytes
    lacking = shortage(comm, needed)
    problems = []
    if lacking is not None:
        problems.append(f"{lacking}; take fewer rows, a smaller mesh or more hosts")
    agree(comm, problems)


def make_directory(comm: Intracomm, directory: Path | None) -> None:
    """Make the directory of the records, if one is requested; collective. Raises `UsageError` on all ranks."""
    if directory is None:
        return
    unmade = f"--record-dir {directory}: could not be made: {REASON}"
    with agreed(comm, UsageError), os_errors_as(UsageError, unmade):
        directory.mkdir(parents=True, exist_ok=True)


def leave_record(directory: Path, slab: Slab, span: tuple[int, State], watch: Stopwatch) -> None:
    """Write this rank's record; span: iteration begun at, state at the end. Raises `OutputError` on all ranks."""
    first, state = span
    problem, layout, comm = slab.problem, slab.problem.layout, slab.comm
    facts = {
        "application": problem.name,
        "parameters": dict(problem.parameters),
        "ranks": comm.size,
        "rows": slab.rows,
        "first_row": slab.first_row,
        "nx": layout.nx,
        "ny": layout.ny,
        "iterations": state.iteration - first,
        "first_iteration": first,
        "signal": state.signal,
        **watch.summary(perf_counter()),
    }
    with agreed(comm, OutputError):
        write_record(directory, comm.rank, facts)


def result_line(slab: Slab, state: State) -> str:
    """Return ``heat 64×256×256: iteration 500, residual 1.2e-05, checksum 0123456789abcdef``; collective."""
    problem = slab.problem
    mesh = problem.layout.mesh(problem.size)
    return (
        f"{problem.name} {'x'.join(map(str, mesh))}: iteration {state.iteration}, "
        f"residual {state.residual:.6e}, checksum {slab.checksum():016x}"
    )


def write_npy(slab: Slab, path: Path) -> None:
    """Write the mesh as .npy, float64[size, ny, nx], all ranks together; raises `OutputError` on all ranks."""
    layout, size = slab.problem.layout, slab.problem.size
    prefix = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        prefix, {"descr": "<f8", "fortran_order": False, "shape": (size, layout.ny, layout.nx)}
    )
    row_bytes = 8 * layout.cells_per_row
    with SharedFile(slab.comm, path) as file:
        if slab.comm.rank == 0:
            file.write(0, prefix.getvalue())
        for k, plane in enumerate(slab.interior):
            offset = len(prefix.getvalue()) + (slab.first_row + k) * row_bytes
            file.write(offset, np.ascontiguousarray(plane, dtype="<f8").data)
