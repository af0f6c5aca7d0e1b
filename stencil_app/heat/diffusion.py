"""The heat equation ∂u/∂t = Δu on the unit cube: mesh, boundary, initial values, time step.

Explicit Euler and the 7-point Laplacian: second order in the mesh width at a fixed fraction (`courant`) of
the stability limit Δt = 1 / (2 (1/hx² + 1/hy² + 1/hz²)). With walls held at 0 unknowns sit at h, 2h, ...,
h = 1/(n+1); periodic at 0, h, ..., h = 1/n; insulated at the cell centres, h = 1/n. The sweep itself is in
`stencil_app.heat.diffusion`.

The 7-point sweep: memory-bound, so that everything here reduces memory traffic.

Rows are swept in blocks that keep the planes of one block in the second-level cache, two planes at a time: the two read
four planes instead of six, which saves a third of the traffic between caches. The compulsory 24 bytes a cell (read,
write-allocate, write back) remain; benchmarks/heat_roofline.py compares them with a triad. Lateral ghost cells of the
new field are set on the way, while they are in cache. The meaning of boundaries is in `stencil_app.heat.diffusion`.
"""

import math
from collections.abc import Mapping

import numpy as np

from stencil_app.heat import HEAT
from stencil_app.jit import inlined, kernel
from stencil_app.mesh.layout import Array
from stencil_app.mesh.measures import fill_noise
from stencil_app.options import Value
from stencil_app.physics import FixedStep

FIXED, PERIODIC, INSULATED = 0, 1, 2

_BLOCK_BYTES = 3 * 2**18
_PLANES_IN_FLIGHT = 6


@inlined
def _x_ghosts(row: Array, nx: int, lateral: int) -> None:
    if lateral == PERIODIC:
        row[0], row[nx + 1] = row[nx], row[1]
    elif lateral == INSULATED:
        row[0], row[nx + 1] = row[1], row[nx]


@inlined
def _one_row(u: Array, out: Array, at: tuple[int, int], nx: int, w: tuple[float, ...]) -> Array:
    k, j = at
    mid, south, north, below, above = u[k, j], u[k, j - 1], u[k, j + 1], u[k - 1, j], u[k + 1, j]
    new: Array = out[k, j]
    c, cx, cy, cz = w
    for i in range(1, nx + 1):
        new[i] = (
            c * mid[i]
            + cx * (mid[i - 1] + mid[i + 1])
            + cy * (south[i] + north[i])
            + cz * (below[i] + above[i])
        )
    return new


@inlined
def _two_rows(
    u: Array, out: Array, at: tuple[int, int], nx: int, w: tuple[float, ...]
) -> tuple[Array, Array]:
    k, j = at
    below, mid, up, above = u[k - 1, j], u[k, j], u[k + 1, j], u[k + 2, j]
    south, north, up_south, up_north = u[k, j - 1], u[k, j + 1], u[k + 1, j - 1], u[k + 1, j + 1]
    new, new_up = out[k, j], out[k + 1, j]
    c, cx, cy, cz = w
    for i in range(1, nx + 1):
        a, b = mid[i], up[i]
        new[i] = c * a + cx * (mid[i - 1] + mid[i + 1]) + cy * (south[i] + north[i]) + cz * (below[i] + b)
        new_up[i] = (
            c * b + cx * (up[i - 1] + up[i + 1]) + cy * (up_south[i] + up_north[i]) + cz * (a + above[i])
        )
    return new, new_up


@kernel("void(float64[:,:,::1], int64)")
def y_ghosts(u: Array, lateral: int) -> None:
    """Set the ghost rows along y of every inner plane from their source rows; FIXED ones are left alone."""
    top, ny = u.shape[0] - 1, u.shape[1] - 2
    if lateral == FIXED:
        return
    low, high = (ny, 1) if lateral == PERIODIC else (1, ny)
    for k in range(1, top):
        u[k, 0] = u[k, low]
        u[k, ny + 1] = u[k, high]


@kernel("void(float64[:,:,::1], float64[:,:,::1], int64, UniTuple(float64, 4), int64)")
def sweep(u: Array, out: Array, nx: int, w: tuple[float, ...], lateral: int) -> None:
    """Compute one explicit step of every inner plane of `u` into `out`, with the lateral ghost cells of `out`.

    u, out : float64[rows + 2, ny + 2, stride], one ghost layer, stride >= nx + 2 (the rest is padding)
    w : weights of the centre and of the neighbours along x, y and z
    lateral : kind of the ghost cells along x and y: FIXED (left alone), PERIODIC or INSULATED
    """
    top, ny, stride = u.shape[0] - 1, u.shape[1] - 2, u.shape[2]
    block = max(4, _BLOCK_BYTES // (8 * _PLANES_IN_FLIGHT * stride))
    for j0 in range(1, ny + 1, block):
        j1 = min(j0 + block, ny + 1)
        for k in range(1, top - 1, 2):
            for j in range(j0, j1):
                new, new_up = _two_rows(u, out, (k, j), nx, w)
                _x_ghosts(new, nx, lateral)
                _x_ghosts(new_up, nx, lateral)
        if top % 2 == 0:
            for j in range(j0, j1):
                _x_ghosts(_one_row(u, out, (top - 1, j), nx, w), nx, lateral)
    y_ghosts(out, lateral)


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
        return (np.arange(cells, dtype=np.float64) + offset) * self._width(cells)

    def mode(self, at: Array) -> Array:
        """Return one axis' factor of the initial mode, at coordinates `at`."""
        wave = {"fixed": np.sin, "periodic": np.sin, "insulated": np.cos}[self.boundary]
        return wave(self._wave_number * at)

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
