"""Laplace's equation Δu = 0 on a rectangle by Jacobi iteration: mesh, boundary, first guess.

Unknowns sit at h, 2h, ... along both axes, h = 1/(nx+1): the rectangle has width 1 and height (size+1)·h. u is
0 on three sides; the side beyond the last row is sin(πx), whose harmonic extension is
sin(πx) sinh(πy) / sinh(π·height), or 1. The sweep itself is in `stencil_app.jacobi2d.laplace`.

The 5-point sweep of a strip: every point becomes the mean of its four neighbours.

Three lines of the old field fit any second-level cache, so one pass in memory order suffices.
"""

import math
from collections.abc import Mapping

import numpy as np

from stencil_app.jacobi2d import JACOBI2D
from stencil_app.jit import kernel
from stencil_app.mesh.layout import Array
from stencil_app.mesh.measures import fill_noise
from stencil_app.options import Value
from stencil_app.physics import FixedStep


@kernel("void(float64[:,:,::1], float64[:,:,::1], int64)")
def sweep(u: Array, out: Array, nx: int) -> None:
    """Compute one Jacobi iteration of every inner line of `u` into `out`; ghost cells are left alone.

    u, out : float64[rows + 2, 1, stride], one ghost line, stride >= nx + 2 (the rest is padding)
    """
    for k in range(1, u.shape[0] - 1):
        mid, below, above, new = u[k, 0], u[k - 1, 0], u[k + 1, 0], out[k, 0]
        for i in range(1, nx + 1):
            new[i] = 0.25 * ((mid[i - 1] + mid[i + 1]) + (below[i] + above[i]))


class JacobiProblem(FixedStep):
    """`stencil_app.physics.Problem` of the Laplace equation."""

    name = "jacobi2d"
    periodic = False

    def __init__(self, size: int, values: Mapping[str, Value]) -> None:
        self.size = size
        self.parameters = {"size": size, **values}
        self.layout = JACOBI2D.layout(values)
        self.boundary = str(values["boundary"])
        self.initial = str(values["initial"])

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
        if first_row + field.shape[0] - 2 == self.size:
            field[-1, 0, 1 : self.layout.nx + 1] = self._side()

    def sweep(self, field: Array, out: Array, first_row: int) -> None:
        """See `stencil_app.physics.Problem`."""
        sweep(field, out, self.layout.nx)


make = JacobiProblem
