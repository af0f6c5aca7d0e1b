"""Fluxes of a plane: through the faces of its cells across i and j, and through those between it and the last plane.

For each direction the states of a line go to the solver in the order normal, transverse, transverse (a right-handed
frame). The results are stored for the next steps: divergences of fluxes, E on faces, upwind weights. Lines longer than
the solver's piece are done in pieces.

From cell means to states at the faces: piecewise constant, or piecewise linear with van Leer's limiter. Limited are the
primitive variables, with the harmonic mean of the two one-sided differences (van Leer 1974), 0 where they differ in
sign (Stone and Gardiner 2009, §3.1, in primitive instead of characteristic variables).
"""

from stencil_app.jit import inlined, row_kernel
from stencil_app.mesh.layout import Array
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS
from stencil_app.mhd.riemann import F_E, F_ES, F_ET, F_MN, F_MS, F_MT, F_RHO, F_W, hlld
from stencil_app.mhd.transport import centre_fields
from stencil_app.mhd.views import copied, entries, from_, line
from stencil_app.mhd.workspace import (
    ACROSS_1,
    ACROSS_2,
    ACROSS_3,
    ACROSS_SIZE,
    CENTRE,
    CENTRE_SIZE,
    FLUX,
    FLUX_2,
    FLUX_3,
    FLUX_SIZE,
    HIGH,
    HIGH_2,
    LEFT,
    PIECE,
    RIGHT,
    SPREAD,
    STATE_LANES,
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

_I0 = LATERAL_GHOSTS


@row_kernel
def piecewise_linear(below: Array, here: Array, above: Array, low: Array, high: Array, n: int) -> None:
    """Compute the states at the lower and upper face of cells 0..n-1 into `low` and `high`.

    below, here, above : float64[>= n], means of the cells before, of and after
    """
    for i in range(n):
        q = here[i]
        left, right = q - below[i], above[i] - q
        product, total = left * right, left + right
        half = product / (total if product > 0.0 else 1.0)
        half = half if product > 0.0 else 0.0
        low[i], high[i] = q - half, q + half


@row_kernel
def _set_difference(upper: Array, lower: Array, out: Array, scale: float, n: int) -> None:
    for i in range(n):
        out[i] = scale * (upper[i] - lower[i])


@row_kernel
def _add_difference(upper: Array, lower: Array, out: Array, scale: float, n: int) -> None:
    for i in range(n):
        out[i] += scale * (upper[i] - lower[i])


@inlined
def _keep_fields(
    flux: Array, planes: Array, at: tuple[int, int], lanes: tuple[int, int], span: tuple[int, int]
) -> None:
    """Store E on faces and weights, entries `span`, into three planes from at[0]; lanes: of the first two."""
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
    """Compute fluxes through the faces across i of a piece of line j; at = k, j, ring, last entry."""
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
    hlld(left, from_(right, 1), entries(src, B1, (k, j), begin), flux, (gamma, dt_dx), n)
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
    """Compute states of line j, and fluxes through the faces across j below it; at = k, j, ring, first.

    The first line has no faces below it.
    """
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
    hlld(left, right, entries(src, B2, (k, j), begin), flux, (gamma, dt_dx), n)
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
    """Compute states of line j, and fluxes through the faces across k below it; at = k, j, ring.

    The first plane has no faces below it.
    """
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
    hlld(left, right, entries(src, B3, (k, j), begin), flux, (gamma, dt_dx), n)
    for v in range(FLUX_SIZE):
        copied(from_(flux, _FLUX_3[v]), line(planes, FLUX_3 + FLUX_SIZE * (k & 1) + v, j, begin), n)
    _keep_fields(flux, planes, (ACROSS_3, j), (F_ET, F_ES), (begin, n))


@inlined
def plane_fluxes(
    src: Array,
    planes: Array,
    lanes: Array,
    at: tuple[int, bool],
    lines: tuple[int, int, int],
    how: tuple[int, float, tuple[float, float, float], float],
) -> None:
    """Compute all fluxes across the faces of plane k; at = k, whether it is the first.

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
