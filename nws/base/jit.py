"""Compilation by numba, once per machine: the cache on disk of all compiled functions.

numba keeps machine code beside the module, or in the user's cache directory if that is read-only. If neither can be
written, every process compiles for itself. numba compares only the module of the compiled function with the cached
code. So the name of each cached function contains a digest of all sources that its code depends on.
"""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def cached(*signatures: Any, sources: str, **options: Any) -> Callable[[F], F]:
    """Return a decorator like `numba.njit` that keeps the machine code on disk.

    Args:
        signatures: positional arguments of `numba.njit`.
        sources: digest of the sources that the code depends on.
        options: keyword arguments of `numba.njit`.
    """

    # the compiler takes half a second of CPU to import
    import numba

    njit: Any = numba.njit

    def decorate(function: F) -> F:
        function.__qualname__ += f"_{sources}"
        try:
            return cast(F, njit(*signatures, cache=True, **options)(function))
        except RuntimeError:
            # numba finds no writable directory: starting takes longer, nothing else changes
            return cast(F, njit(*signatures, **options)(function))

    return decorate


def digest(paths: Iterable[Path]) -> str:
    """Return 12 hexadecimal digits that depend on the content of source files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(set(paths)))).hexdigest()[:12]


def is_cached(function: Any) -> bool:
    """Return whether machine code of a compiled function is on disk, so that its first call need not compile."""
    directory = getattr(getattr(function, "stats", None), "cache_path", None)
    pattern = f"{function.__module__.rpartition('.')[2]}.{function.py_func.__qualname__}-*.nbi"
    return directory is not None and any(Path(directory).glob(pattern))
