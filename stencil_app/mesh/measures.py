"""Measures of a field: its largest change in an iteration, and an exact fingerprint of its bits.

Both values are the same for every slab layout: a maximum has no order, and the digest is a sum modulo 2^64 of terms
that depend only on a cell's bits and its place in the mesh. Both work on bit patterns as integers, which for
non-negative doubles sort like the doubles (NaN above infinity), so that a NaN is never lost.

Reproducible noise as an initial field: each cell's value follows from its place in the mesh alone.

The same for every slab layout and machine, and without any smoothness that could hide an error at a seam
between slabs. SplitMix64 of the cell's number (Steele, Lea and Flood 2014), scaled to [0, 1).
"""

import numpy as np
from numpy.typing import NDArray

from stencil_app.jit import kernel
from stencil_app.mesh.layout import Array

_CHUNK = 512


@kernel("int64(float64[::1], float64[::1])")
def largest_change_bits(u: Array, v: Array) -> int:
    """Return bit pattern of max |u - v| over two arrays of one length, 0 for empty ones; NaN if any is NaN."""
    gap = np.zeros(_CHUNK)
    bits = gap.view(np.int64)
    largest = 0
    for start in range(0, u.size, _CHUNK):
        length = min(_CHUNK, u.size - start)
        for i in range(length):
            gap[i] = abs(u[start + i] - v[start + i])
        for i in range(length):
            largest = max(largest, bits[i])
    return largest


@kernel("void(uint64[:,:,:], int64, uint64[::1])")
def digest_rows(bits: NDArray[np.uint64], first_row: int, digests: NDArray[np.uint64]) -> None:
    """Digest of every row into `digests`: Σ over its cells of splitmix64(bits, place), modulo 2^64.

    bits : uint64[rows, ny, nx], the cells of rows `first_row`... of the mesh
    Mixing as in Steele, Lea and Flood 2014 (SplitMix64).
    """
    rows, ny, nx = bits.shape
    for k in range(rows):
        total = np.uint64(0)
        for j in range(ny):
            first_cell = np.uint64(((first_row + k) * ny + j) * nx)
            for i in range(nx):
                z = bits[k, j, i] + (first_cell + np.uint64(i) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
                z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                total += z ^ (z >> np.uint64(31))
        digests[k] = total


def row_digests(interior: Array, first_row: int) -> NDArray[np.uint64]:
    """Return uint64[rows], one digest for each row of `interior` (float64[rows, ny, nx], or more axes)."""
    digests = np.zeros(interior.shape[0], dtype=np.uint64)
    flat = interior if interior.ndim == 3 else interior.reshape(interior.shape[0], -1, interior.shape[-1])
    digest_rows(flat.view(np.uint64), first_row, digests)
    return digests


def change_of_bits(bits: int) -> float:
    """Return the double whose pattern `largest_change_bits` returned."""
    return float(np.int64(bits).view(np.float64))


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
