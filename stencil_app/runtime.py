"""The slab runtime: one loop for every physics - sweep, exchange, reduce, again.

The exchange begins as soon as a sweep has ended and goes on under what follows: the rate, the residual and one
reduction over all ranks. That carries the residual where one was taken, what bounds the next step, and always the
wish of any rank to stop, so that all ranks leave the loop at the same iteration. Ghost rows that are late even then
are not waited for: what needs none of them is swept ahead, if the problem can, at the price of some rows done twice.
What an iteration computes is the problem's (`stencil_app.physics.Problem`); where the time went is kept by
`stencil_app.timing`. Nothing here parses options or prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from stencil_app import checkpoint
from stencil_app.decomposition import Decomposition
from stencil_app.errors import CheckpointError, DivergedError
from stencil_app.halo import Halo
from stencil_app.layout import Array
from stencil_app.measures import change_of_bits, largest_change_bits, row_digests
from stencil_app.mpi import agree
from stencil_app.physics import Problem
from stencil_app.reslabbing import move_rows
from stencil_app.stop import StopRequest
from stencil_app.timing import Stopwatch

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

NO_RESIDUAL = -1
#: How long late ghost rows are waited for before sweeping ahead, for each second that the last iteration computed:
#: about what sweeping ahead costs, so that neither choice is ever twice as dear as the other.
PATIENCE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """How far to go and what to keep.

    iterations : the iteration to end at, counted from the very start, restarts included
    until : the problem's own time to end at, None for no such end
    residual_every : iterations between residuals; the last iteration always takes one; 0 for none at all
    tolerance : stop at the first residual at or under it; None to never
    checkpoint_every : iterations between checkpoints; None for one at the end only
    """

    iterations: int
    residual_every: int
    until: float | None = None
    tolerance: float | None = None
    checkpoint: Path | None = None
    checkpoint_every: int | None = None


@dataclass(slots=True, kw_only=True)
class State:
    """Where a run stands, the same on every rank.

    iteration : iterations done.  residual_bits : `measures.largest_change_bits` when last taken
    time : the problem's own time.  rate_bits : what bounds the next step, of all ranks
    signal : number of the signal that ended the run, 0 for none
    """

    iteration: int = 0
    residual_bits: int = NO_RESIDUAL
    time: float = 0.0
    rate_bits: int = 0
    signal: int = 0

    @property
    def residual(self) -> float:
        """Largest change of any cell in the iteration where it was last taken; NaN if never."""
        return float("nan") if self.residual_bits == NO_RESIDUAL else change_of_bits(self.residual_bits)


class KeptRows:
    """The rows of a slab as checkpoints keep them, one at a time; the last slab's include the top faces."""

    def __init__(self, slab: Slab) -> None:
        self._field = slab.field
        self._layout = slab.problem.layout
        self._rows = slab.rows + (self._layout.faces_on_top if slab.is_last else 0)

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[Array]:
        return (self._layout.pack(self._field, row) for row in range(self._rows))

    def __setitem__(self, row: int, values: Array) -> None:
        self._layout.unpack(self._field, row, values)


class Slab:
    """The part of the mesh that this rank owns, in two buffers that swap roles each iteration."""

    def __init__(self, problem: Problem, decomposition: Decomposition, comm: Intracomm) -> None:
        self.problem = problem
        self.comm = comm
        self.decomposition = decomposition
        self.field, self.other = (problem.layout.allocate(self.rows) for _ in range(2))

    @property
    def rows(self) -> int:
        """Own rows."""
        return self.decomposition.heights[self.comm.rank]

    @property
    def first_row(self) -> int:
        """Global number of the first own row."""
        return self.decomposition.first_row(self.comm.rank)

    @property
    def is_last(self) -> bool:
        """Whether the mesh ends with this slab."""
        return self.comm.rank == self.comm.size - 1

    @property
    def interior(self) -> Array:
        """The slab's own values, a view; heat: float64[rows, ny, nx]."""
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
        ghosts = self.problem.layout.ghost_rows
        own = slice(ghosts, ghosts + self.rows)
        return int(largest_change_bits(self.field[own].reshape(-1), self.other[own].reshape(-1)))

    def halo(self) -> Halo:
        """Halo exchange of both buffers."""
        layout, periodic = self.problem.layout, self.problem.periodic
        return Halo(self.comm, layout, (self.field, self.other), periodic=periodic)

    def rearrange(self, decomposition: Decomposition) -> None:
        """Move rows between ranks until slabs are as `decomposition` says; collective, no value changes."""
        layout = self.problem.layout
        moved = layout.allocate(decomposition.heights[self.comm.rank])
        move_rows(self.comm, layout, (self.decomposition, self.field), (decomposition, moved))
        self.decomposition = decomposition
        self.field, self.other = moved, layout.allocate(self.rows)
        self.dress()
        self.refresh()

    def refresh(self) -> None:
        """Fill the ghost rows of the current values from the neighbours; collective."""
        with self.halo() as halo:
            halo.start(self.field)
            halo.finish(self.field)

    def checksum(self) -> int:
        """Digest of the whole mesh, 64 bits, the same for every layout; collective."""
        from mpi4py import MPI

        mine, whole = np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
        for row, values in enumerate(KeptRows(self), self.first_row):
            mine += row_digests(values[None], row)
        self.comm.Allreduce(mine, whole, MPI.SUM)
        return int(whole[0])


class Observer(Protocol):
    """Somebody who looks at a run between iterations, on all ranks alike."""

    def looks(self, iteration: int) -> bool:
        """Whether it wants to see the slab after this iteration; the same answer on all ranks."""

    def look(self, slab: Slab, state: State) -> None:
        """After an iteration, its ghost rows filled; may be collective."""

    def next_layout(self, iteration: int) -> Decomposition | None:
        """New slabs to go on with, or None; the same answer on all ranks."""


def begin(slab: Slab, restart: Path | None) -> State:
    """Initial values, or those of a checkpoint; collective. Raises `CheckpointError` on all ranks."""
    problem = slab.problem
    state = State()
    if restart is None:
        problem.initialise(slab.interior, slab.first_row)
        slab.dress()
        parts = (problem.rate_bits(slab.field, slab.first_row, ends=ends) for ends in (True, False))
        state.rate_bits = max(slab.comm.allgather(max(parts)))
        return state
    problems: tuple[str, ...] = ()
    try:
        header = checkpoint.read_header(restart)
        wrong = checkpoint.mismatches(restart, header, problem.name, problem.parameters)
        if wrong:
            raise CheckpointError(wrong)
        checkpoint.read_rows(restart, header, KeptRows(slab), slab.first_row)
        state = State(
            iteration=header.iteration,
            residual_bits=header.residual_bits,
            time=header.time,
            rate_bits=header.rate_bits,
        )
    except CheckpointError as error:
        problems = error.problems
    agree(slab.comm, problems, CheckpointError)
    # one slab takes the count of all that there were
    problem.floored = header.floored if slab.comm.rank == 0 else 0
    slab.dress()
    slab.refresh()
    return state


def save(slab: Slab, state: State, path: Path) -> None:
    """Write a checkpoint; collective. Raises `OutputError` on all ranks, the previous file untouched."""
    layout, problem = slab.problem.layout, slab.problem
    header = checkpoint.Header(
        application=problem.name,
        parameters=problem.parameters,
        iteration=state.iteration,
        residual_bits=state.residual_bits,
        mesh=(problem.size + layout.faces_on_top, *layout.kept_shape),
        time=state.time,
        rate_bits=state.rate_bits,
        floored=sum(slab.comm.allgather(problem.floored)),
    )
    checkpoint.write(slab.comm, path, header, interior=KeptRows(slab), first_row=slab.first_row)


class _Loop:
    """The iterations of one layout of slabs: requests and buffers are bound to it."""

    def __init__(self, slab: Slab, controls: Controls, watch: Stopwatch, stop: StopRequest) -> None:
        self.slab, self.controls, self.watch, self.stop = slab, controls, watch, stop
        self._mine, self._everyone = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
        self._patience_s = 0.0

    def is_over(self, state: State) -> bool:
        """Whether the run has come to its end."""
        until = self.controls.until
        return bool(
            state.iteration >= self.controls.iterations
            or state.signal
            or (until is not None and state.time >= until)
        )

    def once(self, state: State, halo: Halo) -> bool:
        """One iteration, from an exchange under way to the next one; whether it took a residual.

        Raises `DivergedError` on all ranks.
        """
        slab, problem, clock = self.slab, self.slab.problem, self.watch.clock
        until = self.controls.until
        longest = inf if until is None else until - state.time
        step = problem.choose_step(change_of_bits(state.rate_bits), longest)
        begin_s = clock()
        arrived, tried_s = halo.arrives(slab.field, self._patience_s), clock()
        if not arrived:
            problem.sweep_ahead(slab.field, slab.other, slab.first_row)
        ahead_s = clock()
        halo.finish(slab.field)
        finished_s = clock()
        problem.sweep(slab.field, slab.other, slab.first_row)
        rate_bits = problem.rate_bits(slab.other, slab.first_row, ends=True)
        swept_s = clock()
        halo.start(slab.other)
        started_s = clock()
        state.iteration += 1
        # not time + step: what is left of the last step must not become an iteration of its own
        state.time = until if until is not None and step >= longest else state.time + step
        every = self.controls.residual_every
        due = every > 0 and (state.iteration % every == 0 or self.is_over(state))
        self._mine[0] = slab.change_bits() if due else NO_RESIDUAL
        self._mine[1] = self.stop.code
        self._mine[2] = max(rate_bits, problem.rate_bits(slab.other, slab.first_row, ends=False))
        computed_s = clock()
        self._reduce()
        exchange_s = tried_s - begin_s + finished_s - ahead_s + started_s - swept_s
        compute_s = computed_s - begin_s - exchange_s
        self.watch.iteration(exchange_s, compute_s, clock() - computed_s)
        self._patience_s = PATIENCE * compute_s
        if not isfinite(change_of_bits(int(self._everyone[2]))):
            halo.finish(slab.other)
            self._diverged(state)
        slab.swap()
        state.signal, state.rate_bits = int(self._everyone[1]), int(self._everyone[2])
        if due:
            state.residual_bits = int(self._everyone[0])
        return due

    def _reduce(self) -> None:
        from mpi4py import MPI

        self.slab.comm.Allreduce(self._mine, self._everyone, MPI.MAX)

    def _diverged(self, state: State) -> None:
        where = self.slab.problem.failure(self.slab.other, self.slab.first_row)
        found = [] if where is None else [f"iteration {state.iteration}, time {state.time:.6g}: {where}"]
        agree(self.slab.comm, found, DivergedError)
        raise DivergedError(f"iteration {state.iteration}: the rate of change is not finite")


def iterate(
    slab: Slab,
    state: State,
    controls: Controls,
    *,
    watch: Stopwatch,
    stop: StopRequest,
    observer: Observer | None = None,
) -> None:
    """Advance `state` and `slab` until the end, convergence or a signal to any rank; collective."""
    loop = _Loop(slab, controls, watch, stop)
    saved = -1
    converged = False
    while not (loop.is_over(state) or converged):
        layout = None if observer is None else observer.next_layout(state.iteration)
        if layout is not None and layout != slab.decomposition:
            slab.rearrange(layout)
        with slab.halo() as halo:
            halo.start(slab.field)
            while not (loop.is_over(state) or converged):
                due = loop.once(state, halo)
                converged = due and controls.tolerance is not None and state.residual <= controls.tolerance
                if observer is not None and observer.looks(state.iteration):
                    halo.finish(slab.field)
                    observer.look(slab, state)
                if controls.checkpoint_every and state.iteration % controls.checkpoint_every == 0:
                    saved = state.iteration
                    halo.finish(slab.field)
                    _timed_save(slab, state, controls, watch)
                if observer is not None and observer.next_layout(state.iteration) is not None:
                    break
            halo.finish(slab.field)
    if controls.checkpoint is not None and saved != state.iteration:
        _timed_save(slab, state, controls, watch)


def _timed_save(slab: Slab, state: State, controls: Controls, watch: Stopwatch) -> None:
    assert controls.checkpoint is not None
    start = perf_counter()
    save(slab, state, controls.checkpoint)
    watch.checkpoint_s += perf_counter() - start
