"""How kernels are compiled: one place for the options that every kernel of every physics shares.

Strict IEEE arithmetic (no fastmath): a cell's new value depends on nothing but its neighbours, so every
slab layout, and every process, fresh or cached, gives the same bits. Signatures are written out, so that
importing a kernel's module compiles it, or loads it from the cache on disk; `stencil-app warm` does that
once before ranks start. The cache is beside the module, or the user's own where that is read-only; where neither
can be written every rank compiles for itself. Serial per rank: parallelism is MPI's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numba.core.config
from numba.core.compiler import Compiler

F = TypeVar("F", bound=Callable[..., Any])


def _use_full_vectors() -> None:
    # LLVM prefers 256-bit vectors on processors that have 512-bit ones; the stencils lose 8 % by that.
    if "NUMBA_CPU_FEATURES" in os.environ:
        return
    from llvmlite import binding  # type: ignore[import-untyped]

    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        config: Any = numba.core.config
        config.CPU_FEATURES = f"{features.flatten()},-prefer-256-bit"


_use_full_vectors()


def kernel(*signatures: str, cache: bool = True) -> Callable[[F], F]:
    """Decorator: compile for exactly these numba signatures, cached on disk unless `cache` is False."""

    def decorate(function: F) -> F:
        try:
            compiled = numba.njit(list(signatures), cache=cache, error_model="numpy")(function)
        except RuntimeError:
            # numba finds no directory to keep the code in: slower to start, and otherwise the same
            compiled = numba.njit(list(signatures), error_model="numpy")(function)
        return cast(F, compiled)

    return decorate


class _RowCompiler(Compiler):
    """Compiles on the promise that no two array arguments overlap where one is written."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]
        self.state.flags.noalias = True


def row_kernel(function: F) -> F:
    """Decorator: a loop over rows, called by kernels, none of whose arrays overlaps with one that it writes.

    Without that promise the compiler checks every pair of rows at each call, or gives up on vectors.
    """
    return cast(F, numba.njit(error_model="numpy", pipeline_class=_RowCompiler)(function))


def inlined(function: F) -> F:
    """Decorator: a part of a kernel, compiled into each kernel that calls it."""
    return cast(F, numba.njit(error_model="numpy")(function))
