"""Resumes every process that a node manager holds when the node manager is gone or hangs. Nothing else.

Run as a bare script, `python -I -S watchdog.py SOCKET STAMP PATIENCE_MS REALTIME`. Over the socket come a descriptor
for each process (or for the file that thaws it) and what to do with it, so no pid is ever looked up again. In the
shared page STAMP stands when the node manager was last alive while anything was stopped; to write it costs the node
manager nothing, and no message wakes us at every tick. When the stamp is older than `PATIENCE_MS`, or the socket
ends, everything is resumed. It stands in a session of its own: what kills the node manager's does not reach it.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import struct
import sys
import time

if __name__ == "__main__":
    # `-I -S` leaves nothing but the standard library on the path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from apples.daemons.signalling import send

#: First byte of a message: hold a descriptor, let go of it, look at the stamp from now on.
HOLD, DROP, LOOK = b"+", b"-", b"."
READY = b"r"
#: The stamp: nanoseconds of the monotonic clock, written at one stroke; 0 while nothing is stopped.
STAMP = struct.Struct("@Q")

#: Above everything that shares the processors for a living.
PRIORITY = 20


class Watchdog:
    """What is held, by key: a descriptor, and what to do with it."""

    def __init__(self, connection: int, stamp: int, patience_ms: float) -> None:
        import socket

        self._socket = socket.socket(fileno=connection)
        self._page = mmap.mmap(stamp, STAMP.size, prot=mmap.PROT_READ)
        self._patience_ms = patience_ms
        self._held: dict[bytes, tuple[int, bytes]] = {}
        #: The stamp at which everything was resumed: once is enough.
        self._resumed_at = 0

    def run(self) -> None:
        """Until the node manager is gone."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        self._socket.send(READY)
        while True:
            if poll.poll(self._wait_ms()):
                if not self._take():
                    self.resume()
                    return
            elif self._wait_ms() == 0:
                self._resumed_at = self._stamp()
                self.resume()

    def resume(self) -> None:
        """Everything runs; what has ended meanwhile does not matter."""
        for fd, action in self._held.values():
            try:
                if action.startswith(b"w"):
                    os.pwrite(fd, action[1:], 0)
                else:
                    send(fd, signal.SIGCONT, int(action[1:]))
            except OSError:
                # Somebody else's by now, or its control group is gone: the next ones count.
                continue

    def _stamp(self) -> int:
        stamp: int = STAMP.unpack_from(self._page)[0]
        return stamp

    def _wait_ms(self) -> float | None:
        """How long the node manager may stay silent from now; None: nothing is stopped."""
        stamp = self._stamp()
        if stamp == 0:
            return None
        if stamp == self._resumed_at:
            return self._patience_ms
        return max(self._patience_ms - (time.monotonic_ns() - stamp) / 1e6, 0.0)

    def _take(self) -> bool:
        """One message; False at the end."""
        import socket

        try:
            message, fds, _, _ = socket.recv_fds(self._socket, 4096, 1)
        except ConnectionError:
            return False
        kind, rest = message[:1], message[1:]
        if kind == HOLD and fds:
            key, _, action = rest.partition(b"\0")
            self._drop(key)
            self._held[key] = (fds[0], action)
        elif kind == DROP:
            self._drop(rest)
        return bool(message)

    def _drop(self, key: bytes) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            os.close(held[0])


def main(arguments: list[str]) -> None:
    """Watch over what comes through the inherited socket `arguments[0]`, by the page `arguments[1]`."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        # Ends with the node manager and not before it.
        signal.signal(number, signal.SIG_IGN)
    if int(arguments[3]):
        # Only asked for where the node manager itself was allowed to.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    Watchdog(int(arguments[0]), int(arguments[1]), float(arguments[2])).run()


if __name__ == "__main__":
    main(sys.argv[1:])
