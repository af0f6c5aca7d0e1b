"""Ghost cells and ghost faces: periodic, outflow (nothing changes beyond the wall) and reflecting (a mirror).

Along i and j ghosts are set in every plane that a slab has; along k only where a slab ends at the end of the mesh, and
not where it is periodic, because then the exchange brings them. The face on the wall itself is part of the mesh: it is
advanced like any other, except that a periodic mesh takes it from the other side. Axes of one cell have no ghosts;
only the face above the cell repeats the one below.
"""

from __future__ import annotations

from stencil_app.jit import kernel
from stencil_app.layout import Array
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, M2, M3, VARIABLES

PERIODIC, OUTFLOW, REFLECTING = 0, 1, 2
KINDS = {"periodic": PERIODIC, "outflow": OUTFLOW, "reflecting": REFLECTING}


@kernel("void(float64[:,:,:,::1], int64, int64, int64)")
def fill_along_1(u: Array, kind: int, first: int, end: int) -> None:
    """Ghosts along i of planes first..end-1."""
    low, high = LATERAL_GHOSTS, u.shape[3] - LATERAL_GHOSTS - 1
    n = high - low
    for k in range(first, end):
        for v in range(VARIABLES):
            is_face = 1 if v == B1 else 0
            sign = -1.0 if (kind == REFLECTING) & ((v == B1) | (v == M1)) else 1.0
            for j in range(u.shape[2]):
                row = u[k, v, j]
                for g in range(1, LATERAL_GHOSTS + 1):
                    if kind == PERIODIC:
                        # a mesh may be narrower than its ghosts
                        row[low - g] = row[low + (n - g) % n]
                        row[high + g - 1] = row[low + (g - 1) % n]
                    elif kind == OUTFLOW:
                        row[low - g] = row[low]
                        row[high + g - 1 + is_face] = row[high - 1 + is_face]
                    else:
                        row[low - g] = sign * row[low + g - 1 + is_face]
                        row[high + g - 1 + is_face] = sign * row[high - g]
                if (kind == PERIODIC) & (is_face == 1):
                    row[high + LATERAL_GHOSTS] = row[low + LATERAL_GHOSTS % n]


@kernel("void(float64[:,:,:,::1], int64, int64, int64)")
def fill_along_2(u: Array, kind: int, first: int, end: int) -> None:
    """Ghosts along j of planes first..end-1, after those along i."""
    if u.shape[2] == 2:
        for k in range(first, end):
            u[k, B2, 1] = u[k, B2, 0]
        return
    low, high = LATERAL_GHOSTS, u.shape[2] - LATERAL_GHOSTS - 1
    n = high - low
    for k in range(first, end):
        for v in range(VARIABLES):
            is_face = 1 if v == B2 else 0
            sign = -1.0 if (kind == REFLECTING) & ((v == B2) | (v == M2)) else 1.0
            for g in range(1, LATERAL_GHOSTS + 1):
                if kind == PERIODIC:
                    u[k, v, low - g] = u[k, v, low + (n - g) % n]
                    u[k, v, high + g - 1] = u[k, v, low + (g - 1) % n]
                elif kind == OUTFLOW:
                    u[k, v, low - g] = u[k, v, low]
                    u[k, v, high + g - 1 + is_face] = u[k, v, high - 1 + is_face]
                else:
                    u[k, v, low - g] = sign * u[k, v, low + g - 1 + is_face]
                    u[k, v, high + g - 1 + is_face] = sign * u[k, v, high - g]
            if (kind == PERIODIC) & (is_face == 1):
                u[k, v, high + LATERAL_GHOSTS] = u[k, v, low + LATERAL_GHOSTS % n]


@kernel("void(float64[:,:,:,::1], int64, int64, boolean)")
def fill_beyond(u: Array, kind: int, wall: int, upper: bool) -> None:
    """The three ghost planes beyond the end of the mesh; wall : first own plane, or the plane after the last.

    On the upper side that includes the B3 of a fourth. A plane that nothing varies across has only its upper face.
    """
    if u.shape[0] == 2:
        u[1, B3] = u[0, B3]
        return
    for v in range(VARIABLES):
        is_face = 1 if v == B3 else 0
        sign = -1.0 if (kind == REFLECTING) & ((v == B3) | (v == M3)) else 1.0
        for g in range(1, 4):
            ghost = wall + g - 1 + is_face if upper else wall - g
            if kind == OUTFLOW:
                u[ghost, v] = u[wall - 1 + is_face, v] if upper else u[wall, v]
            else:
                u[ghost, v] = sign * (u[wall - g, v] if upper else u[wall + g - 1 + is_face, v])
