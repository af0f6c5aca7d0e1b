"""Other people's load on hosts of a testbed: processes that compute for nobody, and are gone when they are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.testbed.grid import Testbed

BURN = "while True: pass"
#: Seconds after which a process that was killed must be gone.
GONE_S = 5.0


def burn(bed: Testbed, host: str, count: int) -> list[subprocess.Popen[bytes]]:
    """So many processes that compute, inside a host."""
    command = bed.command(host, [sys.executable, "-S", "-c", BURN])
    # What enters a host waits for what it started there: only their group has both.
    return [subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) for _ in range(count)]


def put_out(bed: Testbed, load: list[subprocess.Popen[bytes]]) -> None:
    """End them, if there are any, and empty the list.

    Raises `RuntimeError` if one is left, for it would be in every later figure.
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
