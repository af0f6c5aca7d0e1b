"""The history of a run: conserved quantities and indicators of its health, one line of a table at intervals.

Sums run over rows first and then over all rows in their order with exact rounding, so that the table is the same for
every layout of slabs. Columns: cycle, time, step, mass, momentum, total, kinetic and magnetic energy (integrals over
the box), largest |∇·B| times the least width over the mean |B|, and cells floored so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, prod
from pathlib import Path

import numpy as np

from nws.base.oserrors import REASON, os_errors_as
from stencil_app.errors import OutputError
from stencil_app.mesh.decomposition import Decomposition
from stencil_app.mesh.layout import Array
from stencil_app.mesh.slab import Slab
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, RHO, E
from stencil_app.mhd.solution import mhd_problem
from stencil_app.running.mpi import agreed
from stencil_app.running.runtime import State

COLUMNS = (
    "cycle",
    "time",
    "step",
    "mass",
    "momentum_x",
    "momentum_y",
    "momentum_z",
    "energy",
    "kinetic",
    "magnetic",
    "divergence",
    "floored",
)
_I0 = LATERAL_GHOSTS


def divergence(plane: Array, above: Array, slab: Slab) -> Array:
    """Return ∇·B of the cells of one plane, float64[nj, ni]; plane, above : float64[8, lines, entries]."""
    problem = mhd_problem(slab)
    layout, widths = problem.layout, problem.frame.widths
    lines, entries = layout.lines, layout.entries
    upper = slice(lines.start + 1, lines.stop + 1)
    return (
        (plane[B1, lines, _I0 + 1 : _I0 + 1 + layout.nx] - plane[B1, lines, entries]) / widths[0]
        + (plane[B2, upper, entries] - plane[B2, lines, entries]) / widths[1]
        + (above[B3, lines, entries] - plane[B3, lines, entries]) / widths[2]
    )


def _row(slab: Slab, row: int) -> list[float]:
    """Return sums over one row: ρ, momenta along x, y, z, energies, |B|, and the largest |∇·B|."""
    problem = mhd_problem(slab)
    layout = problem.layout
    plane, above = slab.field[layout.ghost_rows + row], slab.field[layout.ghost_rows + row + 1]
    own_cells = (layout.lines, layout.entries)
    upper = slice(layout.lines.start + 1, layout.lines.stop + 1)
    rho = plane[(RHO, *own_cells)]
    m = [plane[(M1 + problem.frame.order.index(axis), *own_cells)] for axis in range(3)]
    b2 = (
        (0.5 * (plane[(B1, *own_cells)] + plane[B1, layout.lines, _I0 + 1 : _I0 + 1 + layout.nx])) ** 2
        + (0.5 * (plane[(B2, *own_cells)] + plane[B2, upper, layout.entries])) ** 2
        + (0.5 * (plane[(B3, *own_cells)] + above[(B3, *own_cells)])) ** 2
    )
    kinetic = 0.5 * (m[0] ** 2 + m[1] ** 2 + m[2] ** 2) / rho
    sums = (rho, *m, plane[(E, *own_cells)], kinetic, 0.5 * b2, np.sqrt(b2))
    return [*(float(values.sum()) for values in sums), float(np.abs(divergence(plane, above, slab)).max())]


def totals(slab: Slab) -> dict[str, float]:
    """Return integrals over the box by name, and the relative divergence; collective, the same on all ranks."""
    problem = mhd_problem(slab)
    rows = [row for mine in slab.comm.allgather([_row(slab, k) for k in range(slab.rows)]) for row in mine]
    volume = prod(problem.frame.widths)
    sums = [fsum(row[column] for row in rows) for column in range(8)]
    mean_field = sums[7] / prod(problem.frame.cells)
    sums_by_name = dict(zip(COLUMNS[3:10], (volume * s for s in sums[:7]), strict=True))
    largest = max(row[8] for row in rows) * min(problem.frame.widths)
    return {**sums_by_name, "divergence": largest / mean_field if mean_field > 0.0 else largest}


class RunObserver:
    """`stencil_app.running.runtime.Observer`: the table of a run, and other slabs at cycles known from the start.

    path : the table, begun anew, or continued after a restart; None for no table.  cuts : slabs by cycle
    """

    def __init__(self, path: Path | None, every: int, cuts: Mapping[int, Decomposition]) -> None:
        self._path, self._every, self._cuts = path, every, cuts
        self._last = -1

    def begin(self, slab: Slab, state: State, *, append: bool) -> None:
        """Write the head and the state that the run begins with; collective. Raises `OutputError` on all ranks."""
        if self._path is not None and append and self._path.is_file():
            self._last = state.iteration
            return
        self._write(slab, ",".join(COLUMNS), "w")
        self._line(slab, state)

    def looks(self, iteration: int) -> bool:
        """Return whether it is time for a line."""
        return self._path is not None and iteration % self._every == 0

    def next_layout(self, iteration: int) -> Decomposition | None:
        """See `stencil_app.running.runtime.Observer`."""
        return self._cuts.get(iteration)

    def look(self, slab: Slab, state: State) -> None:
        """Append a line; collective."""
        self._line(slab, state)

    def end(self, slab: Slab, state: State) -> None:
        """Append the state that the run ends with, if it has no line yet; collective."""
        if self._last != state.iteration:
            self._line(slab, state)

    def _line(self, slab: Slab, state: State) -> None:
        if self._path is None:
            return
        self._last = state.iteration
        problem = mhd_problem(slab)
        sums = totals(slab)
        floored = sum(slab.comm.allgather(problem.floored))
        values = [state.iteration, state.time, problem.step, *sums.values(), floored]
        self._write(slab, ",".join(f"{value!r}" for value in values), "a")

    def _write(self, slab: Slab, text: str, mode: str) -> None:
        unwritten = f"--history {self._path}: could not be written: {REASON}"
        with agreed(slab.comm, OutputError), os_errors_as(OutputError, unwritten):
            if self._path is not None and slab.comm.rank == 0:
                with self._path.open(mode, encoding="utf-8") as file:
                    file.write(text + "\n")
