"""Other people's load on hosts of a testbed: processes that compute for nobody, and are gone when they are told."""

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
#: Seconds after which a process that was killed must be gone.
GONE_S = 5.0
#: Seconds from the start of a load until sensors see nothing else.
SETTLE_S = 4.0


@contextlib.contextmanager
def burning(bed: Testbed, counts: dict[str, int]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many on each host, once its sensors have had time to see it; none is left when it is over.

    More may be added to the list, as of `burn`. counts : a host with 0 is waited for, too, as others may just have
    left it; without any host nothing is waited for
    """
    load = [process for host, count in counts.items() for process in burn(bed, host, count)]
    try:
        time.sleep(SETTLE_S if counts else 0.0)
        yield load
    finally:
        put_out(bed, load)


def burn(bed: Testbed, host: str, count: int) -> list[subprocess.Popen[bytes]]:
    """Return so many processes that compute, inside a host."""
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
