"""Compilation of kernels: one place for the options that every kernel of every physics shares.

Strict IEEE arithmetic (no fastmath): a cell's new value depends only on its neighbours, so every slab layout, and every
process, fresh or cached, computes the same bits. Signatures are explicit, so that importing a kernel's module compiles
it, or loads it from the cache on disk; `stencil-app warm` does that once before ranks start. The cache is beside the
module, or the user's own if that is read-only; if neither can be written every rank compiles for itself. Code on disk
is named by a digest of all its sources.
"""

import gc
import importlib
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from nws.base.jit import cached, compiler, digest, njit

F = TypeVar("F", bound=Callable[..., Any])

#: Cells in a vector of kernels.
WIDTH = 8

# numba's objects live as long as the process; collecting them repeatedly would cost a tenth of a rank's start-up.
gc.freeze()

_ROOT = Path(__file__).parent
_IMPORT = re.compile(r"^\s*from stencil_app(?:\.([\w.]+))? import (\([^)]*\)|.*)", re.MULTILINE)


def _use_full_vectors() -> None:
    # LLVM prefers 256-bit vectors on processors that have 512-bit ones; the stencils lose 8 % by that.
    if "NUMBA_CPU_FEATURES" in os.environ:
        return
    import numba.core.config
    from llvmlite import binding  # type: ignore[import-untyped]

    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        config: Any = numba.core.config
        config.CPU_FEATURES = f"{features.flatten()},-prefer-256-bit"


def _leave_scipy_alone() -> None:
    # Where SciPy is installed numba imports its linear algebra to offer it to kernels, of which none has any: that
    # would be a quarter of the time that a rank takes to start.
    modules = cast("dict[str, Any]", sys.modules)
    if "scipy.linalg" in modules or "numba.np.arraymath" in modules:
        return
    modules["scipy.linalg"] = None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        del modules["scipy.linalg"]


if compiler() is not None:
    _use_full_vectors()
    _leave_scipy_alone()


@cache
def _imported(path: Path) -> frozenset[Path]:
    """Return modules of this package that one imports; `path` may be any module."""
    candidates = set()
    for module, names in _IMPORT.findall(path.read_text(encoding="utf-8")):
        module_path = _ROOT.joinpath(*module.split(".")) if module else _ROOT
        candidates |= {module_path / f"{name}.py" for name in re.findall(r"\w+", names)} | {
            module_path.with_suffix(".py")
        }
    return frozenset(other for other in candidates if other.is_file())


@cache
def sources_digest(path: Path) -> str:
    """Return the digest of a module and of all modules of this package that it imports.

    numba itself looks only at the module of the requested function, and would go on using old code after a change in a
    module that function imports from.
    """
    known, new = set(), {path, Path(__file__)}
    while new:
        known |= new
        new = set().union(*(_imported(one) for one in new)) - known
    return digest(known)


def kernel(*signatures: str, cache: bool = True) -> Callable[[F], F]:
    """Compile the function for exactly these numba signatures (decorator); cached on disk unless `cache` is False."""
    options: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}

    def decorate(function: F) -> F:
        if not cache:
            return njit(list(signatures), **options)(function)
        sources = sources_digest(Path(function.__code__.co_filename))
        return cached(list(signatures), sources=sources, **options)(function)

    return decorate


@cache
def _row_compiler() -> Any:
    """Return a compiler on the promise that no two array arguments overlap where one is written."""
    if compiler() is None:
        return None
    from numba.core.compiler import Compiler

    class RowCompiler(Compiler):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]
            self.state.flags.noalias = True

    return RowCompiler


# A function called by kernels only needs no wrapper for Python or C, which would double its compile time.
_PART: dict[str, Any] = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def row_kernel(function: F) -> F:
    """Compile a loop over rows, called by kernels (decorator); no array overlaps with one that it writes.

    Without that promise the compiler checks every pair of rows at each call, or gives up on vectors.
    """
    return njit(pipeline_class=_row_compiler(), **_PART)(function)


def inlined(function: F) -> F:
    """Compile a part of a kernel into each kernel that calls it (decorator)."""
    return njit(**_PART)(function)


def when_compiling(say: Callable[[], None]) -> None:
    """Call `say` once, when a kernel is not in the cache and has to be compiled."""
    if compiler() is None:
        return
    from numba.core import event

    calls = [say]

    class FirstCompile(event.Listener):
        def on_start(self, event: event.Event) -> None:
            while calls:
                calls.pop()()

        def on_end(self, event: event.Event) -> None:
            pass

    event.register("numba:compile", FirstCompile())  # type: ignore[no-untyped-call]
