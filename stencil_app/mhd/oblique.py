"""Plane waves oblique to the mesh, so that no direction of the mesh is special: the frame of a wave in its box.

The box of Gardiner and Stone 2008 (§6.1) is 3 × 1.5 × 1.5 cells of N × N/2 × N/2; one wave length, 1, fits once along
each axis. In the plane it is √5 × √5/2, N × N/2 (Gardiner and Stone 2005, §4.1). Directions 1, 2, 3 of the wave's frame
are its normal and two transverse ones.
"""

from collections.abc import Callable
from math import sqrt

import numpy as np

from stencil_app.mesh.layout import Array


class WaveFrame:
    """The box, and vectors between its axes and those of the wave.

    axes : axes[a][c] is the component along axis a of the box of the unit vector c of the wave's frame
    """

    def __init__(self, dimensions: int) -> None:
        if dimensions == 2:
            self.length = (sqrt(5.0), sqrt(5.0) / 2.0, 1.0)
            sin_2, cos_2 = 0.0, 1.0
        else:
            self.length = (3.0, 1.5, 1.5)
            sin_2, cos_2 = 2.0 / 3.0, sqrt(5.0) / 3.0
        sin_3, cos_3 = 2.0 / sqrt(5.0), 1.0 / sqrt(5.0)
        self.axes = (
            (cos_2 * cos_3, -sin_3, -sin_2 * cos_3),
            (cos_2 * sin_3, cos_3, -sin_2 * sin_3),
            (sin_2, 0.0, cos_2),
        )
        self.dimensions = dimensions

    def cells(self, n: int) -> tuple[int, int, int]:
        """Return cells of the box for `n` along x."""
        return n, n // 2, n // 2 if self.dimensions == 3 else 1

    def along(self, c: int, x: Array, y: Array, z: Array) -> Array:
        """Return coordinate c of the wave's frame."""
        return self.axes[0][c] * x + self.axes[1][c] * y + self.axes[2][c] * z

    def turned(
        self, vector: Callable[[Array, Array], tuple[Array | float, Array | float, Array | float]]
    ) -> Callable[[int, Array, Array, Array], Array]:
        """Return components along the box's axes of a vector given in the wave's frame as a function of its 1 and 2."""

        def component(axis: int, x: Array, y: Array, z: Array) -> Array:
            one, two, three = vector(self.along(0, x, y, z), self.along(1, x, y, z))
            turn = self.axes[axis]
            return np.asarray(turn[0] * one + turn[1] * two + turn[2] * three)

        return component
