"""CPU load generators on hosts of a testbed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.testbed.grid import Testbed

BURN = "while True: pass"
#: Seconds after which a killed process must have ended.
GONE_S = 5.0
#: Seconds from the start of a load until sensors see nothing else.
SETTLE_S = 4.0


@contextlib.contextmanager
def burning(bed: Testbed, counts: dict[str, int]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run that many busy processes on each host for the duration of the block; end all of them afterwards.

    The block starts after the sensors have had time to see the load. It may add processes to the list, as of `burn`. A
    host with a count of 0 causes the wait, too, as a load may just have left it. Without any host there is no wait.
    """
    load = [process for host, count in counts.items() for process in burn(bed, host, count)]
    try:
        time.sleep(SETTLE_S if counts else 0.0)
        yield load
    finally:
        put_out(bed, load)


def burn(bed: Testbed, host: str, count: int) -> list[subprocess.Popen[bytes]]:
    """Start that many busy processes inside a host."""
    command = bed.command(host, [sys.executable, "-S", "-c", BURN])
    # The process that enters the host waits for its child inside; only the process group contains both.
    return [subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) for _ in range(count)]


def put_out(bed: Testbed, load: list[subprocess.Popen[bytes]]) -> None:
    """End all processes in the list, and empty it.

    Raises:
        RuntimeError: a process is left, which would distort every later figure.
    """
    if not load:
        return
    for process in load:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    load.clear()
    deadline = time.monotonic() + GONE_S
    while left := [h.name for h in bed.spec.hosts if any(BURN in c for c in bed.processes(h.name).values())]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes of a load are left on {', '.join(left)}")
        time.sleep(0.05)
