"""Lines of the large arrays as kernels pass them on: one place for slices, which are costly to compile."""

from __future__ import annotations

from stencil_app.jit import inlined
from stencil_app.layout import Array


@inlined
def line(planes: Array, plane: int, j: int, begin: int) -> Array:
    """Line j of a plane of the workspace, from entry `begin` on."""
    return planes[plane, j, begin:]


@inlined
def entries(field: Array, at: tuple[int, int, int], begin: int) -> Array:
    """Line of a field, at = plane, variable, line, from entry `begin` on."""
    k, v, j = at
    return field[k, v, j, begin:]


@inlined
def from_(row: Array, begin: int) -> Array:
    """A row from entry `begin` on."""
    return row[begin:]


@inlined
def four_lines(
    planes: Array, which: tuple[int, int, int, int], lines: tuple[int, int, int, int], begin: tuple[int, int]
) -> tuple[Array, Array, Array, Array]:
    """Lines of four planes; the first and third begin at begin[0], the others at begin[1]."""
    first, second = begin
    return (
        planes[which[0], lines[0], first:],
        planes[which[1], lines[1], second:],
        planes[which[2], lines[2], first:],
        planes[which[3], lines[3], second:],
    )
