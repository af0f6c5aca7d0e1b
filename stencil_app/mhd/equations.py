"""Ideal magnetohydrodynamics as a problem of the slab runtime: one cycle of the integrator is one iteration.

    ∂ρ/∂t + ∇·(ρv) = 0                                   p = (γ-1) (e - ρv²/2 - B²/2)
    ∂(ρv)/∂t + ∇·(ρvv - BB + p + B²/2) = 0
    ∂e/∂t + ∇·((e + p + B²/2) v - B (B·v)) = 0
    ∂B/∂t = ∇ × (v × B),   ∇·B = 0

The predictor of a slab needs one plane more on either side than it advances, and it advances two beyond the slab for
the corrector: with three ghost planes one exchange is enough. It is under way while the rate of the planes within is
taken; if it is late after that, they are advanced first.
"""

from collections.abc import Mapping
from math import inf

import numpy as np

from stencil_app.mesh.decomposition import Decomposition
from stencil_app.mesh.layout import Array
from stencil_app.mhd import workspace
from stencil_app.mhd.boundaries import KINDS, PERIODIC, REFLECTING, fill_along_1, fill_along_2, fill_beyond
from stencil_app.mhd.case import Case
from stencil_app.mhd.halfstep import PIECEWISE_CONSTANT, PIECEWISE_LINEAR, half_step
from stencil_app.mhd.initial import Frame, InitialState
from stencil_app.mhd.mesh import B1, B2, B3, MeshLayout
from stencil_app.mhd.primitive import largest_rate, raise_to_floors
from stencil_app.options import Value

#: Least density and pressure. Problems have values of order 1; values this small are errors of the scheme.
FLOOR = 1e-10

# Planes that the predictor must have to itself to begin before the exchange ends; it does the lower end twice for that.
_AHEAD = 4

_VARIABLES = (
    "field across rows",
    "density",
    "momentum along lines",
    "momentum across lines",
    "momentum across rows",
    "energy",
    "field along lines",
    "field across lines",
)


class MhdProblem:
    """`stencil_app.physics.Problem` of one case.

    floored : cells raised to the floors so far in this slab, predicted states included
    step : Δt of the last cycle
    """

    name = "mhd"
    sweeps = 1

    def __init__(self, case: Case, parameters: Mapping[str, Value]) -> None:
        self.case = case
        self.frame = Frame(case)
        self.parameters = parameters
        self.size = self.frame.cells[2]
        self.layout: MeshLayout = self.frame.layout
        self.floored = 0
        self.step = 0.0
        self._kinds = [KINDS[kind] for kind in self.frame.boundaries]
        self.periodic = self.layout.slabbed and self._kinds[2] == PERIODIC
        active = zip(self.frame.cells, self.frame.widths, strict=True)
        i, j, k = (1.0 / width if n > 1 else 0.0 for n, width in active)
        self._per_width = (i, j, k)
        self._gas = (case.gamma, FLOOR, FLOOR)
        self._planes, self._lanes = workspace.allocate(*self.layout.plane[1:])
        self._ahead = (0, 0)
        self._rates = np.zeros(self.layout.plane[2])

    def fit(self, slabs: Decomposition) -> None:
        """See `stencil_app.physics.Problem`: the next step is known only after an iteration."""

    def initialise(self, interior: Array, first_row: int) -> None:
        """See `stencil_app.physics.Problem`; interior : float64[planes, 8, lines, entries], the whole field."""
        state, ghosts = InitialState(self.frame), self.layout.ghost_rows
        rows = interior.shape[0] - 2 * ghosts - 1
        for row in range(rows):
            state.fill_row(interior[row + ghosts], first_row + row)
        top = interior[rows + ghosts, B3]
        own_cells = self.layout.lines, self.layout.entries
        top[own_cells] = state.top_faces(first_row + rows)

    def dress(self, field: Array, first_row: int) -> None:
        """See `stencil_app.physics.Problem`."""
        self._fill(field, first_row, 0, field.shape[0])

    def _fill(self, field: Array, first_row: int, first: int, end: int) -> None:
        """Fill ghosts along i and j of planes first..end-1, and the planes beyond the ends of the mesh."""
        fill_along_1(field, self._kinds[0], first, end)
        fill_along_2(field, self._kinds[1], first, end)
        ghosts = self.layout.ghost_rows
        rows = field.shape[0] - 2 * ghosts - 1
        if self.layout.slabbed and self._kinds[2] == PERIODIC:
            return
        if first_row == 0 and self.layout.slabbed:
            fill_beyond(field, self._kinds[2], ghosts, False)
        if first_row + rows == self.size:
            fill_beyond(field, self._kinds[2], ghosts + rows, True)

    def rate_bits(self, field: Array, first_row: int, *, ends: bool) -> int:
        """See `stencil_app.physics.Problem`: of the fastest signal, in cells per time; raises cells to the floors."""
        ghosts = self.layout.ghost_rows
        first, end = ghosts, field.shape[0] - ghosts - 1
        # a slab of less than two messages is all ends
        low_end = min(first + ghosts, end)
        high_end = max(end - ghosts, low_end)
        parts = ((first, low_end), (high_end, end)) if ends else ((low_end, high_end),)
        return max(self._rate_of(field, part) for part in parts)

    def _rate_of(self, field: Array, planes: tuple[int, int]) -> int:
        bits, low = largest_rate(field, *planes, self._gas, self._per_width, self._rates)
        if low:
            self.floored += low
            raise_to_floors(field, *planes, self._gas)
            bits, _ = largest_rate(field, *planes, self._gas, self._per_width, self._rates)
        return int(bits)

    def choose_step(self, rate: float, longest: float) -> float:
        """See `stencil_app.physics.Problem`."""
        self.step = min(self.case.courant / rate if rate > 0.0 else inf, longest)
        return self.step

    def sweep_ahead(self, field: Array, out: Array, first_row: int) -> None:
        """See `stencil_app.physics.Problem`: the predictor of all planes but the outermost, if there are enough."""
        ghosts = self.layout.ghost_rows
        first, end = ghosts + 1, field.shape[0] - ghosts - 2
        if self.layout.slabbed and end - first >= _AHEAD:
            self._ahead = (first, end)
            self._predict(field, out, (first, end))

    def _predict(self, field: Array, out: Array, planes: tuple[int, int], *, goes_on: bool = False) -> None:
        span = (*planes, PIECEWISE_CONSTANT, int(goes_on))
        self._half_step(field, (field, out), span, 0.5 * self.step)

    def _half_step(
        self, src: Array, between: tuple[Array, Array], span: tuple[int, int, int, int], step: float
    ) -> int:
        base, dst = between
        steps = (step, self.step, *self._per_width)
        return int(half_step(src, base, dst, self._planes, self._lanes, span, steps, self._gas))

    def sweep(self, field: Array, out: Array, first_row: int, count: int = 1) -> None:
        """See `stencil_app.physics.Problem`."""
        ghosts = self.layout.ghost_rows
        first, end = ghosts, field.shape[0] - ghosts - 1
        # the corrector's input beyond the slab, unless a wall supplies it
        low, high = self._reach(first_row, end - first)
        done, undone = self._ahead
        self._ahead = (0, 0)
        if undone > done:
            self._predict(field, out, (undone, end + high), goes_on=True)
            self._predict(field, out, (first - low, done))
        else:
            self._predict(field, out, (first - low, end + high))
        self._fill(out, first_row, first - low, end + high + 1)
        span = (first, end, PIECEWISE_LINEAR, 0)
        self.floored += self._half_step(out, (field, out), span, self.step)
        self._fill(out, first_row, first, end + 1)

    def _reach(self, first_row: int, rows: int) -> tuple[int, int]:
        if not self.layout.slabbed:
            return 0, 0
        at_bottom, at_top = first_row == 0, first_row + rows == self.size
        return (
            0 if at_bottom and not self.periodic else 2,
            0 if at_top and not self.periodic else 2,
        )

    def bad_start(self, field: Array, first_row: int) -> str | None:
        """Return why an initial state is invalid: a cell without positive density and pressure.

        None if all are valid.
        """
        crossing = self._field_through_mirrors(field, first_row)
        if self.floored == 0 and crossing > 0.0:
            return (
                f"a field of up to {crossing:.4g} crosses a reflecting wall, which lets none through; "
                "take outflow or periodic, or no field there"
            )
        if self.floored == 0:
            return self.failure(field, first_row)
        return (
            f"the initial state has {self.floored} cell(s) with density or pressure under {FLOOR:g} in rows from "
            f"{first_row}; both must be positive"
        )

    def _field_through_mirrors(self, field: Array, first_row: int) -> float:
        layout, ghosts = self.layout, self.layout.ghost_rows
        own_cells, rows = slice(ghosts, field.shape[0] - ghosts - 1), field.shape[0] - 2 * ghosts - 1
        lines, entries = layout.lines, layout.entries
        largest_fields = [0.0]
        if self._kinds[0] == REFLECTING:
            largest_fields += [
                float(np.abs(field[own_cells, B1, lines, at]).max()) for at in (entries.start, entries.stop)
            ]
        if self._kinds[1] == REFLECTING and layout.ny > 1:
            largest_fields += [
                float(np.abs(field[own_cells, B2, at, entries]).max()) for at in (lines.start, lines.stop)
            ]
        if self._kinds[2] == REFLECTING and layout.slabbed:
            ends = [own_cells.start] * (first_row == 0) + [own_cells.stop] * (first_row + rows == self.size)
            largest_fields += [float(np.abs(field[at, B3, lines, entries]).max()) for at in ends]
        # the curl of a potential is 0 to round-off only
        return max(largest_fields) if max(largest_fields) > 1e-12 else 0.0

    def failure(self, field: Array, first_row: int) -> str | None:
        """See `stencil_app.physics.Problem`: the first cell that is not finite, by its place in the box."""
        values = self.layout.cells(field)
        bad = np.argwhere(~np.isfinite(values))
        if bad.size == 0:
            return None
        row, variable, j, i = (int(n) for n in bad[0])
        indices = dict(zip(self.frame.order, (i, j, first_row + row), strict=True))
        at = ", ".join(
            f"{axis} = {self.frame.points(number, nodes=False)[indices[number]]:.6g}"
            for number, axis in enumerate("xyz")
        )
        return f"{_VARIABLES[variable]} of the cell at {at} is {values[row, variable, j, i]}; take a smaller --courant"
