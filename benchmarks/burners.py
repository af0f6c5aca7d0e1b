"""CPU load generators on hosts of a testbed, or on this machine."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

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
    return [burner(bed.command(host, [])) for _ in range(count)]


def burner(prefix: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start one busy process. prefix: command that runs others, empty for this machine"""
    command = [*prefix, sys.executable, "-S", "-c", BURN]
    # The process that enters a host waits for its child inside; only the process group contains both.
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


@contextlib.contextmanager
def switching(
    start: Callable[[int], subprocess.Popen[bytes]],
    loads: int,
    periods_s: tuple[float, float],
    rng: random.Random,
) -> Iterator[None]:
    """Start and stop loads for the duration of the block, each by its own clock; end them afterwards.

    Args:
        start: Starts the load of that number, from 0, as `burner` does.
        loads: Their number. Each begins on or off with equal probability.
        periods_s: Least and largest seconds that a load stays on or off; uniform between.
        rng: Draws states and periods before the block starts.

    Raises:
        RuntimeError: A load could not be started.
    """
    ended = threading.Event()
    failed: list[Exception] = []

    def switch(number: int, clock: random.Random) -> None:
        running: list[subprocess.Popen[bytes]] = []
        on = clock.random() < 0.5
        try:
            while True:
                if on:
                    running.append(start(number))
                if ended.wait(clock.uniform(*periods_s)):
                    return
                _kill(running)
                on = not on
        except Exception as error:
            failed.append(error)
        finally:
            _kill(running)

    threads = [
        threading.Thread(target=switch, args=(number, random.Random(rng.random()))) for number in range(loads)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    if failed:
        raise RuntimeError("a load could not be switched") from failed[0]


def put_out(bed: Testbed, load: list[subprocess.Popen[bytes]]) -> None:
    """End all processes in the list, and empty it.

    Raises:
        RuntimeError: a process is left, which would distort every later figure.
    """
    if not load:
        return
    _kill(load)
    deadline = time.monotonic() + GONE_S
    while left := [h.name for h in bed.spec.hosts if any(BURN in c for c in bed.processes(h.name).values())]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes of a load are left on {', '.join(left)}")
        time.sleep(0.05)


def _kill(load: list[subprocess.Popen[bytes]]) -> None:
    """End all processes in the list, and empty it."""
    for process in load:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    load.clear()
