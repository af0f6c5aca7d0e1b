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
