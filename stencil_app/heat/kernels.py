"""The 7-point sweep: memory-bound, so that everything here reduces memory traffic.

Rows are swept in blocks that keep the planes of one block in the second-level cache, two planes at a time: the two read
four planes instead of six, which saves a third of the traffic between caches. The compulsory 24 bytes a cell (read,
write-allocate, write back) remain; benchmarks/heat_roofline.py compares them with a triad. Lateral ghost cells of the
new field are set on the way, while they are in cache. The meaning of boundaries is in `stencil_app.heat.diffusion`.
"""

import numpy as np
from numpy.typing import NDArray

from stencil_app.jit import inlined, kernel

Array = NDArray[np.float64]

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
