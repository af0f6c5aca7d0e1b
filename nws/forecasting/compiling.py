"""Compiler options of the battery's functions. Machine code on disk depends on all modules of this package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from nws.base import jit

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SOURCES = jit.digest(Path(__file__).parent.glob("*.py"))


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return `function`, compiled on first use, running without the interpreter lock."""
    return jit.cached(sources=_SOURCES, nogil=True)(function)
