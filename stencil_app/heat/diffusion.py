"""The heat equation ∂u/∂t = Δu on the unit cube: mesh, boundary, initial values, time step.

Explicit Euler and the 7-point Laplacian: second order in the mesh width at a fixed fraction (`courant`) of
the stability limit Δt = 1 / (2 (1/hx² + 1/hy² + 1/hz²)). With walls held at 0 unknowns sit at h, 2h, ...,
h = 1/(n+1); periodic at 0, h, ..., h = 1/n; insulated at the cell centres, h = 1/n. The sweep itself is in
`stencil_app.heat.kernels`.
"""

import math
from collections.abc import Mapping

import numpy as np

from stencil_app.heat import HEAT
from stencil_app.heat.kernels import FIXED, INSULATED, PERIODIC, sweep, y_ghosts
from stencil_app.mesh.layout import Array
from stencil_app.mesh.noise import fill_noise
from stencil_app.options import Value
from stencil_app.physics import FixedStep

_LATERAL = {"fixed": FIXED, "periodic": PERIODIC, "insulated": INSULATED}
_WIDTH = 0.1


class HeatProblem(FixedStep):
    """`stencil_app.physics.Problem` of the heat equation.

    step : Δt of one iteration.  weights : of the centre and the neighbours along x, y, z
    """

    name = "heat"

    def __init__(self, size: int, values: Mapping[str, Value]) -> None:
        self.size = size
        self.parameters = {"size": size, **values}
        self.layout = HEAT.layout(values)
        self.boundary = str(values["boundary"])
        self.initial = str(values["initial"])
        self.periodic = self.boundary == "periodic"
        widths = [self._width(n) for n in (self.layout.nx, self.layout.ny, size)]
        self.step = float(values["courant"]) / (2.0 * sum(h**-2 for h in widths))
        along = [self.step / h**2 for h in widths]
        self.weights = (1.0 - 2.0 * sum(along), *along)

    def _width(self, cells: int) -> float:
        return 1.0 / (cells + 1) if self.boundary == "fixed" else 1.0 / cells

    def points(self, cells: int) -> Array:
        """Return coordinates of the unknowns along an axis of `cells` cells, float64[cells]."""
        offset = {"fixed": 1.0, "periodic": 0.0, "insulated": 0.5}[self.boundary]
        points: Array = (np.arange(cells, dtype=np.float64) + offset) * self._width(cells)
        return points

    def mode(self, at: Array) -> Array:
        """Return one axis' factor of the initial mode, at coordinates `at`."""
        wave = {"fixed": np.sin, "periodic": np.sin, "insulated": np.cos}[self.boundary]
        values: Array = wave(self._wave_number * at)
        return values

    @property
    def _wave_number(self) -> float:
        return 2.0 * math.pi if self.periodic else math.pi

    def initialise(self, interior: Array, first_row: int) -> None:
        """See `stencil_app.physics.Problem`."""
        rows, ny, nx = interior.shape
        if self.initial == "random":
            fill_noise(interior, first_row)
            return
        axes = [self.points(n) for n in (self.size, ny, nx)]
        # Whole axes, then the slab's part: vectorised sin and exp may round by position in the array.
        if self.initial == "mode":
            z, y, x = (self.mode(axis) for axis in axes)
        else:
            z, y, x = (np.exp(-(((axis - 0.5) / _WIDTH) ** 2)) for axis in axes)
        np.multiply(z[first_row : first_row + rows, None, None], y[:, None] * x, out=interior)

    def dress(self, field: Array, first_row: int) -> None:
        """See `stencil_app.physics.Problem`."""
        if self.boundary == "fixed":
            return
        nx = self.layout.nx
        low, high = (nx, 1) if self.periodic else (1, nx)
        field[1:-1, :, 0], field[1:-1, :, nx + 1] = field[1:-1, :, low], field[1:-1, :, high]
        y_ghosts(field, _LATERAL[self.boundary])
        self._walls_along_z(field, first_row)

    def _walls_along_z(self, field: Array, first_row: int) -> None:
        if self.boundary != "insulated":
            return
        if first_row == 0:
            field[0] = field[1]
        if first_row + field.shape[0] - 2 == self.size:
            field[-1] = field[-2]

    def sweep(self, field: Array, out: Array, first_row: int) -> None:
        """See `stencil_app.physics.Problem`."""
        sweep(field, out, self.layout.nx, self.weights, _LATERAL[self.boundary])
        self._walls_along_z(out, first_row)


make = HeatProblem
