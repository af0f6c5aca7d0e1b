"""E on the edges around a plane, from the faces that meet there (`stencil_app.mhd.transport`).

An axis of one cell has no faces to average across it: there E on an edge is that of the solver, or of the cells.
"""

from stencil_app.jit import inlined
from stencil_app.mesh.layout import Array
from stencil_app.mhd.mesh import LATERAL_GHOSTS
from stencil_app.mhd.reconstruction import copied
from stencil_app.mhd.transport import edge_field
from stencil_app.mhd.views import four_lines, line
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
