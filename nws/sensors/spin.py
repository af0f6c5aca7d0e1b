"""The spin probe: run flat out for a moment, and see what part of a CPU one really gets.

It costs what it measures, so the CPU sensor uses it now and then only, to correct its passive reading.
"""

from __future__ import annotations

import hashlib
import time

#: Hashing this much takes about half a millisecond, and CPython lets other threads run meanwhile: a probe
#: that held the interpreter would measure its own process' threads.
_BLOCK = bytes(1 << 20)


def spin(duration_s: float) -> float:
    """CPU time over wall time of a busy loop of `duration_s` seconds: the share of one CPU it got, 0..1."""
    start, cpu = time.perf_counter(), time.thread_time()
    while (wall := time.perf_counter() - start) < duration_s:
        hashlib.sha1(_BLOCK, usedforsecurity=False).digest()
    return min((time.thread_time() - cpu) / wall, 1.0)
