"""Compilation of the queue's inner loops, once per machine. The cache key is a digest of their modules.

A function of another package that uses parts of this one includes both packages' sources in its key, because numba
checks only the module of the compiled function. Without a writable cache directory every process compiles anew.
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
"""Message of commands before the first call on a machine."""

_HERE = Path(__file__).parent


def compiled(function: F) -> F:
    """Compile a function that Python calls. The machine code is kept on disk."""
    sources = _digest(Path(function.__code__.co_filename).parent)
    function.__qualname__ += f"_{sources}"
    try:
        return cast(F, numba.njit(cache=True, error_model="numpy")(function))
    except RuntimeError:
        # numba has no cache directory: the start is slower, the results are equal.
        return cast(F, numba.njit(error_model="numpy")(function))


def unit(function: F) -> F:
    """Compile a function that only compiled code calls; compiled once for all callers."""
    return cast(F, numba.njit(error_model="numpy")(function))


def part(function: F) -> F:
    """Compile a small part of a loop, inlined at every call."""
    return cast(F, numba.njit(error_model="numpy", forceinline=True)(function))


def is_kept(function: Any) -> bool:
    """Return whether the machine code of a compiled function is on disk, so that the first call does not compile it."""
    where = getattr(getattr(function, "stats", None), "cache_path", None)
    name = f"{function.__module__.rpartition('.')[2]}.{function.py_func.__qualname__}-*.nbi"
    return where is not None and any(Path(where).glob(name))


@cache
def _digest(directory: Path) -> str:
    paths = sorted({*_HERE.glob("*.py"), *directory.glob("*.py")})
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]
