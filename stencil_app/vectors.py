"""Eight cells at once in kernels: load them, store them, and `+` and `*` of them.

Here as plain Python; where numba is installed, as machine code (`stencil_app.vectorcode`) with the same results.
"""

from typing import Any

import numpy as np

from nws.base.jit import compiler
from stencil_app.jit import WIDTH as WIDTH


def load(u: Any, index: int) -> Any:
    """Return the eight values of `u`, float64[::1], from `index` on; zeros after its end."""
    cells = np.zeros(WIDTH)
    inside = u[index : index + WIDTH]
    cells[: len(inside)] = inside
    return cells


def store(u: Any, index: int, cells: Any) -> None:
    """Set the eight values of `u` from `index` on."""
    u[index : index + WIDTH] = cells


def store_first(u: Any, index: int, cells: Any, count: int) -> None:
    """Set only the first `count` values of `u` from `index` on."""
    u[index : index + count] = cells[:count]


def stream(u: Any, index: int, cells: Any) -> None:
    """Set the eight values of `u` from `index` on, past the caches where there is machine code."""
    store(u, index, cells)


def drain() -> None:
    """Let all processors see what `stream` stored, before a message sends it."""


if compiler() is not None:
    from stencil_app.vectorcode import (
        drain as drain,
        load as load,
        store as store,
        store_first as store_first,
        stream as stream,
    )
