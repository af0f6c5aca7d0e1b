"""Joins two TAP interfaces and holds every frame for a while: a link with a delay, where the kernel has no netem.

    python relay.py NAME_A PID_A NAME_B PID_B FILE

NAME_A goes into the network namespace of process PID_A, and so for B. FILE holds the delay in seconds, each way, and
may hold the share of frames that are lost; it is read again on SIGHUP. Prints `ok` when both are there. Segmentation is
left to the far end, so a frame is up to 64 KiB. Ends when one of the namespaces is gone, or on its own parent's death.
"""

from __future__ import annotations

import collections
import fcntl
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
CHECKSUMS, TSO4, TSO6 = 0x01, 0x02, 0x04
LONGEST_FRAME = 70_000
#: Frames that wait for their time in one direction; a longer queue loses what comes, as a router does.
MOST_FRAMES = 4096


def tap(name: str, pid: str) -> int:
    """Descriptor of a new TAP interface that now lives in another process's network namespace."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
    fcntl.ioctl(fd, TUNSETIFF, request)
    fcntl.ioctl(fd, TUNSETOFFLOAD, CHECKSUMS | TSO4 | TSO6)
    subprocess.run(["ip", "link", "set", name, "netns", pid], check=True)
    return fd


class Relay:
    """The two ends and what is on its way between them."""

    def __init__(self, a: int, b: int, file: Path) -> None:
        self._file = file
        self._other = {a: b, b: a}
        self._queues: dict[int, collections.deque[tuple[float, bytes]]] = {
            a: collections.deque(),
            b: collections.deque(),
        }
        self.read_delay()

    def read_delay(self) -> None:
        """The delay as the file says now."""
        delay, *loss = self._file.read_text().split()
        self._delay_s, self._loss = float(delay), float(loss[0]) if loss else 0.0

    def serve(self) -> None:
        """Until one end is gone."""
        while True:
            due = min((queue[0][0] for queue in self._queues.values() if queue), default=None)
            wait_s = None if due is None else max(0.0, due - time.monotonic())
            for fd in select.select(list(self._queues), [], [], wait_s)[0]:
                if not self._take(fd):
                    return
            self._send()

    def _take(self, fd: int) -> bool:
        queue = self._queues[self._other[fd]]
        try:
            for _ in range(64):
                frame = os.read(fd, LONGEST_FRAME)
                if len(queue) < MOST_FRAMES and random.random() >= self._loss:
                    queue.append((time.monotonic() + self._delay_s, frame))
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def _send(self) -> None:
        now = time.monotonic()
        for fd, queue in self._queues.items():
            while queue and queue[0][0] <= now:
                frame = queue.popleft()[1]
                try:
                    os.write(fd, frame)
                except OSError:
                    # the link is down or its queue is full: the frame is lost
                    continue


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    a, pid_a, b, pid_b, file = arguments
    relay = Relay(tap(a, pid_a), tap(b, pid_b), Path(file))
    signal.signal(signal.SIGHUP, lambda number, frame: relay.read_delay())
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except OSError:
        # a relay that has to wait for a CPU adds to the delay
        os.nice(-20)
    os.write(1, b"ok\n")
    os.close(1)
    relay.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
