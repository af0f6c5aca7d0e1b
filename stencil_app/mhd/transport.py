"""Constrained transport: electric fields on edges from those on faces and in cells (Gardiner and Stone 2005, 2008).

An edge averages the four faces around it and adds the gradients of E towards it, each taken from the upwind side
(their eqs 41 and 50), so that the flow along the axes reduces to the solver in one dimension::

             b0 | b1          E at the edge X from four cells c00..c11 (first digit: side along a),
        c01  a1-+-  c11       two faces a0, a1 across a and two, b0, b1, across b
            ----X----         (a0 lies between c00 and c10, b0 between c00 and c01)
        c00  a0-+-  c10

The weight of a face is that of its lower cell: 1 where mass flows upwards. Then a face's field changes by the
circulation around it, and every cell keeps the divergence it had, for any fields on the edges.
"""

from stencil_app.jit import row_kernel
from stencil_app.mesh.layout import Array


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
