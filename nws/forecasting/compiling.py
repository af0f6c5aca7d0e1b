"""How the battery's functions run: interpreted at first, compiled once a process has much to forecast.

To import the compiler and to load the machine code costs as much CPU as some two hundred interpreted updates. A program
that forecasts a few series once, such as a dry run, is done before. Both ways give the same numbers, bit for bit.
Machine code on disk depends on all modules of this package.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from nws.base import jit

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SOURCES = jit.digest(Path(__file__).parent.glob("*.py"))
#: Work of a process that is interpreted, in updates of a series.
INTERPRETED = 160


class Kernel(Generic[_P, _R]):
    """A function that is interpreted until `work` says otherwise."""

    #: Work that may still be interpreted, of all kernels of this process.
    left: float = INTERPRETED
    bulk = False

    def __init__(self, function: Callable[_P, _R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    @functools.cached_property
    def compiled(self) -> Any:
        """Return the function of numba, which compiles or loads its code at the first call."""
        return jit.cached(sources=_SOURCES, nogil=True)(self._function)

    @property
    def _numba_type_(self) -> Any:
        # the compiler's own protocol: kernels that call this one call its machine code
        return self.compiled._numba_type_

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run the function, interpreted or compiled."""
        run: Callable[_P, _R] = self._function if Kernel.left >= 0 and not self.bulk else self.compiled
        return run(*args, **kwargs)


compiled = Kernel


def compiled_at_once(function: Callable[_P, _R]) -> Kernel[_P, _R]:
    """Return a kernel over whole series, which is never interpreted."""
    kernel = Kernel(function)
    kernel.bulk = True
    return kernel


@contextmanager
def work(updates: float) -> Iterator[None]:
    """Announce kernels' work of as many updates of a series; once there is too much, everything is compiled."""
    Kernel.left -= updates
    # machine code warns of nothing
    with np.errstate(all="ignore"):
        yield
