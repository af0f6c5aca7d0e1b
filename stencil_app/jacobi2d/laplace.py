"""Laplace's equation Δu = 0 on a rectangle by Jacobi iteration: mesh, boundary, first guess.

Unknowns sit at h, 2h, ... along both axes, h = 1/(nx+1): the rectangle has width 1 and height (size+1)·h. u is
0 on three sides; the side beyond the last row is sin(πx), whose harmonic extension is
sin(πx) sinh(πy) / sinh(π·height), or 1. The sweep itself is in `stencil_app.jacobi2d.laplace`.

The 5-point sweep of a strip: every point becomes the mean of its four neighbours.

Several sweeps run in one pass through memory, in blocks along x (`stencil_app.mesh.wavefront`).
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from stencil_app.jacobi2d import JACOBI2D
from stencil_app.jit import inlined, kernel
from stencil_app.mesh.layout import Array
from stencil_app.mesh.measures import fill_noise
from stencil_app.mesh.wavefront import line_of, past_caches, wavefront_of
from stencil_app.options import Value
from stencil_app.physics import FixedStep
from stencil_app.vectors import WIDTH, drain, load


@inlined
def _stencil(u: Array, i: int, line: int) -> Any:
    return 0.25 * ((load(u, i - 1) + load(u, i + 1)) + (load(u, i - line) + load(u, i + line)))


_line = line_of(_stencil)


@inlined
def _step(u: Array, out: Array, part: tuple[int, int, int, int], physics: tuple[int, int, bool]) -> None:
    k, number, j0, j1 = part
    nx, line, streaming = physics
    start = k * line + 1
    span = (start + WIDTH * j0, start + min(WIDTH * j1, nx), line if number == 2 else 0)
    _line(u, out, span, streaming, line)


_wavefront = wavefront_of(_step)


@kernel("void(float64[:,:,::1], float64[:,:,::1], UniTuple(int64, 5), int64)")
def sweep(u: Array, out: Array, planes: tuple[int, ...], nx: int) -> None:
    """Compute Jacobi iterations of every own line, alternately into `out` and `u`; ghost cells are left alone.

    u, out : float64[lines, 1, stride], stride >= nx + 2 (the rest is padding)
    planes : iterations and lines, see `stencil_app.mesh.wavefront`
    """
    streaming = past_caches(planes[0], u)
    # Blocks are along x here, in vectors.
    blocks = (-(-nx // WIDTH), 8 * WIDTH, 1)
    _wavefront((u.reshape(-1), out.reshape(-1)), planes, blocks, (nx, u.shape[2], streaming))
    if streaming:
        drain()


class JacobiProblem(FixedStep):
    """`stencil_app.physics.Problem` of the Laplace equation."""

    name = "jacobi2d"
    best_sweeps = 16

    def __init__(self, size: int, values: Mapping[str, Value], sweeps: int | None = None) -> None:
        super().__init__(JACOBI2D, size, values, sweeps)

    def harmonic(self) -> Array:
        """Return the exact solution for the boundary `sine`, float64[size, 1, nx]."""
        y = np.arange(1, self.size + 2) / (self.layout.nx + 1)
        rise = np.sinh(math.pi * y[:-1]) / math.sinh(math.pi * y[-1])
        return rise[:, None, None] * self._side()

    def _side(self) -> Array:
        x = np.arange(1, self.layout.nx + 1) / (self.layout.nx + 1)
        return np.sin(math.pi * x) if self.boundary == "sine" else np.ones_like(x)

    def initialise(self, interior: Array, first_row: int) -> None:
        """See `stencil_app.physics.Problem`."""
        if self.initial == "random":
            fill_noise(interior, first_row)
        else:
            interior[...] = 0.0

    def dress(self, field: Array, first_row: int) -> None:
        """See `stencil_app.physics.Problem`."""
        _, _, end, _, above = self.planes(field, first_row, 1)
        if not above:
            field[end, 0, 1 : self.layout.nx + 1] = self._side()

    def sweep(self, field: Array, out: Array, first_row: int, count: int = 1) -> None:
        """See `stencil_app.physics.Problem`."""
        sweep(field, out, self.planes(field, first_row, count), self.layout.nx)


make = JacobiProblem
