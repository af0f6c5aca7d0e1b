"""Ghost cells and ghost faces: periodic, outflow (constant beyond the wall) and reflecting (a mirror).

Along i and j ghosts are set in every plane of a slab. Along k they are set only where a slab ends at the end of the
mesh, and not where the mesh is periodic, because then the exchange delivers them. The face on the wall itself is part
of the mesh: it is advanced like any other, except that a periodic mesh takes it from the other side. Axes of one cell
have no ghosts; only the face above the cell repeats the one below. Copies only: nothing here is worth compiling.
"""

import numpy as np

from stencil_app.mesh.layout import Array
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, M2, M3, SLAB_GHOSTS, VARIABLES

PERIODIC, OUTFLOW, REFLECTING = 0, 1, 2
KINDS = {"periodic": PERIODIC, "outflow": OUTFLOW, "reflecting": REFLECTING}


def _mirror(kind: int, is_face: int, at: tuple[int, int, int]) -> tuple[int, int]:
    """Return the source entries of the ghosts number g below the first and above the last own entry.

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


def _fill(u: Array, kind: int, across: tuple[int, int]) -> None:
    """Fill the ghosts along the first axis of `u`; its second axis counts variables.

    across : field and momentum across
    """
    low, high = LATERAL_GHOSTS, u.shape[0] - LATERAL_GHOSTS - 1
    normal, momentum = across
    if kind == PERIODIC:
        u[high, normal] = u[low, normal]
    groups = ((slice(0, normal), 0), (slice(normal, normal + 1), 1), (slice(normal + 1, VARIABLES), 0))
    for g in range(1, LATERAL_GHOSTS + 1):
        for variables, is_face in groups:
            below, above = _mirror(kind, is_face, (low, high, g))
            u[low - g, variables] = u[below, variables]
            u[high + g - 1 + is_face, variables] = u[above, variables]
        if kind == REFLECTING:
            for turned, is_face in ((momentum, 0), (normal, 1)):
                for ghost in (low - g, high + g - 1 + is_face):
                    np.negative(u[ghost, turned], out=u[ghost, turned])


def fill_along_1(u: Array, kind: int, first: int, end: int) -> None:
    """Fill the ghosts along i of planes first..end-1; u : float64[planes, 8, lines, entries]."""
    _fill(u[first:end].transpose(3, 1, 0, 2), kind, (B1, M1))


def fill_along_2(u: Array, kind: int, first: int, end: int) -> None:
    """Fill the ghosts along j of planes first..end-1, after those along i."""
    if u.shape[2] == 2:
        u[first:end, B2, 1] = u[first:end, B2, 0]
        return
    _fill(u[first:end].transpose(2, 1, 0, 3), kind, (B2, M2))


def fill_beyond(u: Array, kind: int, wall: int, upper: bool) -> None:
    """Fill the three ghost planes beyond the end of the mesh; wall : first own plane, or the plane after the last.

    On the upper side that includes the B3 of a fourth. A plane along an axis of one cell has only its upper face.
    """
    if u.shape[0] == 2:
        u[1, B3] = u[0, B3]
        return
    others = slice(B3 + 1, None)
    for g in range(1, SLAB_GHOSTS + 1):
        for variables, is_face in ((B3, 1), (others, 0)):
            if kind == OUTFLOW:
                source = wall - 1 + is_face if upper else wall
            else:
                source = wall - g if upper else wall + g - 1 + is_face
            ghost = wall + g - 1 + is_face if upper else wall - g
            u[ghost, variables] = u[source, variables]
            if kind == REFLECTING:
                turned = B3 if is_face else M3
                np.negative(u[ghost, turned], out=u[ghost, turned])
