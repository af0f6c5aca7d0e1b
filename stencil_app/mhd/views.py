"""Lines of the large arrays as arguments of kernels: one place for slices, which are costly to compile.

Their signatures are explicit; otherwise the compiler would make one version for each constant argument.
"""

from stencil_app.jit import kernel, row_kernel
from stencil_app.mesh.layout import Array


@kernel("float64[::1](float64[:,:,::1], int64, int64, int64)")
def line(planes: Array, plane: int, j: int, begin: int) -> Array:
    """Return line j of a plane of the workspace, from entry `begin` on."""
    return planes[plane, j, begin:]


@kernel("float64[::1](float64[:,:,:,::1], int64, UniTuple(int64, 2), int64)")
def entries(field: Array, variable: int, at: tuple[int, int], begin: int) -> Array:
    """Return line of a variable of a field, at = plane, line, from entry `begin` on."""
    k, j = at
    return field[k, variable, j, begin:]


@kernel("float64[::1](float64[::1], int64)")
def from_(row: Array, begin: int) -> Array:
    """Return a row from entry `begin` on."""
    return row[begin:]


@kernel(
    "UniTuple(float64[::1], 4)(float64[:,:,::1], UniTuple(int64, 4), UniTuple(int64, 4), UniTuple(int64, 2))"
)
def four_lines(
    planes: Array, which: tuple[int, int, int, int], lines: tuple[int, int, int, int], begin: tuple[int, int]
) -> tuple[Array, Array, Array, Array]:
    """Return lines of four planes; the first and third begin at begin[0], the others at begin[1]."""
    first, second = begin
    return (
        planes[which[0], lines[0], first:],
        planes[which[1], lines[1], second:],
        planes[which[2], lines[2], first:],
        planes[which[3], lines[3], second:],
    )


@row_kernel
def copied(source: Array, target: Array, n: int) -> None:
    """Copy n values: target[:n] = source[:n]."""
    for i in range(n):
        target[i] = source[i]
