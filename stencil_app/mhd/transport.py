"""Constrained transport: electric fields on edges from those on faces and in cells (Gardiner and Stone 2005, 2008).

An edge averages the four faces around it and adds the gradients of E towards it, each taken from the upwind side
(their eqs 41 and 50), so that the flow along the axes reduces to the solver in one dimension::

             b0 | b1          E at the edge X from four cells c00..c11 (first digit: side along a),
        c01  a1-+-  c11       two faces a0, a1 across a and two, b0, b1, across b
            ----X----         (a0 lies between c00 and c10, b0 between c00 and c01)
        c00  a0-+-  c10

The weight of a face is that of its lower cell: 1 where mass flows upwards. Then a face's field changes by the
circulation around it, and every cell keeps the divergence it had, for any fields on the edges.

E on the edges around a plane follows from the faces that meet there.

An axis of one cell has no faces to average across it: there E on an edge is that of the solver, or of the cells.
"""

from stencil_app.jit import inlined, row_kernel
from stencil_app.mesh.layout import Array
from stencil_app.mhd.mesh import LATERAL_GHOSTS
from stencil_app.mhd.views import copied, four_lines, line
from stencil_app.mhd.workspace import (
    ACROSS_1,
    ACROSS_2,
    ACROSS_3,
    ACROSS_SIZE,
    CENTRE,
    CENTRE_SIZE,
    EDGE,
    EDGE_SIZE,
)


@row_kernel
def edge_field(
    cells: tuple[Array, Array, Array, Array],
    across_a: tuple[Array, Array, Array, Array],
    across_b: tuple[Array, Array, Array, Array],
    edge: Array,
    n: int,
) -> None:
    """Compute E on edges 0..n-1.

    cells : E of c00, c01, c10, c11.  across_a : E of a0, a1, weights of a0, a1.  across_b : likewise
    """
    c00, c01, c10, c11 = cells
    a0, a1, wa0, wa1 = across_a
    b0, b1, wb0, wb1 = across_b
    for i in range(n):
        along_b = (
            (1.0 - wa0[i]) * (b1[i] - c10[i])
            + wa0[i] * (b0[i] - c00[i])
            + (1.0 - wa1[i]) * (b1[i] - c11[i])
            + wa1[i] * (b0[i] - c01[i])
        )
        along_a = (
            (1.0 - wb0[i]) * (a1[i] - c01[i])
            + wb0[i] * (a0[i] - c00[i])
            + (1.0 - wb1[i]) * (a1[i] - c11[i])
            + wb1[i] * (a0[i] - c10[i])
        )
        edge[i] = 0.25 * (along_a + along_b + (a0[i] + a1[i]) + (b0[i] + b1[i]))


@row_kernel
def centre_fields(w: tuple[Array, ...], e1: Array, e2: Array, e3: Array, n: int) -> None:
    """Compute E = -v × B in the middle of cells 0..n-1; w : rows of ρ, v1, v2, v3, p, B1, B2, B3."""
    _, v1, v2, v3, _, b1, b2, b3 = w
    for i in range(n):
        e1[i] = v3[i] * b2[i] - v2[i] * b3[i]
        e2[i] = v1[i] * b3[i] - v3[i] * b1[i]
        e3[i] = v2[i] * b1[i] - v1[i] * b2[i]


_HERE, _BACK = LATERAL_GHOSTS, LATERAL_GHOSTS - 1


@inlined
def _edge(
    planes: Array,
    which: tuple[tuple[int, int], tuple[int, int, int, int], tuple[int, int, int, int]],
    lines: tuple[tuple[int, int, int, int], tuple[int, int, int, int], tuple[int, int, int, int]],
    begin: tuple[int, int],
    edge: tuple[int, int],
    n: int,
) -> None:
    """Compute one line of edges; begin : entries of the cells and faces on either side where those differ in i.

    which : planes of E in cells (lower and upper along b), of E and weights across a, and across b
    lines : lines of the cells c00, c01, c10, c11, and of a0, a1, and b0, b1 (E, then weights)
    """
    low, high = which[0]
    here = (_HERE, _HERE)
    c = four_lines(planes, (low, low, high, high), lines[0], begin)
    edge_field(
        (c[0], c[2], c[1], c[3]),
        four_lines(planes, which[1], lines[1], here),
        four_lines(planes, which[2], lines[2], begin),
        line(planes, edge[0], edge[1], _HERE),
        n,
    )


@inlined
def edges_along_3(planes: Array, k: int, lines: tuple[int, int], n: int) -> None:
    """Compute E3 in plane k, from the faces across i and j; lines : first and end; n edges a line."""
    first, end = lines
    one, two = ACROSS_1 + ACROSS_SIZE * (k & 1), ACROSS_2 + ACROSS_SIZE * (k & 1)
    centre, edge = CENTRE + CENTRE_SIZE * (k & 1) + 2, EDGE + EDGE_SIZE * (k & 1) + 2
    if end - first == 1:
        copied(line(planes, one + 1, first, _HERE), line(planes, edge, first, _HERE), n)
        return
    which = ((centre, centre), (one + 1, one + 1, one + 2, one + 2), (two, two, two + 2, two + 2))
    for j in range(first + 1, end):
        across = ((j - 1, j - 1, j, j), (j - 1, j, j - 1, j), (j, j, j, j))
        _edge(planes, which, across, (_BACK, _HERE), (edge, j), n)


@inlined
def edges_along_1(planes: Array, k: int, lines: tuple[int, int], n: int) -> None:
    """Compute E1 between planes k-1 and k, from the faces across j and k."""
    first, end = lines
    two, before = ACROSS_2 + ACROSS_SIZE * (k & 1), ACROSS_2 + ACROSS_SIZE * (1 - (k & 1))
    low, high = CENTRE + CENTRE_SIZE * (1 - (k & 1)), CENTRE + CENTRE_SIZE * (k & 1)
    edge = EDGE + EDGE_SIZE * (k & 1)
    if end - first == 1:
        copied(line(planes, ACROSS_3, first, _HERE), line(planes, edge, first, _HERE), n)
        return
    which = (
        (low, high),
        (before + 1, two + 1, before + 2, two + 2),
        (ACROSS_3, ACROSS_3, ACROSS_3 + 2, ACROSS_3 + 2),
    )
    for j in range(first + 1, end):
        across = ((j - 1, j, j - 1, j), (j, j, j, j), (j - 1, j, j - 1, j))
        _edge(planes, which, across, (_HERE, _HERE), (edge, j), n)


@inlined
def edges_along_2(planes: Array, k: int, lines: tuple[int, int], n: int) -> None:
    """Compute E2 between planes k-1 and k, from the faces across i and k."""
    first, end = lines
    one, before = ACROSS_1 + ACROSS_SIZE * (k & 1), ACROSS_1 + ACROSS_SIZE * (1 - (k & 1))
    low, high = CENTRE + CENTRE_SIZE * (1 - (k & 1)) + 1, CENTRE + CENTRE_SIZE * (k & 1) + 1
    edge = EDGE + EDGE_SIZE * (k & 1) + 1
    which = (
        (low, high),
        (before, one, before + 2, one + 2),
        (ACROSS_3 + 1, ACROSS_3 + 1, ACROSS_3 + 2, ACROSS_3 + 2),
    )
    for j in range(first, end):
        _edge(planes, which, ((j, j, j, j), (j, j, j, j), (j, j, j, j)), (_BACK, _HERE), (edge, j), n)


@inlined
def edges_of_a_single_plane(planes: Array, k: int, lines: tuple[int, int], n: int) -> None:
    """Compute E1 and E2 below and above a plane along an axis of one cell: the solver's, or the cells' own."""
    first, end = lines
    one, two = ACROSS_1 + ACROSS_SIZE * (k & 1), ACROSS_2 + ACROSS_SIZE * (k & 1)
    begin = first if end - first == 1 else first + 1
    source = CENTRE + CENTRE_SIZE * (k & 1) if end - first == 1 else two + 1
    for j in range(begin, end):
        for side in range(2):
            edge = EDGE + EDGE_SIZE * side
            copied(line(planes, source, j, 0), line(planes, edge, j, 0), n)
            copied(line(planes, one, j, 0), line(planes, edge + 1, j, 0), n)
