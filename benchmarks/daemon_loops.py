"""CPU time and lateness of a heartbeat in the daemons' event loop, in asyncio and in uvloop, in turns.

    python benchmarks/daemon_loops.py [--seconds 5] [--period-ms 10] [--repetitions 5]

A timer sends a datagram to a socket of the same loop once in a period, and a handler receives it: what a node manager
does at a heartbeat, without the work. Each loop runs in a process of its own. Prints medians: CPU microseconds per
heartbeat, and how late the timer was in microseconds (half, and 99 of 100).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from apples.daemons.ipc.loop import Loop

#: First heartbeat after the start, and heartbeats that are not counted, seconds.
FIRST_S, WARM = 0.2, 20


class Heartbeat:
    """Sends and receives, and notes how late each was. at : calls a function at an instant of the loop's clock"""

    def __init__(
        self,
        period_s: float,
        count: int,
        at: Callable[[float, Callable[[], None]], object],
        stop: Callable[[], None],
    ) -> None:
        self.sender, self.receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.receiver.setblocking(False)
        self._period_s, self._count, self._at, self._stop = period_s, count, at, stop
        self.late: list[float] = []
        self.begun = 0.0
        self._due = time.monotonic() + FIRST_S
        at(self._due, self.send)

    def send(self) -> None:
        """Send at the instant that is due."""
        self.late.append(time.monotonic() - self._due)
        if len(self.late) == WARM:
            self.begun = time.process_time()
        self.sender.send(b"x" * 64)
        self._due += self._period_s
        if len(self.late) < self._count + WARM:
            self._at(self._due, self.send)

    def receive(self) -> None:
        """Receive; the last datagram ends the loop."""
        self.receiver.recv(128)
        if len(self.late) == self._count + WARM:
            self._stop()

    def document(self) -> dict[str, float]:
        """Return the figures of a run that has ended."""
        late = sorted(self.late[WARM:])
        return {
            "cpu_us": 1e6 * (time.process_time() - self.begun) / self._count,
            "late_p50_us": 1e6 * late[len(late) // 2],
            "late_p99_us": 1e6 * late[int(0.99 * len(late))],
        }


def ours(period_s: float, count: int, *, precise: bool) -> dict[str, float]:
    """Return the figures of the daemons' own loop."""
    loop = Loop(precise=precise)
    heartbeat = Heartbeat(period_s, count, loop.at, loop.stop)
    loop.watch(heartbeat.receiver.fileno(), heartbeat.receive)
    loop.run()
    return heartbeat.document()


def other(period_s: float, count: int, loop: asyncio.AbstractEventLoop) -> dict[str, float]:
    """Return the figures of an asyncio loop."""
    ahead = loop.time() - time.monotonic()
    heartbeat = Heartbeat(period_s, count, lambda when, call: loop.call_at(when + ahead, call), loop.stop)
    loop.add_reader(heartbeat.receiver.fileno(), heartbeat.receive)
    loop.run_forever()
    return heartbeat.document()


def run(name: str, period_s: float, count: int) -> dict[str, float]:
    """Return the figures of the loop of this name."""
    if name.startswith("own"):
        return ours(period_s, count, precise=name == "own, kernel timer")
    if name == "uvloop":
        import uvloop

        return other(period_s, count, uvloop.new_event_loop())
    return other(period_s, count, asyncio.new_event_loop())


NAMES = ("own", "own, kernel timer", "asyncio", "uvloop")


def main() -> None:
    """Run all loops in turns and print their medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--period-ms", type=float, default=10.0)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--loop", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    period_s = options.period_ms / 1e3
    if options.loop:
        print(json.dumps(run(options.loop, period_s, round(options.seconds / period_s))))
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in NAMES}
    for _ in range(options.repetitions):
        for name, rows in found.items():
            command = [sys.executable, __file__, "--loop", name, "--seconds", str(options.seconds)]
            done = subprocess.run(
                [*command, "--period-ms", str(options.period_ms)], check=True, capture_output=True, text=True
            )
            rows.append(json.loads(done.stdout))
    for name, rows in found.items():
        medians = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        print(f"{name:20}" + "".join(f"{key} {value:8.1f}   " for key, value in medians.items()))


if __name__ == "__main__":
    main()
