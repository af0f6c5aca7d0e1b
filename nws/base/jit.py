"""Compilation by numba, once per machine: the cache on disk of all compiled functions.

numba keeps machine code beside the module, or in the user's cache directory if that is read-only. If neither can be
written, every process compiles for itself. numba compares only the module of the compiled function with the cached
code. So the name of each cached function contains a digest of all sources that its code depends on.

numba is optional (the extra `app`). Without it the same functions run as plain Python, with the same results.
"""

import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


@cache
def compiler() -> Any:
    """Return the module numba, None where it is not installed. The first import takes half a second of CPU."""
    try:
        import numba
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        return None
    return numba


def njit(*signatures: Any, **options: Any) -> Callable[[F], F]:
    """Return the decorator `numba.njit` with these arguments, or one that leaves functions to Python."""
    numba = compiler()
    return cast(
        "Callable[[F], F]", numba.njit(*signatures, **options) if numba else lambda function: function
    )


def cached(*signatures: Any, sources: str, **options: Any) -> Callable[[F], F]:
    """Return a decorator like `numba.njit` that keeps the machine code on disk.

    Args:
        signatures: positional arguments of `numba.njit`.
        sources: digest of the sources that the code depends on.
        options: keyword arguments of `numba.njit`.
    """

    def decorate(function: F) -> F:
        if compiler() is None:
            import numpy as np

            # machine code warns of nothing
            return np.errstate(all="ignore")(function)
        function.__qualname__ += f"_{sources}"
        try:
            return njit(*signatures, cache=True, **options)(function)
        except RuntimeError:
            # numba finds no writable directory: starting takes longer, nothing else changes
            return njit(*signatures, **options)(function)

    return decorate


def digest(paths: Iterable[Path]) -> str:
    """Return 12 hexadecimal digits that depend on the content of source files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(set(paths)))).hexdigest()[:12]


def is_cached(function: Any) -> bool:
    """Return whether the first call of a function compiles nothing: its code is on disk, or it is plain Python."""
    if not hasattr(function, "py_func"):
        return True
    directory = getattr(getattr(function, "stats", None), "cache_path", None)
    pattern = f"{function.__module__.rpartition('.')[2]}.{function.py_func.__qualname__}-*.nbi"
    return directory is not None and any(Path(directory).glob(pattern))
