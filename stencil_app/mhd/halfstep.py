"""One half-step of the integrator of van Leer type (Stone and Gardiner 2009): fluxes, edge fields, update.

A cycle is two of them (their §3.2): the predictor takes half a time step with piecewise constant states, the corrector
a full one with piecewise linear states of the half-way solution. Both go through the slab plane by plane: primitive
variables of the plane ahead, fluxes through all faces of the plane, edge fields between it and the last one, and then
the update of the last one. No value depends on the first or last row of a slab.

The update of a plane: cells by the divergence of the fluxes, faces by the circulation of E around them.
"""

from stencil_app.jit import inlined, kernel, row_kernel
from stencil_app.mesh.layout import Array
from stencil_app.mhd.fluxes import PIECEWISE_CONSTANT, PIECEWISE_LINEAR, plane_fluxes
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, M2, M3, RHO, E
from stencil_app.mhd.primitive import primitive_line
from stencil_app.mhd.transport import edges_along_1, edges_along_2, edges_along_3, edges_of_a_single_plane
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


__all__ = ["PIECEWISE_CONSTANT", "PIECEWISE_LINEAR", "half_step"]


@kernel(
    "int64(float64[:,:,:,::1], float64[:,:,:,::1], float64[:,:,:,::1], float64[:,:,::1], float64[:,::1],"
    " UniTuple(int64, 4), UniTuple(float64, 5), UniTuple(float64, 3))"
)
def half_step(
    src: Array,
    base: Array,
    dst: Array,
    planes: Array,
    lanes: Array,
    span: tuple[int, int, int, int],
    steps: tuple[float, float, float, float, float],
    gas: tuple[float, float, float],
) -> int:
    """Compute dst = base - step · divergence of the fluxes of src, in planes span[0]..span[1]-1; return cells floored.

    src, base, dst : float64[planes, 8, lines, entries] (`stencil_app.mhd.mesh`); dst may be src
    span : first plane, plane after the last, order (PIECEWISE_CONSTANT or PIECEWISE_LINEAR), and 1 to continue at
    the end
        of the last call: with its plane after the last as the first one, constant states, and `planes` unchanged since
    steps : the step to take, Δt of the whole cycle, 1 / widths along i, j, k (0 for an axis of one cell)
    gas : adiabatic index, least density, least pressure
    """
    first_plane, end_plane, order, goes_on = span
    step, dt, per_width = steps[0], steps[1], (steps[2], steps[3], steps[4])
    along_2 = per_width[1] > 0.0
    along_3 = per_width[2] > 0.0
    ghosts = LATERAL_GHOSTS if along_2 else 0
    lines = src.shape[2] - 2 * ghosts - 1
    first, end = (ghosts - 1, ghosts + lines + 1) if along_2 else (0, 1)
    n = src.shape[3] - 2 * LATERAL_GHOSTS - 1
    last = LATERAL_GHOSTS + n
    ahead = order
    floored = 0
    begin = first_plane - 1 if along_3 else first_plane
    stop = end_plane + 1 if along_3 else end_plane
    start = begin + 2 if goes_on == 1 else begin
    for k in range(start - ahead if along_3 else begin, start + ahead if along_3 else begin):
        for j in range(src.shape[2] - 1):
            primitive_line(src, (k, j), planes, k % 3, gas)
    for k in range(start, stop):
        new = k + ahead if along_3 else k
        for j in range(src.shape[2] - 1):
            count = primitive_line(src, (new, j), planes, new % 3, gas)
            is_own = (new >= first_plane) & (new < end_plane) & (j >= ghosts) & (j < ghosts + lines)
            floored += count if is_own else 0
        plane_fluxes(src, planes, lanes, (k, k == begin), (first, end, last), (order, dt, per_width, gas[0]))
        edges_along_3(planes, k, (first, end), n + 1)
        if not along_3:
            edges_of_a_single_plane(planes, k, (first, end), last + 1)
            advance_slab_faces(base, dst, planes, (k, n), (first, end), (step, per_width))
            advance_plane(base, dst, planes, (k, n), (first, end), (step, per_width))
        elif k > begin:
            edges_along_1(planes, k, (first, end), n)
            edges_along_2(planes, k, (first, end), n + 1)
            advance_slab_faces(base, dst, planes, (k, n), (first, end), (step, per_width))
            if k > first_plane:
                advance_plane(base, dst, planes, (k - 1, n), (first, end), (step, per_width))
    return floored
