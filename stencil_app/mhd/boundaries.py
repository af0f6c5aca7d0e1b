"""Ghost cells and ghost faces: periodic, outflow (nothing changes beyond the wall) and reflecting (a mirror).

Along i and j ghosts are set in every plane that a slab has; along k only where a slab ends at the end of the mesh, and
not where it is periodic, because then the exchange brings them. The face on the wall itself is part of the mesh: it is
advanced like any other, except that a periodic mesh takes it from the other side. Axes of one cell have no ghosts;
only the face above the cell repeats the one below.
"""

from __future__ import annotations

from stencil_app.jit import inlined, kernel
from stencil_app.layout import Array
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, M2, M3, SLAB_GHOSTS, VARIABLES

PERIODIC, OUTFLOW, REFLECTING = 0, 1, 2
KINDS = {"periodic": PERIODIC, "outflow": OUTFLOW, "reflecting": REFLECTING}


@inlined
def _mirror(kind: int, is_face: int, at: tuple[int, int, int]) -> tuple[int, int]:
    """Where the ghosts number g below the first and above the last own entry take their values from.

    at : first own entry, entry after the last, g from 1.  is_face : 1 for the field across this wall, whose entry
        after the last is the face on the upper wall
    """
    low, high, g = at
    n = high - low
    if kind == PERIODIC:
        # a mesh may be narrower than its ghosts
        return low + (n - g) % n, low + (g - 1 + is_face) % n
    if kind == OUTFLOW:
        return low, high - 1 + is_face
    return low + g - 1 + is_face, high - g


@inlined
def _set_line(target: Array, source: Array, sign: float) -> None:
    for i in range(target.size):
        target[i] = sign * source[i]


@kernel("void(float64[:,:,:,::1], int64, int64, int64)")
def fill_along_1(u: Array, kind: int, first: int, end: int) -> None:
    """Ghosts along i of planes first..end-1."""
    low, high = LATERAL_GHOSTS, u.shape[3] - LATERAL_GHOSTS - 1
    for v in range(VARIABLES):
        is_face = 1 if v == B1 else 0
        sign = -1.0 if (kind == REFLECTING) & ((v == B1) | (v == M1)) else 1.0
        for g in range(1, LATERAL_GHOSTS + 1):
            below, above = _mirror(kind, is_face, (low, high, g))
            for k in range(first, end):
                for j in range(u.shape[2]):
                    if (kind == PERIODIC) & (is_face == 1):
                        u[k, v, j, high] = u[k, v, j, low]
                    u[k, v, j, low - g] = sign * u[k, v, j, below]
                    u[k, v, j, high + g - 1 + is_face] = sign * u[k, v, j, above]


@kernel("void(float64[:,:,:,::1], int64, int64, int64)")
def fill_along_2(u: Array, kind: int, first: int, end: int) -> None:
    """Ghosts along j of planes first..end-1, after those along i."""
    if u.shape[2] == 2:
        for k in range(first, end):
            _set_line(u[k, B2, 1], u[k, B2, 0], 1.0)
        return
    low, high = LATERAL_GHOSTS, u.shape[2] - LATERAL_GHOSTS - 1
    for v in range(VARIABLES):
        is_face = 1 if v == B2 else 0
        sign = -1.0 if (kind == REFLECTING) & ((v == B2) | (v == M2)) else 1.0
        for g in range(1, LATERAL_GHOSTS + 1):
            below, above = _mirror(kind, is_face, (low, high, g))
            for k in range(first, end):
                if (kind == PERIODIC) & (is_face == 1):
                    _set_line(u[k, v, high], u[k, v, low], 1.0)
                _set_line(u[k, v, low - g], u[k, v, below], sign)
                _set_line(u[k, v, high + g - 1 + is_face], u[k, v, above], sign)


@kernel("void(float64[:,:,:,::1], int64, int64, boolean)")
def fill_beyond(u: Array, kind: int, wall: int, upper: bool) -> None:
    """The three ghost planes beyond the end of the mesh; wall : first own plane, or the plane after the last.

    On the upper side that includes the B3 of a fourth. A plane that nothing varies across has only its upper face.
    """
    if u.shape[0] == 2:
        for j in range(u.shape[2]):
            _set_line(u[1, B3, j], u[0, B3, j], 1.0)
        return
    for v in range(VARIABLES):
        is_face = 1 if v == B3 else 0
        sign = -1.0 if (kind == REFLECTING) & ((v == B3) | (v == M3)) else 1.0
        for g in range(1, SLAB_GHOSTS + 1):
            if kind == OUTFLOW:
                source = wall - 1 + is_face if upper else wall
            else:
                source = wall - g if upper else wall + g - 1 + is_face
            ghost = wall + g - 1 + is_face if upper else wall - g
            for j in range(u.shape[2]):
                _set_line(u[ghost, v, j], u[source, v, j], sign)
