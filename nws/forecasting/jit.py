"""Compiles the mathematics of the battery, once per machine.

The machine code is kept beside the module, or in the user's cache directory where that is read-only; where
neither can be written it is compiled anew in every process. Decides nothing about forecasts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`function` compiled on first use, running without the interpreter lock."""
    try:
        result: Callable[_P, _R] = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        # numba finds no directory to keep the code in: slower to start, and otherwise the same
        result = numba.njit(nogil=True)(function)
    return result
