"""Compilation of the simulator's inner loop: once per machine, named by a digest of its modules.

The machine code is stored beside the module, or in the user's cache directory if that is read-only; if neither is
writable, every process compiles. numba checks only the module of the compiled function, hence the digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import types
from numba.extending import intrinsic

from apples.simulation.cluster.layout import Memory

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
_SOURCES = hashlib.sha256(
    b"".join(Path(__file__).with_name(f"{module}.py").read_bytes() for module in _MODULES)
).hexdigest()[:12]


def compiled(function: F) -> F:
    """Decorate a function that Python calls; its machine code is stored on disk."""
    function.__qualname__ += f"_{_SOURCES}"
    try:
        return cast(F, numba.njit(cache=True, error_model="numpy")(function))
    except RuntimeError:
        # numba finds no directory to keep the code in: slower to start, and otherwise the same
        return cast(F, numba.njit(error_model="numpy")(function))


def part(function: F) -> F:
    """Decorate a part of the loop."""
    return cast(F, numba.njit(error_model="numpy")(function))


def inlined(function: F) -> F:
    """Decorate a part of the loop that is inlined, because a call costs as much as its body."""
    return cast(F, numba.njit(error_model="numpy", forceinline=True)(function))


def _words(typing_context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    pointer: Any = types.CPointer
    return pointer(array.dtype)(array), generate


#: The memory by its address alone: no counting of references, no index that counts from the end. For compiled code,
#: which must have the array itself as long as it uses the address.
words = cast(Callable[[Memory], Memory], intrinsic(_words))
