"""Compiler options of the simulator's inner loop. Machine code on disk depends on the modules of the loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba.core import types
from numba.extending import intrinsic

from apples_experiments.cluster.layout import Memory
from nws.base import jit

F = TypeVar("F", bound=Callable[..., Any])

_MODULES = (
    "jit",
    "layout",
    "progress",
    "classscheduler",
    "localscheduler",
    "lockstep",
    "nodewide",
    "engine",
)
_SOURCES = jit.digest(Path(__file__).with_name(f"{module}.py") for module in _MODULES)


def compiled(function: F) -> F:
    """Return a function that Python calls; its machine code is kept on disk."""
    return jit.cached(sources=_SOURCES, error_model="numpy")(function)


def part(function: F) -> F:
    """Return a function for compiled code only."""
    return jit.njit(error_model="numpy")(function)


def inlined(function: F) -> F:
    """Return a function inlined into each caller, for parts that cost as little as a call."""
    return jit.njit(error_model="numpy", forceinline=True)(function)


def _words(typing_context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    pointer: Any = types.CPointer
    return pointer(array.dtype)(array), generate


#: The memory by its address alone: no counting of references, no index that counts from the end. For compiled code,
#: which must have the array itself as long as it uses the address.
words = cast(Callable[[Memory], Memory], intrinsic(_words))
