"""A seeded load of real processes for this machine: busy ones, memory holders, loopback transfers, MPI runs.

    python benchmarks/mixed_load.py [--seconds 600] [--seed 1] [--busy 1.0]

Arrivals are Poisson and lengths exponential, as of independent users. The starts are a pure function of the seed; the
processes and their effects are real. All processes end with this one, however it ends.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

#: Share of busy processes in all busy time; the rest is transfers and MPI runs.
_BUSY_PART = 0.7
#: Mean lengths of short and long busy processes, seconds, and the part of them that is long.
_SHORT_S, _LONG_S, _LONG_PART = 12.0, 120.0, 0.2
_NICES = (0, 0, 0, 0, 0, 0, 5, 10, 19, 19)
#: Seconds from one arrival to the next, and mean lengths, of memory holders, transfers and MPI runs.
_HOLD_EVERY_S, _HOLD_S = 75.0, 60.0
_TRANSFER_EVERY_S, _TRANSFER_S = 90.0, 20.0
_RUN_EVERY_S, _RUN_MOST_S = 240.0, 120.0
#: Limit of processes at once, so that a burst does not block other users of the machine.
_MOST_AT_ONCE = 6

_BUSY = """
import os, sys, time
os.nice(int(sys.argv[2]))
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    sum(range(20000))
"""
_HOLD = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
held = bytearray(int(sys.argv[2]))
page = 4096
while time.monotonic() < end:
    for place in range(0, len(held), page):
        held[place] = 1
    time.sleep(min(5.0, max(end - time.monotonic(), 0)))
"""
_TRANSFER = """
import socket, sys, threading, time
end, duty = time.monotonic() + float(sys.argv[1]), float(sys.argv[2])
with socket.create_server(("127.0.0.1", 0)) as server:
    sender = socket.create_connection(server.getsockname())
    receiver, _ = server.accept()
def swallow():
    room = bytearray(1 << 18)
    while receiver.recv_into(room):
        pass
threading.Thread(target=swallow, daemon=True).start()
piece = bytes(1 << 18)
while (now := time.monotonic()) < end:
    sender.sendall(piece)
    time.sleep((time.monotonic() - now) * (1 / duty - 1))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A process that starts `start_s` seconds after the load began.

    kind: busy, hold, transfer or run
    length_s: duration; for a run its limit
    amount: nice value of a busy process, bytes held, share of the time that is sent, or index of the run
    """

    start_s: float
    kind: str
    length_s: float
    amount: float


def plan(seed: int, duration_s: float, busy: float) -> list[Job]:
    """Return the jobs of `duration_s` seconds in order of their starts; `busy` CPUs are used on average."""
    rng = random.Random(seed)
    mean_s = _LONG_PART * _LONG_S + (1 - _LONG_PART) * _SHORT_S

    def busy_process(start_s: float) -> Job:
        mean = _LONG_S if rng.random() < _LONG_PART else _SHORT_S
        length = rng.expovariate(1 / mean)
        return Job(start_s=start_s, kind="busy", length_s=length, amount=rng.choice(_NICES))

    def holder(start_s: float) -> Job:
        size = 0.2e9 * 10 ** rng.random()
        return Job(start_s=start_s, kind="hold", length_s=rng.expovariate(1 / _HOLD_S), amount=size)

    def transfer(start_s: float) -> Job:
        length = rng.expovariate(1 / _TRANSFER_S)
        return Job(start_s=start_s, kind="transfer", length_s=length, amount=rng.choice((0.1, 0.3, 1.0)))

    def run(start_s: float) -> Job:
        return Job(start_s=start_s, kind="run", length_s=_RUN_MOST_S, amount=rng.randrange(len(_RUNS)))

    kinds: list[tuple[float, Callable[[float], Job]]] = [
        (mean_s / (busy * _BUSY_PART), busy_process),
        (_HOLD_EVERY_S, holder),
        (_TRANSFER_EVERY_S, transfer),
        (_RUN_EVERY_S, run),
    ]
    jobs = []
    for every_s, make in kinds:
        start = rng.expovariate(1 / every_s)
        while start < duration_s:
            jobs.append(make(start))
            start += rng.expovariate(1 / every_s)
    return sorted(jobs, key=lambda job: job.start_s)


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


_JACOBI = ("jacobi2d", "--size", "512", "--nx", "8192", "--iterations", "2000")
#: The MPI runs: one that the agent plans, and one with equal slabs on two ranks.
_RUNS = (
    [_program("apples-run"), "--quiet", "--app", "heat", "-s", "iterations=3000", "64"],
    [_program("mpiexec"), "-n", "2", _program("stencil-app"), *_JACOBI],
)


def command_of(job: Job) -> list[str]:
    """Return the command line of a job."""
    if job.kind == "run":
        return _RUNS[int(job.amount)]
    code = {"busy": _BUSY, "hold": _HOLD, "transfer": _TRANSFER}[job.kind]
    amount = f"{job.amount:.3f}" if job.kind == "transfer" else str(int(job.amount))
    return [sys.executable, "-I", "-S", "-c", code, f"{job.length_s:.3f}", amount]


def dies_with_us(parent: int) -> Callable[[], None]:
    """Return a function for the child before exec: the kernel ends the child when this process ends."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def tie() -> None:
        set_parent_death_signal = 1
        prctl(set_parent_death_signal, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return tie


class Load:
    """The jobs of a plan as processes, each a session of its own; a context manager that leaves no processes behind.

    state: directory for the state of MPI runs
    """

    def __init__(self, jobs: list[Job], state: Path) -> None:
        self._jobs, self._state = list(jobs), state
        self._running: list[tuple[subprocess.Popen[bytes], float]] = []
        self._began = time.monotonic()
        self.started: dict[str, int] = {}
        self.refused = 0

    def tend(self) -> None:
        """Start jobs that are due, end jobs after their time, reap ended ones; to be called every second or so."""
        now = time.monotonic() - self._began
        alive = []
        for process, until in self._running:
            if process.poll() is None:
                if now > until:
                    _end(process)
                else:
                    alive.append((process, until))
        self._running = alive
        while self._jobs and self._jobs[0].start_s <= now:
            job = self._jobs.pop(0)
            if len(self._running) >= _MOST_AT_ONCE:
                self.refused += 1
                continue
            process = subprocess.Popen(
                command_of(job),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=dies_with_us(os.getpid()),
                env=os.environ | {"APPLES_STATE": str(self._state)},
            )
            self._running.append((process, now + job.length_s + 5.0))
            self.started[job.kind] = self.started.get(job.kind, 0) + 1

    def __enter__(self) -> Load:
        self._began = time.monotonic()
        return self

    def __exit__(self, *exception: object) -> None:
        for process, _ in self._running:
            _end(process)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.started.items()))
        return f"{counts or 'nothing'} started" + (f", {self.refused} left out" if self.refused else "")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its session, with TERM first so that launchers can end their ranks."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def stop_on_sigterm() -> None:
    """Make SIGTERM leave through `finally` and context managers, as Ctrl-C does."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--busy", type=float, default=1.0, help="CPUs wanted on average")
    options = parser.parse_args()
    stop_on_sigterm()
    state = Path(os.environ.get("TMPDIR", "/tmp")) / f"mixed-load-{os.getpid()}"
    end = time.monotonic() + options.seconds
    with Load(plan(options.seed, options.seconds, options.busy), state) as load:
        try:
            while time.monotonic() < end:
                load.tend()
                time.sleep(0.5)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
    print(load)


if __name__ == "__main__":
    main()
