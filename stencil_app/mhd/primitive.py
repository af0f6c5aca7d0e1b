"""From conserved to primitive variables and back to the time step: floors are applied here, and counted.

The field in the middle of a cell is the mean of its two faces. Pressure p = (γ-1) (e - ρv²/2 - B²/2) can be negative
where it is a small difference of large numbers; it is then raised to its floor, and so is density.
"""

from stencil_app.jit import inlined, row_kernel
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
    own = n - LATERAL_GHOSTS
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
        floored += 1 if low & (i >= LATERAL_GHOSTS) & (i < own) else 0
    return floored


@inlined
def primitive_line(
    u: Array, at: tuple[int, int], planes: Array, ring: int, gas: tuple[float, float, float]
) -> int:
    """Compute primitive variables of line j of plane k of `u` into `planes`; return the number of cells floored.

    at = k, j
    """
    k, j = at
    n = u.shape[3] - 1
    base = W + W_SIZE * ring
    return int(
        _primitive_row(
            (
                entries(u, RHO, (k, j), 0),
                entries(u, M1, (k, j), 0),
                entries(u, M2, (k, j), 0),
                entries(u, M3, (k, j), 0),
                entries(u, E, (k, j), 0),
            ),
            (
                entries(u, B1, (k, j), 0),
                entries(u, B1, (k, j), 1),
                entries(u, B2, (k, j), 0),
                entries(u, B2, (k, j + 1), 0),
                entries(u, B3, (k, j), 0),
                entries(u, B3, (k + 1, j), 0),
            ),
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
