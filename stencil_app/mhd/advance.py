"""The update of a plane: cells by the divergence of the fluxes, faces by the circulation of E around them."""

from stencil_app.jit import inlined, row_kernel
from stencil_app.mesh.layout import Array
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, M2, M3, RHO, E
from stencil_app.mhd.views import entries, line
from stencil_app.mhd.workspace import EDGE, EDGE_SIZE, FLUX_3, FLUX_SIZE, SPREAD

_CONSERVED = (RHO, M1, M2, M3, E)
_I0 = LATERAL_GHOSTS


@row_kernel
def _advance_cells(
    start: Array, spread: Array, upper: Array, lower: Array, out: Array, steps: tuple[float, float], n: int
) -> None:
    dt, per_width = steps
    for i in range(n):
        out[i] = start[i] - dt * (spread[i] + per_width * (upper[i] - lower[i]))


@row_kernel
def _advance_faces(
    start: Array,
    along: tuple[Array, Array],
    back: tuple[Array, Array],
    out: Array,
    steps: tuple[float, float],
    n: int,
) -> None:
    by_along, by_back = steps
    upper, lower = along
    back_upper, back_lower = back
    for i in range(n):
        out[i] = start[i] - (by_along * (upper[i] - lower[i]) - by_back * (back_upper[i] - back_lower[i]))


@inlined
def advance_plane(
    base: Array,
    dst: Array,
    planes: Array,
    at: tuple[int, int],
    lines: tuple[int, int],
    steps: tuple[float, tuple[float, float, float]],
) -> None:
    """Update the cells of plane k, and its faces across i and j; at = k, own cells along i."""
    k, n = at
    first, end = lines
    dt, per_width = steps
    lower, upper = EDGE + EDGE_SIZE * (k & 1), EDGE + EDGE_SIZE * (1 - (k & 1))
    below, above = FLUX_3 + FLUX_SIZE * (k & 1), FLUX_3 + FLUX_SIZE * (1 - (k & 1))
    next_line = 1 if end - first > 1 else 0
    here = _I0
    by_1, by_2, by_3 = dt * per_width[0], dt * per_width[1], dt * per_width[2]
    for j in range(first + next_line, end - next_line):
        for v in range(FLUX_SIZE):
            _advance_cells(
                entries(base, _CONSERVED[v], (k, j), here),
                line(planes, SPREAD + FLUX_SIZE * (k & 1) + v, j, here),
                line(planes, above + v, j, here),
                line(planes, below + v, j, here),
                entries(dst, _CONSERVED[v], (k, j), here),
                (dt, per_width[2]),
                n,
            )
        _advance_faces(
            entries(base, B1, (k, j), here),
            (line(planes, lower + 2, j + next_line, here), line(planes, lower + 2, j, here)),
            (line(planes, upper + 1, j, here), line(planes, lower + 1, j, here)),
            entries(dst, B1, (k, j), here),
            (by_2, by_3),
            n + 1,
        )
    for j in range(first + next_line, end):
        _advance_faces(
            entries(base, B2, (k, j), here),
            (line(planes, upper, j, here), line(planes, lower, j, here)),
            (line(planes, lower + 2, j, here + 1), line(planes, lower + 2, j, here)),
            entries(dst, B2, (k, j), here),
            (by_3, by_1),
            n,
        )


@inlined
def advance_slab_faces(
    base: Array,
    dst: Array,
    planes: Array,
    at: tuple[int, int],
    lines: tuple[int, int],
    steps: tuple[float, tuple[float, float, float]],
) -> None:
    """Update the faces between planes k-1 and k; at = k, own cells along i."""
    k, n = at
    first, end = lines
    dt, per_width = steps
    edge = EDGE + EDGE_SIZE * (k & 1)
    next_line = 1 if end - first > 1 else 0
    here = _I0
    for j in range(first + next_line, end - next_line):
        _advance_faces(
            entries(base, B3, (k, j), here),
            (line(planes, edge + 1, j, here + 1), line(planes, edge + 1, j, here)),
            (line(planes, edge, j + next_line, here), line(planes, edge, j, here)),
            entries(dst, B3, (k, j), here),
            (dt * per_width[0], dt * per_width[1]),
            n,
        )
