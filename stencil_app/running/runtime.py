"""The slab runtime: one loop for every physics - sweep, exchange, reduce, repeat.

The exchange begins as soon as a sweep has ended and overlaps with the rate, the residual and one reduction over all
ranks. The reduction carries the residual when one was taken, the bound of the next step, and the requests of any rank
to stop, or of rank 0 to report, so that all ranks act after the same iteration. If ghost rows are still late, planes
that do not depend on them are computed meanwhile (overlap), if the problem supports it, at the price of some rows
computed twice. The iteration itself belongs to the problem (`stencil_app.physics.Problem`), the times to
`stencil_app.running.timing`. No options are parsed here and nothing is printed.

Ends a run from outside: a signal to any rank is recorded, and every rank stops at one iteration.

The handler only records the signal; the reduction that ends each iteration spreads it, so that no rank waits for one
that has ended. While a rank waits inside MPI its signal is pending; it reaches the other ranks later.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Protocol

import numpy as np

from nws.base.records import copied
from stencil_app.errors import CheckpointError, DivergedError
from stencil_app.files import checkpoint
from stencil_app.mesh.decomposition import Decomposition
from stencil_app.mesh.measures import change_of_bits
from stencil_app.mesh.slab import Halo, KeptRows, Slab
from stencil_app.running.mpi import agree, agreed
from stencil_app.running.runsteering import CUT, NOTHING, REPORT, Places, Position, Steering
from stencil_app.running.timing import Stopwatch

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """A request to end this process. `code`: the signal's number, 0 without a request."""

    def __init__(self) -> None:
        self.code = 0

    def listen(self) -> StopRequest:
        """Take over SIGTERM and SIGINT of this process (main thread only)."""
        for number in SIGNALS:
            signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.code = max(self.code, number)


NO_RESIDUAL = -1
#: Iterations of a run that ends by its own time.
UNBOUNDED = 2**62
#: Wait for late ghost rows before overlapping, for each second of computation in the last iteration:
#: about the cost of the overlap, so that neither choice ever costs twice as much as the other.
PATIENCE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """The length of a run and its checkpoints.

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
    """The state of a run, the same on every rank.

    iteration : iterations done.  residual_bits : `measures.largest_change_bits` when last taken
    time : the problem's own time.  rate_bits : bound of the next step, of all ranks
    signal : number of the signal that ended the run, 0 for none
    """

    iteration: int = 0
    residual_bits: int = NO_RESIDUAL
    time: float = 0.0
    rate_bits: int = 0
    signal: int = 0

    @property
    def residual(self) -> float:
        """Return largest change of any cell in the iteration where it was last taken; NaN if never."""
        return float("nan") if self.residual_bits == NO_RESIDUAL else change_of_bits(self.residual_bits)


class Observer(Protocol):
    """An observer of a run between iterations, the same on all ranks."""

    def looks(self, iteration: int) -> bool:
        """Return whether to call `look` after this iteration; the same value on all ranks."""

    def look(self, slab: Slab, state: State) -> None:
        """Observe the slab after an iteration, its ghost rows filled; may be collective."""

    def next_layout(self, iteration: int) -> Decomposition | None:
        """Return new slabs to continue with, or None; the same value on all ranks."""


def begin(slab: Slab, restart: Path | None) -> State:
    """Return the initial state, or that of a checkpoint; collective. Raises `CheckpointError` on all ranks."""
    problem = slab.problem
    state = State()
    if restart is None:
        problem.initialise(slab.interior, slab.first_row)
        slab.dress()
        parts = (problem.rate_bits(slab.field, slab.first_row, ends=ends) for ends in (True, False))
        state.rate_bits = max(slab.comm.allgather(max(parts)))
        return state
    with agreed(slab.comm, CheckpointError):
        header = checkpoint.read_header(restart)
        wrong = checkpoint.mismatches(restart, header, problem.name, problem.parameters)
        if wrong:
            raise CheckpointError(wrong)
        checkpoint.read_rows(restart, header, KeptRows(slab), slab.first_row)
        state = copied(State, header)
    # one slab takes the count of all slabs of the checkpoint
    problem.floored = header.floored if slab.comm.rank == 0 else 0
    slab.dress()
    slab.refresh()
    return state


def save(slab: Slab, state: State, path: Path) -> None:
    """Write a checkpoint; collective. Raises `OutputError` on all ranks, the previous file untouched."""
    layout, problem = slab.problem.layout, slab.problem
    header = copied(
        checkpoint.Header,
        state,
        application=problem.name,
        parameters=problem.parameters,
        mesh=(problem.size + layout.faces_on_top, *layout.kept_shape),
        floored=sum(slab.comm.allgather(problem.floored)),
    )
    checkpoint.write(slab.comm, path, header, interior=KeptRows(slab), first_row=slab.first_row)


class _Loop:
    """The iterations of a run.

    wish : requests of rank 0 after the last iteration, bits of `stencil_app.running.runsteering`
    """

    def __init__(
        self,
        slab: Slab,
        controls: Controls,
        watch: Stopwatch,
        requests: tuple[StopRequest, Steering],
    ) -> None:
        self.slab, self.controls, self.watch = slab, controls, watch
        self.stop, self.steering = requests
        self.wish = NOTHING
        self._mine, self._everyone = np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
        self._patience_s = self._step = 0.0

    def is_over(self, state: State) -> bool:
        """Return whether the run has reached its end."""
        until = self.controls.until
        return bool(
            state.iteration >= self.controls.iterations
            or state.signal
            or (until is not None and state.time >= until)
        )

    def _count(self, state: State) -> int:
        """Return iterations of the next pass: up to where a residual or a checkpoint is due, in equal passes."""
        controls = self.controls
        left = controls.iterations - state.iteration
        for every in (controls.residual_every, controls.checkpoint_every):
            if every:
                left = min(left, every - state.iteration % every)
        return 1 if controls.until is not None else -(-left // -(-left // self.slab.problem.sweeps))

    def once(self, state: State, halo: Halo) -> bool:
        """Run one pass, from an exchange under way to the next one; return whether it took a residual.

        A pass has one iteration, or as many as the problem computes without an exchange.

        Raises `DivergedError` on all ranks.
        """
        slab, problem, clock = self.slab, self.slab.problem, self.watch.clock
        until = self.controls.until
        longest = inf if until is None else until - state.time
        step = self._step = problem.choose_step(change_of_bits(state.rate_bits), longest)
        begin_s = clock()
        arrived, tried_s = halo.arrives(slab.field, self._patience_s), clock()
        if not arrived:
            problem.sweep_ahead(slab.field, slab.other, slab.first_row)
        ahead_s = clock()
        halo.finish(slab.field)
        finished_s = clock()
        count = self._count(state)
        problem.sweep(slab.field, slab.other, slab.first_row, count)
        if count % 2:
            slab.swap()
        rate_bits = problem.rate_bits(slab.field, slab.first_row, ends=True)
        swept_s = clock()
        halo.start(slab.field)
        started_s = clock()
        for _ in range(count):
            state.iteration += 1
            # not time + step: a remainder of the last step must not become an iteration
            state.time = until if until is not None and step >= longest else state.time + step
        every = self.controls.residual_every
        due = every > 0 and (state.iteration % every == 0 or self.is_over(state))
        self._mine[0] = slab.change_bits() if due else NO_RESIDUAL
        self._mine[1] = self.stop.code
        self._mine[2] = max(rate_bits, problem.rate_bits(slab.field, slab.first_row, ends=False))
        self._mine[3] = self.steering.wish()
        computed_s = clock()
        self._reduce()
        exchange_s = tried_s - begin_s + finished_s - ahead_s + started_s - swept_s
        compute_s = computed_s - begin_s - exchange_s
        self.watch.iterations(count, exchange_s, compute_s, clock() - computed_s)
        self._patience_s = PATIENCE * compute_s
        if not isfinite(change_of_bits(int(self._everyone[2]))):
            halo.finish(slab.field)
            self._diverged(state)
        state.signal, state.rate_bits = int(self._everyone[1]), int(self._everyone[2])
        self.wish = int(self._everyone[3])
        if due:
            state.residual_bits = int(self._everyone[0])
        return due

    def steer(self, state: State) -> Decomposition | None:
        """Carry out the requests of rank 0; return slabs to continue with, or None. Collective."""
        if self.wish & REPORT:
            self.steering.report(self.slab, Position(iteration=state.iteration, left=self._left(state)))
        return self.steering.offered(self.slab) if self.wish & CUT else None

    def rearrange(self, layout: Decomposition) -> None:
        """Change to other slabs; collective."""
        start = perf_counter()
        self.slab.rearrange(layout)
        took_s = perf_counter() - start
        self.watch.moves_s += took_s
        self.steering.moved(took_s)

    def _left(self, state: State) -> float | None:
        """Return the approximate number of remaining iterations, None if unbounded."""
        bounds = []
        if self.controls.iterations < UNBOUNDED:
            bounds.append(float(self.controls.iterations - state.iteration))
        if self.controls.until is not None and self._step > 0:
            bounds.append(max(0.0, self.controls.until - state.time) / self._step)
        return min(bounds, default=None)

    def _reduce(self) -> None:
        from mpi4py import MPI

        self.slab.comm.Allreduce(self._mine, self._everyone, MPI.MAX)

    def _diverged(self, state: State) -> None:
        where = self.slab.problem.failure(self.slab.field, self.slab.first_row)
        problems = [] if where is None else [f"iteration {state.iteration}, time {state.time:.6g}: {where}"]
        agree(self.slab.comm, problems, DivergedError)
        raise DivergedError(f"iteration {state.iteration}: the rate of change is not finite")


def iterate(
    slab: Slab,
    state: State,
    controls: Controls,
    *,
    watch: Stopwatch,
    stop: StopRequest,
    observer: Observer | None = None,
    steering: Steering | None = None,
) -> None:
    """Advance `state` and `slab` until the end, convergence or a signal to any rank; collective."""
    steering = steering or Steering(slab.comm, Places(), watch)
    loop = _Loop(slab, controls, watch, (stop, steering))
    saved = -1
    converged = False
    layout: Decomposition | None = None
    while not (loop.is_over(state) or converged):
        planned = None if observer is None else observer.next_layout(state.iteration)
        layout = planned or layout
        if layout is not None and layout != slab.decomposition:
            loop.rearrange(layout)
        layout = None
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
                if loop.wish:
                    layout = loop.steer(state)
                if layout is not None or (
                    observer is not None and observer.next_layout(state.iteration) is not None
                ):
                    break
            halo.finish(slab.field)
    if controls.checkpoint is not None and saved != state.iteration:
        _timed_save(slab, state, controls, watch)


def _timed_save(slab: Slab, state: State, controls: Controls, watch: Stopwatch) -> None:
    assert controls.checkpoint is not None
    start = perf_counter()
    save(slab, state, controls.checkpoint)
    watch.checkpoint_s += perf_counter() - start
    watch.checkpoints += 1
