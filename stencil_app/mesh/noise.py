"""Reproducible noise as an initial field: each cell's value follows from its place in the mesh alone.

The same for every slab layout and machine, and without any smoothness that could hide an error at a seam
between slabs. SplitMix64 of the cell's number (Steele, Lea and Flood 2014), scaled to [0, 1).
"""

import numpy as np

from stencil_app.mesh.layout import Array


def fill_noise(interior: Array, first_row: int) -> None:
    """Fill float64[rows, ny, nx], global rows `first_row`..., with noise in [0, 1)."""
    rows, ny, nx = interior.shape
    for k in range(rows):
        first = (first_row + k) * ny * nx
        z = np.arange(first + 1, first + ny * nx + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        interior[k] = ((z >> np.uint64(11)) * 2.0**-53).reshape(ny, nx)
