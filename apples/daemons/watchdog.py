"""Resumes every process that a node manager holds when the node manager has ended or hangs.

Run as a bare script, `python -I -S watchdog.py SOCKET DEADLINE REALTIME`. The socket carries a descriptor for each
process (or for the file that thaws it) with its action, so no pid is looked up again. While any process is stopped,
the shared page DEADLINE holds the time by which the node manager will write a later one. That write costs the node
manager nothing, and no message wakes this process at every heartbeat. After the deadline, or at the end of the socket,
everything is resumed. It has a session of its own, so that signals to the node manager's do not reach it.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import sys
import time

if __name__ == "__main__":
    # `-I -S` leaves nothing but the standard library on the path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from apples.daemons.signalling import send

#: First byte of a message: hold a descriptor, let go of it, look at the deadline from now on.
HOLD, DROP, LOOK = b"+", b"-", b"."
READY = b"r"
#: The page holds one word: nanoseconds of the monotonic clock, 0 while nothing is stopped.
PAGE_BYTES = 8
#: While the node manager hangs everything is resumed again so often: it may wake up in the middle of stopping.
_AGAIN_MS = 250.0
#: Above everything that shares the processors for a living.
PRIORITY = 20


class Watchdog:
    """Held descriptors by key, each with its action."""

    def __init__(self, connection: int, page: int) -> None:
        import socket

        self._socket = socket.socket(fileno=connection)
        # As one word of 8 bytes: aligned loads of a word are never torn.
        self._deadline = memoryview(mmap.mmap(page, PAGE_BYTES, prot=mmap.PROT_READ)).cast("Q")
        self._held: dict[bytes, tuple[int, bytes]] = {}

    def run(self) -> None:
        """Run until the node manager has ended."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        # Processes may be stopped from here on.
        self._socket.send(READY)
        wait_ms = self._left_ms()
        while True:
            # Messages first: the descriptor of a process that is about to be stopped may be among them.
            if poll.poll(wait_ms):
                if not self._take():
                    # The socket has ended, so the node manager has, however it was killed.
                    self.resume()
                    return
                wait_ms = self._left_ms()
            else:
                wait_ms = self._left_ms()
                if wait_ms == 0:
                    self.resume()
                    wait_ms = _AGAIN_MS

    def resume(self) -> None:
        """Resume all processes; those that have ended are ignored."""
        for fd, action in self._held.values():
            try:
                # A value for the file of a control group; else a signal for the process.
                if action.startswith(b"w"):
                    os.pwrite(fd, action[1:], 0)
                else:
                    send(fd, signal.SIGCONT, int(action[1:]))
            except OSError:
                # It now belongs to another user, or its control group was removed: continue with the others.
                continue

    def _left_ms(self) -> float | None:
        """Return the time to the deadline; None if no process is stopped."""
        deadline = self._deadline[0]
        if deadline == 0:
            return None
        return max((deadline - time.monotonic_ns()) / 1e6, 0.0)

    def _take(self) -> bool:
        """Handle one message; return False at the end of the socket."""
        import socket

        try:
            # SOCK_SEQPACKET keeps messages apart, and each descriptor with its own.
            message, fds, _, _ = socket.recv_fds(self._socket, 4096, 1)
        except ConnectionError:
            return False
        kind, rest = message[:1], message[1:]
        if kind == HOLD and fds:
            key, _, action = rest.partition(b"\0")
            # A process gets new descriptors under its old key when its control changes.
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
    """Watch over the descriptors from the inherited socket `arguments[0]`, by the page `arguments[1]`."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        # Ends with the node manager and not before it.
        # A shutdown signals all processes at once; this one has to see the end of the others.
        signal.signal(number, signal.SIG_IGN)
    if int(arguments[2]):
        _become_realtime()
    Watchdog(int(arguments[0]), int(arguments[1])).run()


def _become_realtime() -> None:
    """Raise the priority as far as allowed; called only if the node manager itself was allowed to."""
    for priority in range(PRIORITY, 0, -1):
        try:
            # A limit (`ulimit -r`) may allow a lower priority only.
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        except PermissionError:
            continue
        return


if __name__ == "__main__":
    main(sys.argv[1:])
