"""Hosts of a testbed: their description, commands from the desk, and CPU load generators there or on this machine."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from apples.client import include
from benchmarks.common.report import BIN, ROOT
from tests.testbed.description import parse
from tests.testbed.grid import Testbed

#: The host from which runs are started; it takes no part.
DESK = "desk"
WAVE = ROOT / "examples" / "wave-c"
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


def make_testbed(
    name: str, hosts: Sequence[dict[str, Any]], *, memory: str = "1G", desk: str = DESK, **more: Any
) -> Testbed:
    """Return a testbed of these hosts and a desk, not up yet. more : further keys of its description"""
    desks = [{"name": desk, "site": hosts[0]["site"]} if "site" in hosts[0] else {"name": desk}]
    defaults = {"memory": memory, **more.pop("defaults", {})}
    return Testbed(
        parse({"name": f"{name}-{os.getpid()}", "defaults": defaults, "hosts": [*hosts, *desks], **more})
    )


def names_of(bed: Testbed, desk: str = DESK) -> list[str]:
    """Return the names of all hosts but the desk."""
    return [host.name for host in bed.spec.hosts if host.name != desk]


def pool_of(hosts: Sequence[str]) -> str:
    """Return hosts as a pool with a slot each, as `-H` takes it."""
    return ",".join(f"{host}:1" for host in hosts)


def settings(*pairs: str) -> list[str]:
    """Return options that set values of the application."""
    return [word for pair in pairs for word in ("-s", pair)]


def from_desk(
    bed: Testbed, state: Path, program: str, *words: str, timeout_s: float = 900, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of this package at the desk with a state directory; end the benchmark if it fails."""
    environment = [f"{name}={value}" for name, value in {"APPLES_STATE": str(state), **variables}.items()]
    ended = bed.run(DESK, "env", *environment, str(BIN / program), *words, timeout_s=timeout_s)
    if ended.returncode != 0:
        sys.exit(f"{program} {' '.join(words)} ended with {ended.returncode}:\n{ended.stderr}")
    return ended


def weigh(bed: Testbed, weight: int) -> None:
    """Set the CPU weight of all hosts together, beside the machine's other processes (1024: that of one of them)."""
    hosts = [path for host in bed.spec.hosts for path in bed.groups.directories(host.name)]
    # Sensors on a host see the weight of its own group, so that has to be the same.
    for directory in [*bed.groups.directories(), *hosts]:
        for file, value in (("cpu.shares", weight), ("cpu.weight", max(1, weight * 100 // 1024))):
            if (directory / file).exists():
                (directory / file).write_text(str(value))


def compiled(directory: Path) -> Path:
    """Compile the C program whose rows move; return its application file in the directory."""
    compile_with_client(WAVE / "wave2d-moving.c", directory / "wave2d-moving")
    return Path(shutil.copy(WAVE / "wave2d-moving.yaml", directory))


def compile_with_client(source: Path, program: Path) -> None:
    """Compile a C program that uses the client."""
    command = [str(BIN / "mpicc"), "-O2", f"-I{include()}", "-o", str(program), str(source)]
    subprocess.run(command, check=True)


def chain(run: dict[str, Any]) -> str:
    """Return hosts and rows of a run or an attempt."""
    return " ".join(f"{h['host']}:{h['rows']}" for h in run["hosts"])


#: Processes of a host besides runs: the first process, its sshd, and the process that keeps the host.
FURNITURE = ("unshare --net", "sshd_config", "/init", "sleep 1", "sleep infinity")


def left(bed: Testbed, hosts: Sequence[str]) -> list[str]:
    """Return the processes on hosts besides those of the hosts themselves."""
    lines = [(host, line) for host in hosts for line in bed.processes(host).values()]
    return [f"{host}: {line}" for host, line in lines if line and not any(word in line for word in FURNITURE)]


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, to the nanosecond; 0 after its end."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) * 1e-9
    except OSError:
        return 0.0
