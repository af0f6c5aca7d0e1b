"""The slab runtime: one loop for every physics - exchange, sweep, reduce, again.

Each iteration ends with one reduction over all ranks. It carries the residual where one was taken, and
always the wish of any rank to stop, so that all ranks leave the loop at the same iteration. What an
iteration computes is the problem's (`stencil_app.physics.Problem`); where the time went is kept by
`stencil_app.timing`. Nothing here parses options or prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from stencil_app import checkpoint
from stencil_app.decomposition import Decomposition
from stencil_app.errors import CheckpointError
from stencil_app.halo import Halo
from stencil_app.layout import Array
from stencil_app.measures import change_of_bits, largest_change_bits, row_digests
from stencil_app.mpi import agree
from stencil_app.physics import Problem
from stencil_app.stop import StopRequest
from stencil_app.timing import Stopwatch

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

NO_RESIDUAL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """How far to go and what to keep.

    iterations : the iteration to end at, counted from the very start, restarts included
    residual_every : iterations between residuals; the last iteration always takes one
    tolerance : stop at the first residual at or under it; None to never
    checkpoint_every : iterations between checkpoints; None for one at the end only
    """

    iterations: int
    residual_every: int
    tolerance: float | None = None
    checkpoint: Path | None = None
    checkpoint_every: int | None = None


@dataclass(slots=True, kw_only=True)
class State:
    """Where a run stands, the same on every rank.

    iteration : iterations done.  residual_bits : `measures.largest_change_bits` when last taken
    signal : number of the signal that ended the run, 0 for none
    """

    iteration: int = 0
    residual_bits: int = NO_RESIDUAL
    signal: int = 0

    @property
    def residual(self) -> float:
        """Largest change of any cell in the iteration where it was last taken; NaN if never."""
        return float("nan") if self.residual_bits == NO_RESIDUAL else change_of_bits(self.residual_bits)


class Slab:
    """The part of the mesh that this rank owns, in two buffers that swap roles each iteration."""

    def __init__(self, problem: Problem, decomposition: Decomposition, comm: Intracomm) -> None:
        self.problem = problem
        self.comm = comm
        self.rows = decomposition.heights[comm.rank]
        self.first_row = decomposition.first_row(comm.rank)
        self.field, self.other = (problem.layout.allocate(self.rows) for _ in range(2))

    @property
    def interior(self) -> Array:
        """The slab's own cells, float64[rows, ny, nx], a view."""
        return self.problem.layout.interior(self.field)

    def dress(self) -> None:
        """Make both buffers ready for the first sweep, after the own cells were set."""
        self.problem.dress(self.field, self.first_row)
        self.problem.dress(self.other, self.first_row)

    def swap(self) -> None:
        """The new values become the current ones."""
        self.field, self.other = self.other, self.field

    def change_bits(self) -> int:
        """How much the sweep into `other` changes the slab (lateral ghosts repeat own cells or are fixed)."""
        return int(largest_change_bits(self.field[1:-1].reshape(-1), self.other[1:-1].reshape(-1)))

    def halo(self) -> Halo:
        """Halo exchange of both buffers."""
        return Halo(self.comm, (self.field, self.other), periodic=self.problem.periodic)

    def checksum(self) -> int:
        """Digest of the whole mesh, 64 bits, the same for every layout; collective."""
        from mpi4py import MPI

        mine = row_digests(self.interior, self.first_row).sum(dtype=np.uint64, keepdims=True)
        whole = np.zeros(1, dtype=np.uint64)
        self.comm.Allreduce(mine, whole, MPI.SUM)
        return int(whole[0])


def begin(slab: Slab, restart: Path | None) -> State:
    """Initial values, or those of a checkpoint; collective. Raises `CheckpointError` on all ranks."""
    if restart is None:
        slab.problem.initialise(slab.interior, slab.first_row)
        slab.dress()
        return State()
    problems: tuple[str, ...] = ()
    state = State()
    try:
        header = checkpoint.read_header(restart)
        wrong = checkpoint.mismatches(restart, header, slab.problem.name, slab.problem.parameters)
        if wrong:
            raise CheckpointError(wrong)
        checkpoint.read_rows(restart, header, slab.interior, slab.first_row)
        state = State(iteration=header.iteration, residual_bits=header.residual_bits)
    except CheckpointError as error:
        problems = error.problems
    agree(slab.comm, problems, CheckpointError)
    slab.dress()
    return state


def save(slab: Slab, state: State, path: Path) -> None:
    """Write a checkpoint; collective. Raises `OutputError` on all ranks, the previous file untouched."""
    layout, problem = slab.problem.layout, slab.problem
    header = checkpoint.Header(
        application=problem.name,
        parameters=problem.parameters,
        iteration=state.iteration,
        residual_bits=state.residual_bits,
        mesh=(problem.size, layout.ny, layout.nx),
    )
    checkpoint.write(slab.comm, path, header, interior=slab.interior, first_row=slab.first_row)


def iterate(slab: Slab, state: State, controls: Controls, *, watch: Stopwatch, stop: StopRequest) -> None:
    """Advance `state` and `slab` until the end, convergence or a signal to any rank; collective."""
    from mpi4py import MPI

    target = np.inf if controls.tolerance is None else controls.tolerance
    saved = -1
    mine, everyone = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    reduce, sweep, first_row = slab.comm.Allreduce, slab.problem.sweep, slab.first_row
    clock = watch.clock
    with slab.halo() as halo:
        while state.iteration < controls.iterations and not state.signal:
            begin_s = clock()
            halo.exchange(slab.field)
            exchanged_s = clock()
            sweep(slab.field, slab.other, first_row)
            state.iteration += 1
            due = state.iteration % controls.residual_every == 0 or state.iteration == controls.iterations
            mine[0] = slab.change_bits() if due else NO_RESIDUAL
            mine[1] = stop.code
            computed_s = clock()
            reduce(mine, everyone, MPI.MAX)
            watch.iteration(begin_s, exchanged_s, computed_s, clock())
            slab.swap()
            state.signal = int(everyone[1])
            if due:
                state.residual_bits = int(everyone[0])
                if state.residual <= target and controls.tolerance is not None:
                    break
            if controls.checkpoint_every and state.iteration % controls.checkpoint_every == 0:
                saved = state.iteration
                _timed_save(slab, state, controls, watch)
    if controls.checkpoint is not None and saved != state.iteration:
        _timed_save(slab, state, controls, watch)


def _timed_save(slab: Slab, state: State, controls: Controls, watch: Stopwatch) -> None:
    assert controls.checkpoint is not None
    start = perf_counter()
    save(slab, state, controls.checkpoint)
    watch.checkpoint_s += perf_counter() - start
