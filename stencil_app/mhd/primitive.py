"""From conserved to primitive variables and back to the time step: floors are applied here, and counted.

The field in the middle of a cell is the mean of its two faces. Pressure p = (γ-1) (e - ρv²/2 - B²/2) can be negative
where it is a small difference of large numbers; it is then raised to its floor, and so is density.

Signal speeds across the cells (which bound the time step), floors on the state, and cells that are not finite.

The time step is courant / max over cells and axes of (|v| + fast speed) / width (Stone and Gardiner 2009, §3.4);
axes of one cell do not count. The maximum is taken over bit patterns, which sort like non-negative doubles with NaN
above infinity, so that a NaN is never lost and the order of cells and ranks plays no part.
"""

from math import sqrt

import numpy as np

from stencil_app.jit import inlined, kernel, row_kernel
from stencil_app.mesh.layout import Array
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, M2, M3, RHO, E
from stencil_app.mhd.views import entries, line
from stencil_app.mhd.workspace import W_B1, W_B2, W_B3, W_P, W_RHO, W_SIZE, W_V1, W_V2, W_V3, W


@row_kernel
def _primitive_row(
    conserved: tuple[Array, ...],
    faces: tuple[Array, ...],
    w: tuple[Array, ...],
    gas: tuple[float, float, float],
    n: int,
) -> int:
    gamma, least_density, least_pressure = gas
    cells_end = n - LATERAL_GHOSTS
    rho, m1, m2, m3, energy = conserved
    b1, b1_next, b2, b2_next, b3, b3_next = faces
    w_rho, v1, v2, v3, p, c1, c2, c3 = w
    floored = 0
    for i in range(n):
        x, y, z = 0.5 * (b1[i] + b1_next[i]), 0.5 * (b2[i] + b2_next[i]), 0.5 * (b3[i] + b3_next[i])
        c1[i], c2[i], c3[i] = x, y, z
        d = max(rho[i], least_density)
        over = 1.0 / d
        v1[i], v2[i], v3[i] = m1[i] * over, m2[i] * over, m3[i] * over
        kinetic = 0.5 * over * (m1[i] * m1[i] + m2[i] * m2[i] + m3[i] * m3[i])
        q = (gamma - 1.0) * (energy[i] - kinetic - 0.5 * (x * x + y * y + z * z))
        w_rho[i], p[i] = d, max(q, least_pressure)
        low = (rho[i] < least_density) | (q < least_pressure)
        floored += 1 if low & (i >= LATERAL_GHOSTS) & (i < cells_end) else 0
    return floored


@inlined
def _conserved(u: Array, at: tuple[int, int], begin: int) -> tuple[Array, Array, Array, Array, Array]:
    """Return density, momenta and energy of line j of plane k, from entry `begin` on; at = k, j."""
    return (
        entries(u, RHO, at, begin),
        entries(u, M1, at, begin),
        entries(u, M2, at, begin),
        entries(u, M3, at, begin),
        entries(u, E, at, begin),
    )


@inlined
def _faces(u: Array, at: tuple[int, int], begin: int) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return the field on the lower and the upper faces across each axis of the same cells."""
    k, j = at
    return (
        entries(u, B1, (k, j), begin),
        entries(u, B1, (k, j), begin + 1),
        entries(u, B2, (k, j), begin),
        entries(u, B2, (k, j + 1), begin),
        entries(u, B3, (k, j), begin),
        entries(u, B3, (k + 1, j), begin),
    )


@inlined
def primitive_line(
    u: Array, at: tuple[int, int], planes: Array, ring: int, gas: tuple[float, float, float]
) -> int:
    """Compute primitive variables of line j of plane k of `u` into `planes`; return the number of cells floored.

    at = k, j
    """
    j, n = at[1], u.shape[3] - 1
    base = W + W_SIZE * ring
    return int(
        _primitive_row(
            _conserved(u, at, 0),
            _faces(u, at, 0),
            (
                line(planes, base + W_RHO, j, 0),
                line(planes, base + W_V1, j, 0),
                line(planes, base + W_V2, j, 0),
                line(planes, base + W_V3, j, 0),
                line(planes, base + W_P, j, 0),
                line(planes, base + W_B1, j, 0),
                line(planes, base + W_B2, j, 0),
                line(planes, base + W_B3, j, 0),
            ),
            gas,
            n,
        )
    )


@row_kernel
def _rate_row(
    cells: tuple[Array, ...],
    faces: tuple[Array, ...],
    rate: Array,
    gas: tuple[float, float, float],
    per_width: tuple[float, float, float],
    n: int,
) -> int:
    gamma, least_density, least_pressure = gas
    rho, m1, m2, m3, energy = cells
    b1, b1_next, b2, b2_next, b3, b3_next = faces
    low = 0
    for i in range(n):
        x, y, z = 0.5 * (b1[i] + b1_next[i]), 0.5 * (b2[i] + b2_next[i]), 0.5 * (b3[i] + b3_next[i])
        x, y, z = x * x, y * y, z * z
        over = 1.0 / rho[i]
        v1, v2, v3 = m1[i] * over, m2[i] * over, m3[i] * over
        p = (gamma - 1.0) * (energy[i] - 0.5 * rho[i] * (v1 * v1 + v2 * v2 + v3 * v3) - 0.5 * (x + y + z))
        low += 1 if (rho[i] < least_density) | (p < least_pressure) else 0
        sound = gamma * p
        total, gap = sound + x + y + z, x + y + z - sound
        square = gap * gap
        f1 = sqrt(0.5 * over * (total + sqrt(square + 4.0 * sound * (y + z))))
        f2 = sqrt(0.5 * over * (total + sqrt(square + 4.0 * sound * (z + x))))
        f3 = sqrt(0.5 * over * (total + sqrt(square + 4.0 * sound * (x + y))))
        r1, r2, r3 = (
            (abs(v1) + f1) * per_width[0],
            (abs(v2) + f2) * per_width[1],
            (abs(v3) + f3) * per_width[2],
        )
        # a sum keeps a NaN that max would drop
        largest = max(max(r1, r2), r3)
        rate[i] = largest if r1 + r2 + r3 + energy[i] < np.inf else np.nan
    return low


@kernel(
    "UniTuple(int64, 2)(float64[:,:,:,::1], int64, int64, UniTuple(float64, 3), UniTuple(float64, 3),"
    " float64[::1])"
)
def largest_rate(
    u: Array,
    first: int,
    end: int,
    gas: tuple[float, float, float],
    per_width: tuple[float, float, float],
    rates: Array,
) -> tuple[int, int]:
    """Return bits of the largest rate in planes first..end-1, and how many cells have less than the floors.

    gas : adiabatic index, least density, least pressure.  per_width : 1 / widths, 0 for an axis of one cell
    rates : float64[>= entries of a line], scratch
    """
    low = LATERAL_GHOSTS
    n = u.shape[3] - 2 * LATERAL_GHOSTS - 1
    gj = LATERAL_GHOSTS if u.shape[2] > 2 else 0
    bits = rates.view(np.int64)
    largest, low_cells = 0, 0
    for k in range(first, end):
        for j in range(gj, u.shape[2] - gj - 1):
            cells, faces = _conserved(u, (k, j), low), _faces(u, (k, j), low)
            low_cells += _rate_row(cells, faces, rates, gas, per_width, n)
            for i in range(n):
                largest = max(largest, bits[i])
    return largest, low_cells


def raise_to_floors(u: Array, first: int, end: int, gas: tuple[float, float, float]) -> None:
    """Raise cells of planes first..end-1 to the density and pressure of the floors; seldom needed.

    gas : adiabatic index, least density, least pressure.  A NaN stays one
    """
    gamma, least_density, least_pressure = gas
    gj = LATERAL_GHOSTS if u.shape[2] > 2 else 0
    lines, cells = slice(gj, u.shape[2] - gj - 1), slice(LATERAL_GHOSTS, u.shape[3] - LATERAL_GHOSTS - 1)
    for k in range(first, end):
        plane = u[k, :, lines, cells]
        b1 = 0.5 * (plane[B1] + u[k, B1, lines, cells.start + 1 : cells.stop + 1])
        b2 = 0.5 * (plane[B2] + u[k, B2, lines.start + 1 : lines.stop + 1, cells])
        b3 = 0.5 * (plane[B3] + u[k + 1, B3, lines, cells])
        rho, energy = plane[RHO], plane[E]
        np.copyto(rho, least_density, where=rho < least_density)
        kinetic = 0.5 * (plane[M1] ** 2 + plane[M2] ** 2 + plane[M3] ** 2) / rho
        rest = kinetic + 0.5 * (b1 * b1 + b2 * b2 + b3 * b3)
        low = (gamma - 1.0) * (energy - rest) < least_pressure
        np.copyto(energy, least_pressure / (gamma - 1.0) + rest, where=low)
