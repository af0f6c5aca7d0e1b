"""From cell means to states at the faces: piecewise constant, or piecewise linear with van Leer's limiter.

Limited are the primitive variables, with the harmonic mean of the two one-sided differences (van Leer 1974),
0 where they differ in sign (Stone and Gardiner 2009, §3.1, in primitive instead of characteristic variables).
"""

from stencil_app.jit import row_kernel
from stencil_app.mesh.layout import Array


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
def copied(source: Array, target: Array, n: int) -> None:
    """Copy n values: target[:n] = source[:n]."""
    for i in range(n):
        target[i] = source[i]
