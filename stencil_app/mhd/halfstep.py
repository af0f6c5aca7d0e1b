"""One half-step of the integrator of van Leer type (Stone and Gardiner 2009): fluxes, edge fields, update.

A cycle is two of them (their §3.2): the predictor takes half a time step with piecewise constant states, the
corrector the whole one with piecewise linear states of the half-way solution. Both go through the slab plane by
plane: primitive variables of the plane ahead, fluxes through all faces of the plane, edge fields between it and the
last one, and then all is known that changes the last one. No value depends on where a slab begins or ends.
"""

from __future__ import annotations

from stencil_app.jit import inlined, kernel, row_kernel
from stencil_app.layout import Array
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, M2, M3, RHO, E
from stencil_app.mhd.primitive import primitive_line
from stencil_app.mhd.reconstruction import copied, piecewise_linear
from stencil_app.mhd.riemann import (
    F_E,
    F_ES,
    F_ET,
    F_MN,
    F_MS,
    F_MT,
    F_RHO,
    F_W,
    PIECE,
    STATE_LANES,
    hlld,
)
from stencil_app.mhd.transport import centre_fields, edge_field
from stencil_app.mhd.views import entries, from_, line
from stencil_app.mhd.workspace import (
    ACROSS_1,
    ACROSS_2,
    ACROSS_3,
    ACROSS_SIZE,
    CENTRE,
    CENTRE_SIZE,
    EDGE,
    EDGE_SIZE,
    FLUX,
    FLUX_2,
    FLUX_3,
    FLUX_SIZE,
    HIGH,
    HIGH_2,
    LEFT,
    RIGHT,
    SPREAD,
    W_SIZE,
    W,
)

PIECEWISE_CONSTANT, PIECEWISE_LINEAR = 0, 1

# Primitive variables in the order of the solver: density, normal and transverse velocity, pressure, transverse field.
_ACROSS_1 = (0, 1, 2, 3, 4, 6, 7)
_ACROSS_2 = (0, 2, 3, 1, 4, 7, 5)
_ACROSS_3 = (0, 3, 1, 2, 4, 5, 6)
# Lanes of the fluxes of density, momentum 1, 2, 3 and energy.
_FLUX_1 = (F_RHO, F_MN, F_MT, F_MS, F_E)
_FLUX_2 = (F_RHO, F_MS, F_MN, F_MT, F_E)
_FLUX_3 = (F_RHO, F_MT, F_MS, F_MN, F_E)
_CONSERVED = (RHO, M1, M2, M3, E)

_I0 = LATERAL_GHOSTS


@row_kernel
def _set_difference(upper: Array, lower: Array, out: Array, scale: float, n: int) -> None:
    for i in range(n):
        out[i] = scale * (upper[i] - lower[i])


@row_kernel
def _add_difference(upper: Array, lower: Array, out: Array, scale: float, n: int) -> None:
    for i in range(n):
        out[i] += scale * (upper[i] - lower[i])


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
def _keep_fields(
    flux: Array, planes: Array, at: tuple[int, int], lanes: tuple[int, int], span: tuple[int, int]
) -> None:
    """E on faces and weights, entries `span`, into three planes from at[0]; lanes: of the first two."""
    plane, j = at
    begin, n = span
    copied(from_(flux, lanes[0]), line(planes, plane, j, begin), n)
    copied(from_(flux, lanes[1]), line(planes, plane + 1, j, begin), n)
    copied(from_(flux, F_W), line(planes, plane + 2, j, begin), n)


@inlined
def _across_1(
    src: Array,
    planes: Array,
    lanes: Array,
    at: tuple[int, int, int, int],
    piece: tuple[int, int],
    how: tuple[int, float, float],
    gamma: float,
) -> None:
    """Fluxes through the faces across i of a piece of line j; at = k, j, ring, last entry."""
    k, j, ring, last = at
    begin, end = max(piece[0], _I0), min(piece[1] + 1, last + 1)
    order, dt_dx, per_width = how
    n = end - begin
    left, right, flux = lanes[LEFT], lanes[RIGHT], lanes[FLUX]
    for lane in range(STATE_LANES):
        row = line(planes, W + W_SIZE * ring + _ACROSS_1[lane], j, 0)
        low, high = from_(right, lane * PIECE), from_(left, lane * PIECE)
        if order == PIECEWISE_LINEAR:
            piecewise_linear(
                from_(row, begin - 2), from_(row, begin - 1), from_(row, begin), low, high, n + 1
            )
        else:
            copied(from_(row, begin - 1), high, n)
            copied(from_(row, begin), low[1:], n)
    hlld(left, from_(right, 1), entries(src, (k, B1, j), begin), flux, (gamma, dt_dx), n)
    for v in range(FLUX_SIZE):
        lane = _FLUX_1[v]
        _set_difference(
            from_(flux, lane + 1),
            from_(flux, lane),
            line(planes, SPREAD + FLUX_SIZE * (k & 1) + v, j, begin),
            per_width,
            n - 1,
        )
    plane = ACROSS_1 + ACROSS_SIZE * (k & 1)
    _keep_fields(flux, planes, (plane, j), (F_ET, F_ES), (begin, n))


@inlined
def _across_2(
    src: Array,
    planes: Array,
    lanes: Array,
    at: tuple[int, int, int, int],
    piece: tuple[int, int],
    how: tuple[int, float, float],
    gamma: float,
) -> None:
    """States of line j; fluxes through the faces across j below it, unless it is the first; at = k, j, ring, first."""
    k, j, ring, first = at
    begin, n = piece[0], piece[1] - piece[0]
    order, dt_dx, per_width = how
    left, right, flux = lanes[HIGH_2 + (j & 1)], lanes[RIGHT], lanes[FLUX_2 + (j & 1)]
    for lane in range(STATE_LANES):
        plane = W + W_SIZE * ring + _ACROSS_2[lane]
        low, high = from_(right, lane * PIECE), from_(lanes[HIGH_2 + 1 - (j & 1)], lane * PIECE)
        if order == PIECEWISE_LINEAR:
            piecewise_linear(
                line(planes, plane, j - 1, begin),
                line(planes, plane, j, begin),
                line(planes, plane, j + 1, begin),
                low,
                high,
                n,
            )
        else:
            copied(line(planes, plane, j, begin), low, n)
            copied(line(planes, plane, j, begin), high, n)
    if j == first:
        return
    hlld(left, right, entries(src, (k, B2, j), begin), flux, (gamma, dt_dx), n)
    if j > first + 1:
        below = lanes[FLUX_2 + 1 - (j & 1)]
        for v in range(FLUX_SIZE):
            lane = _FLUX_2[v]
            _add_difference(
                from_(flux, lane),
                from_(below, lane),
                line(planes, SPREAD + FLUX_SIZE * (k & 1) + v, j - 1, begin),
                per_width,
                n,
            )
    plane = ACROSS_2 + ACROSS_SIZE * (k & 1)
    _keep_fields(flux, planes, (plane, j), (F_ET, F_ES), (begin, n))


@inlined
def _across_3(
    src: Array,
    planes: Array,
    lanes: Array,
    at: tuple[int, int, int],
    piece: tuple[int, int],
    how: tuple[int, float, int],
    gamma: float,
) -> None:
    """States of line j; fluxes through the faces across k below it, unless its plane is the first; at = k, j, ring."""
    k, j, ring = at
    begin, n = piece[0], piece[1] - piece[0]
    order, dt_dx, is_first = how
    left, right, flux = lanes[LEFT], lanes[RIGHT], lanes[FLUX]
    before, after = (ring + 2) % 3, (ring + 1) % 3
    for lane in range(STATE_LANES):
        v = _ACROSS_3[lane]
        here = line(planes, W + W_SIZE * ring + v, j, begin)
        low, edge = from_(right, lane * PIECE), line(planes, HIGH + lane, j, begin)
        copied(edge, from_(left, lane * PIECE), n)
        if order == PIECEWISE_LINEAR:
            below = line(planes, W + W_SIZE * before + v, j, begin)
            above = line(planes, W + W_SIZE * after + v, j, begin)
            piecewise_linear(below, here, above, low, edge, n)
        else:
            copied(here, low, n)
            copied(here, edge, n)
    if is_first:
        return
    hlld(left, right, entries(src, (k, B3, j), begin), flux, (gamma, dt_dx), n)
    for v in range(FLUX_SIZE):
        copied(from_(flux, _FLUX_3[v]), line(planes, FLUX_3 + FLUX_SIZE * (k & 1) + v, j, begin), n)
    _keep_fields(flux, planes, (ACROSS_3, j), (F_ET, F_ES), (begin, n))


@inlined
def _fluxes(
    src: Array,
    planes: Array,
    lanes: Array,
    at: tuple[int, bool],
    lines: tuple[int, int, int],
    how: tuple[int, float, tuple[float, float, float], float],
) -> None:
    """Everything across the faces of plane k; at = k, whether it is the first.

    lines : first and last line with its ghosts, last face of a line.  how : order, Δt, 1 / widths, adiabatic index
    """
    k, is_first = at
    first, end, last = lines
    order, dt, per_width, gamma = how
    ring = k % 3
    for begin in range(_I0 - 1, last + 1, PIECE - 2):
        piece = (begin, min(begin + PIECE - 2, last + 1))
        for j in range(first, end):
            across = (order, dt * per_width[0], per_width[0])
            _across_1(src, planes, lanes, (k, j, ring, last), piece, across, gamma)
            if end - first > 1:
                across = (order, dt * per_width[1], per_width[1])
                _across_2(src, planes, lanes, (k, j, ring, first), piece, across, gamma)
            if per_width[2] > 0.0:
                _across_3(
                    src, planes, lanes, (k, j, ring), piece, (order, dt * per_width[2], is_first), gamma
                )
    centre = CENTRE + CENTRE_SIZE * (k & 1)
    for j in range(first, end):
        centre_fields(
            (
                line(planes, W + W_SIZE * ring, j, 0),
                line(planes, W + W_SIZE * ring + 1, j, 0),
                line(planes, W + W_SIZE * ring + 2, j, 0),
                line(planes, W + W_SIZE * ring + 3, j, 0),
                line(planes, W + W_SIZE * ring + 4, j, 0),
                line(planes, W + W_SIZE * ring + 5, j, 0),
                line(planes, W + W_SIZE * ring + 6, j, 0),
                line(planes, W + W_SIZE * ring + 7, j, 0),
            ),
            line(planes, centre, j, 0),
            line(planes, centre + 1, j, 0),
            line(planes, centre + 2, j, 0),
            last + 1,
        )


@inlined
def _edges_along_3(planes: Array, k: int, lines: tuple[int, int], n: int) -> None:
    """E3 in plane k, from the faces across i and j; lines : first and last; n edges a line."""
    first, end = lines
    one, two = ACROSS_1 + ACROSS_SIZE * (k & 1), ACROSS_2 + ACROSS_SIZE * (k & 1)
    centre = CENTRE + CENTRE_SIZE * (k & 1) + 2
    edge = EDGE + EDGE_SIZE * (k & 1) + 2
    here, back = _I0, _I0 - 1
    if end - first == 1:
        copied(line(planes, one + 1, first, here), line(planes, edge, first, here), n)
        return
    for j in range(first + 1, end):
        edge_field(
            (
                line(planes, centre, j - 1, back),
                line(planes, centre, j, back),
                line(planes, centre, j - 1, here),
                line(planes, centre, j, here),
            ),
            (
                line(planes, one + 1, j - 1, here),
                line(planes, one + 1, j, here),
                line(planes, one + 2, j - 1, here),
                line(planes, one + 2, j, here),
            ),
            (
                line(planes, two, j, back),
                line(planes, two, j, here),
                line(planes, two + 2, j, back),
                line(planes, two + 2, j, here),
            ),
            line(planes, edge, j, here),
            n,
        )


@inlined
def _edges_along_1(planes: Array, k: int, lines: tuple[int, int], n: int) -> None:
    """E1 between planes k-1 and k, from the faces across j and k."""
    first, end = lines
    two, before = ACROSS_2 + ACROSS_SIZE * (k & 1), ACROSS_2 + ACROSS_SIZE * (1 - (k & 1))
    centre, centre_before = (
        CENTRE + CENTRE_SIZE * (k & 1),
        CENTRE + CENTRE_SIZE * (1 - (k & 1)),
    )
    edge = EDGE + EDGE_SIZE * (k & 1)
    here = _I0
    if end - first == 1:
        copied(line(planes, ACROSS_3, first, here), line(planes, edge, first, here), n)
        return
    for j in range(first + 1, end):
        edge_field(
            (
                line(planes, centre_before, j - 1, here),
                line(planes, centre, j - 1, here),
                line(planes, centre_before, j, here),
                line(planes, centre, j, here),
            ),
            (
                line(planes, before + 1, j, here),
                line(planes, two + 1, j, here),
                line(planes, before + 2, j, here),
                line(planes, two + 2, j, here),
            ),
            (
                line(planes, ACROSS_3, j - 1, here),
                line(planes, ACROSS_3, j, here),
                line(planes, ACROSS_3 + 2, j - 1, here),
                line(planes, ACROSS_3 + 2, j, here),
            ),
            line(planes, edge, j, here),
            n,
        )


@inlined
def _edges_along_2(planes: Array, k: int, lines: tuple[int, int], n: int) -> None:
    """E2 between planes k-1 and k, from the faces across i and k."""
    first, end = lines
    one, before = ACROSS_1 + ACROSS_SIZE * (k & 1), ACROSS_1 + ACROSS_SIZE * (1 - (k & 1))
    centre = CENTRE + CENTRE_SIZE * (k & 1) + 1
    centre_before = CENTRE + CENTRE_SIZE * (1 - (k & 1)) + 1
    edge = EDGE + EDGE_SIZE * (k & 1) + 1
    here, back = _I0, _I0 - 1
    for j in range(first, end):
        edge_field(
            (
                line(planes, centre_before, j, back),
                line(planes, centre, j, back),
                line(planes, centre_before, j, here),
                line(planes, centre, j, here),
            ),
            (
                line(planes, before, j, here),
                line(planes, one, j, here),
                line(planes, before + 2, j, here),
                line(planes, one + 2, j, here),
            ),
            (
                line(planes, ACROSS_3 + 1, j, back),
                line(planes, ACROSS_3 + 1, j, here),
                line(planes, ACROSS_3 + 2, j, back),
                line(planes, ACROSS_3 + 2, j, here),
            ),
            line(planes, edge, j, here),
            n,
        )


@inlined
def _edges_of_a_single_plane(planes: Array, k: int, lines: tuple[int, int], n: int) -> None:
    """E1 and E2 below and above a plane that nothing varies across: the solver's, or the cells' own."""
    first, end = lines
    one, two = ACROSS_1 + ACROSS_SIZE * (k & 1), ACROSS_2 + ACROSS_SIZE * (k & 1)
    begin = first if end - first == 1 else first + 1
    for j in range(begin, end):
        source = CENTRE + CENTRE_SIZE * (k & 1) if end - first == 1 else two + 1
        for side in range(2):
            copied(line(planes, source, j, 0), line(planes, EDGE + EDGE_SIZE * side, j, 0), n)
            copied(line(planes, one, j, 0), line(planes, EDGE + EDGE_SIZE * side + 1, j, 0), n)


@inlined
def _advance_plane(
    base: Array,
    dst: Array,
    planes: Array,
    at: tuple[int, int],
    lines: tuple[int, int],
    steps: tuple[float, tuple[float, float, float]],
) -> None:
    """Cells of plane k, and its faces across i and j; at = k, own cells along i."""
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
                entries(base, (k, _CONSERVED[v], j), here),
                line(planes, SPREAD + FLUX_SIZE * (k & 1) + v, j, here),
                line(planes, above + v, j, here),
                line(planes, below + v, j, here),
                entries(dst, (k, _CONSERVED[v], j), here),
                (dt, per_width[2]),
                n,
            )
        _advance_faces(
            entries(base, (k, B1, j), here),
            (line(planes, lower + 2, j + next_line, here), line(planes, lower + 2, j, here)),
            (line(planes, upper + 1, j, here), line(planes, lower + 1, j, here)),
            entries(dst, (k, B1, j), here),
            (by_2, by_3),
            n + 1,
        )
    for j in range(first + next_line, end):
        _advance_faces(
            entries(base, (k, B2, j), here),
            (line(planes, upper, j, here), line(planes, lower, j, here)),
            (line(planes, lower + 2, j, here + 1), line(planes, lower + 2, j, here)),
            entries(dst, (k, B2, j), here),
            (by_3, by_1),
            n,
        )


@inlined
def _advance_slab_faces(
    base: Array,
    dst: Array,
    planes: Array,
    at: tuple[int, int],
    lines: tuple[int, int],
    steps: tuple[float, tuple[float, float, float]],
) -> None:
    """The faces between planes k-1 and k; at = k, own cells along i."""
    k, n = at
    first, end = lines
    dt, per_width = steps
    edge = EDGE + EDGE_SIZE * (k & 1)
    next_line = 1 if end - first > 1 else 0
    here = _I0
    for j in range(first + next_line, end - next_line):
        _advance_faces(
            entries(base, (k, B3, j), here),
            (line(planes, edge + 1, j, here + 1), line(planes, edge + 1, j, here)),
            (line(planes, edge, j + next_line, here), line(planes, edge, j, here)),
            entries(dst, (k, B3, j), here),
            (dt * per_width[0], dt * per_width[1]),
            n,
        )


@kernel(
    "int64(float64[:,:,:,::1], float64[:,:,:,::1], float64[:,:,:,::1], float64[:,:,::1], float64[:,::1],"
    " UniTuple(int64, 3), UniTuple(float64, 5), UniTuple(float64, 3))"
)
def half_step(
    src: Array,
    base: Array,
    dst: Array,
    planes: Array,
    lanes: Array,
    span: tuple[int, int, int],
    steps: tuple[float, float, float, float, float],
    gas: tuple[float, float, float],
) -> int:
    """dst = base - step · divergence of the fluxes of src, in planes span[0]..span[1]-1; returns cells floored.

    src, base, dst : float64[planes, 8, lines, entries] (`stencil_app.mhd.mesh`); dst may be src
    span : first plane, plane after the last, order (PIECEWISE_CONSTANT or PIECEWISE_LINEAR)
    steps : the step to take, Δt of the whole cycle, 1 / widths along i, j, k (0 for an axis of one cell)
    gas : adiabatic index, least density, least pressure
    """
    first_plane, end_plane, order = span
    step, dt, per_width = steps[0], steps[1], (steps[2], steps[3], steps[4])
    along_2 = per_width[1] > 0.0
    along_3 = per_width[2] > 0.0
    ghosts = LATERAL_GHOSTS if along_2 else 0
    lines = src.shape[2] - 2 * ghosts - 1
    first, end = (ghosts - 1, ghosts + lines + 1) if along_2 else (0, 1)
    n = src.shape[3] - 2 * LATERAL_GHOSTS - 1
    last = _I0 + n
    ahead = order
    floored = 0
    begin = first_plane - 1 if along_3 else first_plane
    stop = end_plane + 1 if along_3 else end_plane
    for k in range(begin - ahead if along_3 else begin, begin + ahead if along_3 else begin):
        for j in range(src.shape[2] - 1):
            primitive_line(src, (k, j), planes, k % 3, gas)
    for k in range(begin, stop):
        new = k + ahead if along_3 else k
        for j in range(src.shape[2] - 1):
            count = primitive_line(src, (new, j), planes, new % 3, gas)
            own = (new >= first_plane) & (new < end_plane) & (j >= ghosts) & (j < ghosts + lines)
            floored += count if own else 0
        _fluxes(src, planes, lanes, (k, k == begin), (first, end, last), (order, dt, per_width, gas[0]))
        _edges_along_3(planes, k, (first, end), n + 1)
        if not along_3:
            _edges_of_a_single_plane(planes, k, (first, end), last + 1)
            _advance_slab_faces(base, dst, planes, (k, n), (first, end), (step, per_width))
            _advance_plane(base, dst, planes, (k, n), (first, end), (step, per_width))
        elif k > begin:
            _edges_along_1(planes, k, (first, end), n)
            _edges_along_2(planes, k, (first, end), n + 1)
            _advance_slab_faces(base, dst, planes, (k, n), (first, end), (step, per_width))
            if k > first_plane:
                _advance_plane(base, dst, planes, (k - 1, n), (first, end), (step, per_width))
    return floored
