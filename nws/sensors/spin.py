"""The spin probe: run flat out for a moment, and measure the share of a CPU obtained.

A process of its own in a session of its own, as launchers start them: many kernels give CPUs to sessions rather than to
processes, and threads of this process must not slow it. It uses a CPU for its length, so the CPU sensor runs it only
now and then, to correct its passive reading.
"""

from __future__ import annotations

import sys

from nws.base.errors import ProbeError
from nws.base.program import ProgramFailed, output_of

_PROGRAM = """
import sys, time
duration_s = float(sys.argv[1])
start, cpu = time.perf_counter(), time.process_time()
while (wall := time.perf_counter() - start) < duration_s:
    pass
print((time.process_time() - cpu) / wall)
"""


def spin(duration_s: float) -> float:
    """Return CPU time over wall time of a busy loop of `duration_s` seconds: the share of one CPU it got, 0..1.

    Raises `ProbeError` when no process can be started, or it does not return.
    """
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(duration_s)]
    try:
        return min(float(output_of(command, limit_s=100 * duration_s + 10)), 1.0)
    except (ValueError, ProgramFailed) as error:
        raise ProbeError(f"spin probe: {sys.executable} could not run for {duration_s} s: {error}") from error
