"""The heat equation ∂u/∂t = Δu on the unit cube: mesh, boundary, initial values, time step.

Explicit Euler and the 7-point Laplacian: second order in the mesh width at a fixed fraction (`courant`) of
the stability limit Δt = 1 / (2 (1/hx² + 1/hy² + 1/hz²)). With walls held at 0 unknowns sit at h, 2h, ...,
h = 1/(n+1); periodic at 0, h, ..., h = 1/n; insulated at the cell centres, h = 1/n. The sweep itself is in
`stencil_app.heat.diffusion`.

The 7-point sweep is bound by memory, so that everything here reduces memory traffic: several sweeps run in one pass
(`stencil_app.mesh.wavefront`), two planes at a time: the two read four planes instead of six, which saves a third of
the traffic between caches. A sweep by itself moves 24 bytes a cell (read, write-allocate, write back), or 16 if it
stores past the caches; benchmarks/stencil_kernels.py compares that with C. Lateral ghost cells of the new field are
set on the way, while they are in cache.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from stencil_app.heat import HEAT
from stencil_app.jit import inlined, kernel
from stencil_app.mesh.layout import Array
from stencil_app.mesh.measures import fill_noise
from stencil_app.mesh.wavefront import line_of, past_caches, wavefront_of
from stencil_app.options import Value
from stencil_app.physics import FixedStep
from stencil_app.vectors import drain, load

FIXED, PERIODIC, INSULATED = 0, 1, 2


@inlined
def _stencil(u: Array, i: int, physics: tuple[Any, ...]) -> Any:
    plane, line, (c, cx, cy, cz) = physics
    return (
        c * load(u, i)
        + cx * (load(u, i - 1) + load(u, i + 1))
        + cy * (load(u, i - line) + load(u, i + line))
        + cz * (load(u, i - plane) + load(u, i + plane))
    )


_line = line_of(_stencil)


@inlined
def _copy(out: Array, source: int, target: int, length: int) -> None:
    for i in range(length):
        out[target + i] = out[source + i]


@inlined
def _lateral_ghosts(
    out: Array, at: tuple[int, int, int], mesh: tuple[int, int], line: int, lateral: int
) -> None:
    """Set the ghosts beside lines j0 + 1 to j1 of the plane that begins at `origin`."""
    origin, j0, j1 = at
    nx, ny = mesh
    if lateral == FIXED:
        return
    periodic = lateral == PERIODIC
    left, right = (nx, 1) if periodic else (1, nx)
    for start in range(origin + (j0 + 1) * line, origin + (j1 + 1) * line, line):
        out[start], out[start + nx + 1] = out[start + left], out[start + right]
    # Along a periodic axis the last block has what the first one lacks.
    if j1 == ny:
        _copy(out, origin + (1 if periodic else ny) * line, origin + (ny + 1) * line, line)
    if (j1 == ny) if periodic else (j0 == 0):
        _copy(out, origin + (ny if periodic else 1) * line, origin, line)


@inlined
def _step(u: Array, out: Array, part: tuple[int, int, int, int], physics: tuple[Any, ...]) -> None:
    k, number, j0, j1 = part
    mesh, lateral, streaming, walls, weights = physics
    plane, line, _ = weights
    up = plane if number == 2 else 0
    for j in range(j0 + 1, j1 + 1):
        start = k * plane + j * line + 1
        _line(u, out, (start, start + mesh[0], up), streaming, weights)
    for own in range(k, k + number):
        _lateral_ghosts(out, (own * plane, j0, j1), mesh, line, lateral)
        for side in range(2):
            if own == walls[side]:
                first, ghost = own * plane + (j0 + 1) * line, plane if side else -plane
                _copy(out, first, first + ghost, (j1 - j0) * line)


_wavefront = wavefront_of(_step)


@kernel(
    "void(float64[:,:,::1], float64[:,:,::1], UniTuple(int64, 5), int64, UniTuple(float64, 4), int64,"
    " UniTuple(int64, 2))"
)
def sweep(
    u: Array,
    out: Array,
    planes: tuple[int, ...],
    nx: int,
    w: tuple[float, ...],
    lateral: int,
    walls: tuple[int, int],
) -> None:
    """Compute explicit steps of every own plane, alternately into `out` and `u`, with the lateral ghost cells.

    u, out : float64[planes, ny + 2, stride], stride >= nx + 2 (the rest is padding)
    planes : steps and planes, see `stencil_app.mesh.wavefront`
    w : weights of the centre and of the neighbours along x, y and z
    lateral : kind of the ghost cells along x and y: FIXED (left alone), PERIODIC or INSULATED
    walls : own planes that the ghost planes below and above repeat, -1 for none
    """
    ny, line = u.shape[1] - 2, u.shape[2]
    # Along a periodic axis lines of all blocks need each other.
    lines = (ny, 8 * line, 0 if lateral == PERIODIC else 1)
    streaming = past_caches(planes[0], u)
    physics = ((nx, ny), lateral, streaming, walls, ((ny + 2) * line, line, w))
    _wavefront((u.reshape(-1), out.reshape(-1)), planes, lines, physics)
    if streaming:
        drain()


_LATERAL = {"fixed": FIXED, "periodic": PERIODIC, "insulated": INSULATED}
_WIDTH = 0.1


class HeatProblem(FixedStep):
    """`stencil_app.physics.Problem` of the heat equation.

    step : Δt of one iteration.  weights : of the centre and the neighbours along x, y, z
    """

    name = "heat"

    def __init__(self, size: int, values: Mapping[str, Value], sweeps: int | None = None) -> None:
        super().__init__(HEAT, size, values, sweeps)
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
        for along, cells in ((2, self.layout.nx), (1, self.layout.ny)):
            lines = np.moveaxis(field, along, 0)
            low, high = (cells, 1) if self.periodic else (1, cells)
            lines[0], lines[cells + 1] = lines[low], lines[high]
        below, above = self._walls(field, first_row)
        if below >= 0:
            field[below - 1] = field[below]
        if above >= 0:
            field[above + 1] = field[above]

    def _walls(self, field: Array, first_row: int) -> tuple[int, int]:
        """Return own planes that the ghost planes below and above repeat, -1 for none."""
        _, first, end, below, above = self.planes(field, first_row, 1)
        if self.boundary != "insulated":
            return -1, -1
        return -1 if below else first, -1 if above else end - 1

    def sweep(self, field: Array, out: Array, first_row: int, count: int = 1) -> None:
        """See `stencil_app.physics.Problem`."""
        planes, walls = self.planes(field, first_row, count), self._walls(field, first_row)
        sweep(field, out, planes, self.layout.nx, self.weights, _LATERAL[self.boundary], walls)


make = HeatProblem
