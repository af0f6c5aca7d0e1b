"""Adaptation of a simulated run: progress reports to the controller, and its orders.

The counterpart for real ranks is `stencil_app.running.runsteering`; the controller is the same object. Moving rows
takes simulated time: that of the most loaded link at its present bandwidth.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from apples.model.grid import FloatArray
from apples.model.progress import AdaptationController, CheckpointAndEnd, NewSlabs, Progress
from apples.model.template import Workload
from apples.planning.problem import IntArray
from apples.simulation.mock_grid import MockGrid

#: One of the two fields in a rank's memory moves.
_MOVED_PART = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunProgress:
    """Progress of a run.

    t: simulated time, s.
    iterations: sweeps done, of `of` in total.
    compute_s, communicate_s, wait_s: float64[P], up to now.
    latency_s, bandwidth_Bps: float64[P-1], present values of the links along the chain.
    """

    t: float
    iterations: int
    of: int
    compute_s: FloatArray
    communicate_s: FloatArray
    wait_s: FloatArray
    latency_s: FloatArray
    bandwidth_Bps: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlabMove:
    """New slabs. `work_s`, `memory_bytes`: float64[P], as in `Chain`. `took_s`: duration of the move."""

    work_s: FloatArray
    memory_bytes: FloatArray
    took_s: float


class SimulatedSteering:
    """Steering of one simulated run.

    ended: the controller ordered a checkpoint and the end.
    why: its reason, for the user.
    """

    def __init__(
        self,
        grid: MockGrid,
        workload: Workload,
        controller: AdaptationController,
        chain: tuple[IntArray, IntArray],
    ) -> None:
        """Start without a report. `chain`: hosts and rows, int64[P] each."""
        self.ended, self.why = False, ""
        self._grid, self._workload, self._controller = grid, workload, controller
        self._hosts, self._rows = chain
        self._since: RunProgress | None = None
        self._moves = 0
        self._moved_s: float | None = None

    def begin(self, standing: RunProgress) -> None:
        """Set the progress before the first iteration."""
        self._since = standing

    def due(self, t: float) -> bool:
        """Return whether a report is due."""
        return self._since is not None and t - self._since.t >= self._controller.report_every_s

    def hear(self, now: RunProgress) -> SlabMove | None:
        """Report progress and apply the answer. Return the new slabs, or None."""
        since = self._since
        assert since is not None
        progress = Progress(
            iteration=now.iterations,
            left=float(now.of - now.iterations),
            iterations=now.iterations - since.iterations,
            seconds=now.t - since.t,
            rows=tuple(self._rows.tolist()),
            compute_s=tuple((now.compute_s - since.compute_s).tolist()),
            exchange_s=tuple((now.communicate_s - since.communicate_s).tolist()),
            reduce_s=tuple((now.wait_s - since.wait_s).tolist()),
            moves=self._moves,
            moved_s=self._moved_s,
        )
        self._since, self._moved_s = now, None
        with self._at(now.t):
            order = self._controller.hear(progress)
        match order:
            case NewSlabs(rows=rows):
                return self._move(np.array(rows, dtype=np.int64), now)
            case CheckpointAndEnd(why=why):
                self.ended, self.why = True, why
        return None

    def _move(self, rows: IntArray, now: RunProgress) -> SlabMove:
        work, machines = self._workload, self._grid.machines
        crossing = np.abs(np.cumsum(rows) - np.cumsum(self._rows))[:-1] * work.bytes_per_row * _MOVED_PART
        took_s = float((2 * now.latency_s + crossing / now.bandwidth_Bps).max(initial=0.0))
        self._rows, self._moves, self._moved_s = rows, self._moves + 1, took_s
        return SlabMove(
            work_s=rows * machines.sweep_s[self._hosts] * self._grid.row_cost(work),
            memory_bytes=work.bytes_fixed + work.bytes_per_row * rows.astype(np.float64),
            took_s=took_s,
        )

    @contextmanager
    def _at(self, t: float) -> Iterator[None]:
        """Set the grid's clock to the run's present time while the controller reads the grid."""
        launched, self._grid.now = self._grid.now, t
        try:
            yield
        finally:
            self._grid.now = launched
