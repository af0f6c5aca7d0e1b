"""Compiler options of the queue's inner loops. Machine code on disk depends on all modules of this package.

A function of another package that uses this one's parts depends on both packages' sources.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from nws.base import jit

F = TypeVar("F", bound=Callable[..., Any])

NOTE = "compiling the queue's kernel once, for half a minute at most"
"""Message of commands before the first call on a machine."""

_HERE = Path(__file__).parent


def compiled(function: F) -> F:
    """Return a function that Python calls; its machine code is kept on disk."""
    sources = _digest(Path(function.__code__.co_filename).parent)
    return jit.cached(sources=sources, error_model="numpy")(function)


def unit(function: F) -> F:
    """Return a function for compiled code only, compiled once for all callers."""
    return jit.njit(error_model="numpy")(function)


def part(function: F) -> F:
    """Return a small function for compiled code only, inlined into each caller."""
    return jit.njit(error_model="numpy", forceinline=True)(function)


@cache
def _digest(directory: Path) -> str:
    return jit.digest([*_HERE.glob("*.py"), *directory.glob("*.py")])
