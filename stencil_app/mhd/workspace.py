"""The planes that a half-step keeps while it moves through a slab, and their use.

A half-step needs at plane k the results of plane k-1, seldom more, so that its memory does not grow with the slab. All
planes are one array float64[PLANES, lines of a plane, entries of a line]; the constants below are their first indices.
Where two planes alternate, that of plane k is at `begin + (k & 1) * size`.
"""

import numpy as np

from stencil_app.mesh.layout import Array

#: Faces in one piece of a row; a literal, so that the compiler sees that the lanes of a piece never overlap.
PIECE = 520
#: Lanes of a state and of a flux of the solver.
STATE_LANES, FLUX_LANES = 7, 8

#: Primitive variables of three planes, k % 3: density, velocity, pressure, field in the middle of the cells.
W, W_SIZE = 0, 8
W_RHO, W_V1, W_V2, W_V3, W_P, W_B1, W_B2, W_B3 = range(8)
#: States at the upper face of the last plane's cells along k, in the order of the solver.
HIGH = 24
#: Fields on faces across i, j: E along the two other axes and the upwind weight; two planes of each.
ACROSS_1, ACROSS_2, ACROSS_SIZE = 31, 37, 3
#: The same across k.
ACROSS_3 = 43
#: E in the middle of the cells, two planes.
CENTRE, CENTRE_SIZE = 46, 3
#: Fluxes across k of density, momentum and energy, two planes.
FLUX_3, FLUX_SIZE = 52, 5
#: Divergence of the fluxes across i and j, two planes.
SPREAD = 62
#: E on edges along each axis, two planes.
EDGE, EDGE_SIZE = 72, 3
PLANES = 78

#: Lines of lanes: left, right and flux of the solver; what a line leaves to the next one along j, two of each.
LEFT, RIGHT, FLUX, HIGH_2, FLUX_2 = 0, 1, 2, 3, 5
LINES = 7


def scratch_bytes(lines: int, entries: int) -> int:
    """Return the bytes of the arrays that `allocate` returns."""
    return 8 * (PLANES * lines * entries + LINES * (FLUX_LANES * PIECE + 1))


def allocate(lines: int, entries: int) -> tuple[Array, Array]:
    """Return planes float64[PLANES, lines, entries], and lanes float64[LINES, FLUX_LANES PIECE + 1]."""
    return np.zeros((PLANES, lines, entries)), np.ones((LINES, FLUX_LANES * PIECE + 1))
