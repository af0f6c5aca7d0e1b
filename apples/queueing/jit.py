"""How the queue's inner loops are compiled: once per machine, named by a digest of the modules they are made of.

A function in another package that is built from this one's parts counts both packages' sources, because numba itself
looks only at the module of the function it was asked for. Where no directory can be written to, every process compiles
for itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

NOTE = "compiling the queue's kernel once, for half a minute at most"
"""What commands say before the first call on a machine."""

_HERE = Path(__file__).parent


def compiled(function: F) -> F:
    """Decorator: a function that Python calls; its machine code is kept on disk."""
    sources = _digest(Path(function.__code__.co_filename).parent)
    function.__qualname__ += f"_{sources}"
    try:
        return cast(F, numba.njit(cache=True, error_model="numpy")(function))
    except RuntimeError:
        # numba finds no directory to keep the code in: slower to start, and otherwise the same
        return cast(F, numba.njit(error_model="numpy")(function))


def unit(function: F) -> F:
    """Decorator: called from compiled code only, compiled once however often it is called."""
    return cast(F, numba.njit(error_model="numpy")(function))


def part(function: F) -> F:
    """Decorator: a small part of a loop, written out wherever it is called."""
    return cast(F, numba.njit(error_model="numpy", forceinline=True)(function))


def is_kept(function: Any) -> bool:
    """Whether machine code of a compiled function is on disk already, so that the first call need not make it."""
    where = getattr(getattr(function, "stats", None), "cache_path", None)
    name = f"{function.__module__.rpartition('.')[2]}.{function.py_func.__qualname__}-*.nbi"
    return where is not None and any(Path(where).glob(name))


@cache
def _digest(directory: Path) -> str:
    paths = sorted({*_HERE.glob("*.py"), *directory.glob("*.py")})
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]
