"""Compiles the mathematics of the battery, once per machine.

The machine code is kept beside the module, or in the user's cache directory where that is read-only; where
neither can be written it is compiled anew in every process. Code kept on disk is named by a digest of all modules of
this package: numba itself looks only at the module of the function it was asked for, and would go on using old
code after a change in a module that function calls. Decides nothing about forecasts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SOURCES = hashlib.sha256(
    b"".join(p.read_bytes() for p in sorted(Path(__file__).parent.glob("*.py")))
).hexdigest()[:12]


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return `function` compiled on first use, running without the interpreter lock."""
    function.__qualname__ += f"_{_SOURCES}"
    try:
        result: Callable[_P, _R] = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        # numba finds no directory to keep the code in: slower to start, and otherwise the same
        result = numba.njit(nogil=True)(function)
    return result
