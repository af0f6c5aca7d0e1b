"""One run of magnetohydrodynamics from checked settings to its exit code.

The loop, checkpoints, records and signals are those of every physics (`stencil_app.running.slabrun`,
`stencil_app.running.runtime`). Added here: the end in time, the history, other slabs on the way, and the files of the
solution.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING

from nws.base.records import copied
from stencil_app.errors import CheckpointError, UsageError
from stencil_app.mesh.slab import Slab
from stencil_app.mhd.equations import MhdProblem
from stencil_app.mhd.historytable import RunObserver
from stencil_app.mhd.settings import MhdSettings
from stencil_app.mhd.solution import mhd_problem, write_solution
from stencil_app.running.costbenchmark import measure, write_benchmark
from stencil_app.running.mpi import agree, say
from stencil_app.running.runsteering import Steering, places
from stencil_app.running.runtime import UNBOUNDED, Controls, State, StopRequest, begin, iterate
from stencil_app.running.slabrun import allocate, leave_record, make_directory, need_memory
from stencil_app.running.timing import Stopwatch

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def run(comm: Intracomm, settings: MhdSettings, started: float) -> int:
    """Carry out `settings` and return the exit code, 0 or 128 + signal; collective.

    started : `time.perf_counter()` when this process began. Raises `StencilError`, the same on all ranks.
    """
    watch = Stopwatch(started)
    problem = MhdProblem(settings.case, settings.parameters)
    if settings.benchmark is not None:
        need_memory(comm, problem, 3 * problem.size // comm.size)
        write_benchmark(comm, settings.benchmark, measure(comm, problem, None, watch))
        return 0
    stop = StopRequest().listen()
    slab = allocate(comm, problem, settings.slabs)
    make_directory(comm, settings.record_dir)
    state = begin(slab, settings.restart)
    _check_start(comm, settings, slab, state)
    observer = RunObserver(settings.history, settings.history_every, settings.cuts)
    observer.begin(slab, state, append=settings.restart is not None)
    iterations = UNBOUNDED if settings.iterations is None else settings.iterations
    controls = copied(Controls, settings, iterations=iterations, residual_every=0)
    first = state.iteration
    watch.setup_done = perf_counter()
    steering = Steering(comm, places(settings.progress, settings.watch_slabs), watch)
    iterate(slab, state, controls, watch=watch, stop=stop, observer=observer, steering=steering)
    observer.end(slab, state)
    if settings.record_dir is not None:
        leave_record(settings.record_dir, slab, (first, state), watch)
    if settings.out is not None and not state.signal:
        write_solution(slab, state, settings.out)
    say(comm, result_line(slab, state))
    return 128 + state.signal if state.signal else 0


def _check_start(comm: Intracomm, settings: MhdSettings, slab: Slab, state: State) -> None:
    """Raise `UsageError` for an invalid initial state, or an end time that is past."""
    problem = mhd_problem(slab)
    problems = []
    if settings.restart is not None:
        if settings.iterations is not None and state.iteration > settings.iterations:
            problems.append(
                f"--iterations {settings.iterations}: {settings.restart} is already at cycle {state.iteration}; "
                "give a larger number"
            )
        agree(comm, problems, CheckpointError)
        return
    wrong = problem.bad_start(slab.field, slab.first_row)
    if wrong is not None:
        problems.append(f"{settings.parameters['problem']}: {wrong}")
    agree(comm, problems, UsageError)


def result_line(slab: Slab, state: State) -> str:
    """Return ``mhd blast 64x64x64: cycle 120, time 0.2, floored 0, checksum 0123456789abcdef``; collective."""
    problem = mhd_problem(slab)
    floored = sum(slab.comm.allgather(problem.floored))
    mesh = "x".join(str(n) for n in problem.case.cells)
    time = f"{state.time:.8g}" if math.isfinite(state.time) else str(state.time)
    return (
        f"mhd {problem.parameters['problem']} {mesh}: cycle {state.iteration}, time {time}, "
        f"floored {floored}, checksum {slab.checksum():016x}"
    )
