"""How the battery's functions run: interpreted at first, compiled once a process has much to forecast.

To import the compiler and to load the machine code costs as much CPU as some two hundred interpreted updates. A program
that forecasts a few series once, such as a dry run, is done before. Both ways give the same numbers, bit for bit.
Machine code on disk depends on all modules of this package.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nws.base import jit

_R = TypeVar("_R")

_SOURCES = jit.digest(Path(__file__).parent.glob("*.py"))
#: Work of a process that is interpreted, in updates of a series.
INTERPRETED = 160


class Kernel(functools.partial[_R]):
    """A function that is interpreted where it is called from Python; see `run` and `compiled`.

    A partial function without arguments is called without a step between.
    """

    #: Work that may still be interpreted, of all kernels of this process.
    left: float = INTERPRETED

    @functools.cached_property
    def compiled(self) -> Callable[..., _R]:
        """Return the function of numba, which compiles or loads its code at the first call."""
        return jit.cached(sources=_SOURCES, nogil=True)(self.func)

    @property
    def _numba_type_(self) -> Any:
        # the compiler's own protocol: kernels that call this one call its machine code
        return getattr(self.compiled, "_numba_type_")  # noqa: B009


def compiled(function: Callable[..., _R]) -> Kernel[_R]:
    """Return a function of the battery that can be interpreted and compiled."""
    return Kernel(function)


def run(kernel: Kernel[_R], updates: float, *arguments: object) -> _R:
    """Run a kernel as work of so many updates of a series; once a process has too much, everything is compiled."""
    Kernel.left -= updates
    if Kernel.left < 0:
        return kernel.compiled(*arguments)
    # machine code warns of nothing
    with np.errstate(all="ignore"):
        return kernel(*arguments)
