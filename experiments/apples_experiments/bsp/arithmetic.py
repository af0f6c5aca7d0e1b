"""The arithmetic of the synthetic job: a chain of multiplications and additions, none of which can be left out.

Each turn waits for the one before, so its speed depends on the core and its clock alone: no memory, no vectors.
"""

from stencil_app.jit import kernel


@kernel("float64(int64, float64)")
def turn(turns: int, x: float) -> float:
    """Return x after `turns` turns; the value only proves that the work was done."""
    for _ in range(turns):
        x = x * 0.999999 + 1e-3
    return x
