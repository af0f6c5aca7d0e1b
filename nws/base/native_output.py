"""Discards native libraries' output.

A native library writes to file descriptor 1 past `sys.stdout`. HiGHS 1.16, for example, prints a banner when its first
solver object is made, before any option can switch that off. Neither a JSON document nor a user's terminal must carry
it.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LOCK = threading.RLock()
_STDOUT = 1


@contextmanager
def native_output_discarded() -> Iterator[None]:
    """Discard everything written to file descriptor 1 while the block runs.

    The redirection holds for the whole process, so keep the block short. Blocks in other threads wait for each other.
    Nothing is redirected in a process with a closed standard output.
    """
    with _LOCK:
        _flush()
        try:
            saved = os.dup(_STDOUT)
        except OSError:
            yield
            return
        try:
            with suppress(OSError), open(os.devnull, "wb") as null:
                os.dup2(null.fileno(), _STDOUT)
            yield
        finally:
            # C's stdio buffers its output unless it goes to a terminal; flush it before we switch back.
            _flush()
            os.dup2(saved, _STDOUT)
            os.close(saved)


def _flush() -> None:
    """Flush the buffers of Python and of C's stdio, so that each text goes where it was meant to go."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
