"""The node manager's side of its watchdog: starts it, sends it the held descriptors, restarts it when it dies.

While no watchdog runs, `ready` is False and no process may be stopped.
"""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from apples.daemons.ipc.eventloop import Loop
from apples.daemons.watchdog import DROP, HOLD, LOOK, PAGE_BYTES, READY

_SCRIPT = Path(__file__).with_name("watchdog.py")
#: Seconds before the next attempt if a watchdog died at once.
_RETRY_S = 1.0
#: Seconds a watchdog may take to accept one more process before it is replaced.
_SEND_S = 1.0


class WatchdogClient:
    """Connection to the watchdog process. `changed`: called when the value of `ready` has changed"""

    def __init__(
        self,
        loop: Loop,
        *,
        realtime: bool,
        log: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._loop, self._log, self._changed = loop, log, changed
        self._realtime = str(int(realtime))
        self._held: dict[str, tuple[int, bytes]] = {}
        # Memory without a file name, which ends with its last descriptor.
        self._page_fd = os.memfd_create("watchdog", os.MFD_CLOEXEC)
        os.ftruncate(self._page_fd, PAGE_BYTES)
        # One 8-byte store, so that the watchdog never reads half a value.
        self._deadline = memoryview(mmap.mmap(self._page_fd, PAGE_BYTES)).cast("Q")
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self.ready = False
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the watchdog, None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start a watchdog and send it all held descriptors; `ready` becomes True when it answers."""
        # Its end is the news of this process's death, which the kernel delivers after any signal.
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            fds = (far.fileno(), self._page_fd)
            command = [sys.executable, "-I", "-S", str(_SCRIPT), *map(str, fds), self._realtime]
            self._process = subprocess.Popen(
                command,
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                # Signals to the node manager's group or session must not end it.
                start_new_session=True,
            )
        near.setblocking(False)
        self._socket = near
        self._loop.watch(near.fileno(), self._receive)
        for key in list(self._held):
            # A new watchdog knows none of the processes that the last one held.
            self._send_held(key)

    def hold(self, key: str, fd: int, action: bytes) -> None:
        """Have the watchdog carry out `action` on `fd` when this process has ended or hangs."""
        self._held[key] = (fd, action)
        self._send_held(key)

    def drop(self, key: str) -> None:
        """Release a held descriptor."""
        if self._held.pop(key, None) is not None:
            self._send(DROP + key.encode())

    def stopping(self, deadline: float) -> None:
        """Arm the watchdog: it resumes all processes unless called again before `deadline` (CLOCK_MONOTONIC)."""
        looks = self._deadline[0] != 0
        # Stored before any process is stopped.
        self._deadline[0] = int(deadline * 1e9)
        if not looks:
            self._send(LOOK)

    def running(self) -> None:
        """Disarm the watchdog, because no process is stopped."""
        # No message: the watchdog finds the zero when its present deadline is over.
        self._deadline[0] = 0

    def close(self) -> None:
        """Have the watchdog resume all processes a last time, and end it."""
        self._end()
        if not self._closed:
            self._closed = True
            self._deadline.release()
            os.close(self._page_fd)

    def _end(self) -> None:
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                # It resumes everything at the end of its socket, and then ends by itself.
                self._process.wait(_SEND_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        self.ready = False

    def _send_held(self, key: str) -> None:
        fd, action = self._held[key]
        if self._socket is None:
            return
        message = HOLD + key.encode() + b"\0" + action
        try:
            # Wait for a full socket: the watchdog cannot resume a process that it does not know.
            self._socket.settimeout(_SEND_S)
            socket.send_fds(self._socket, [message], [fd])
            self._socket.setblocking(False)
        except OSError:
            # A watchdog that does not know all processes is worse than none: without one nothing is stopped.
            self._died()

    def _send(self, message: bytes) -> None:
        # The end of the watchdog shows as the end of the stream.
        if self._socket is not None:
            with suppress(OSError):
                self._socket.send(message)

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            message = self._socket.recv(16)
        except BlockingIOError:
            return
        except ConnectionError:
            message = b""
        if message == READY:
            self.ready = True
            self._changed()
        elif not message:
            self._died()

    def _died(self) -> None:
        # One that never answered would be started again without end.
        stood = self.ready
        self._end()
        self._changed()
        if stood:
            self._log("the watchdog has died; nothing is stopped until another stands")
            self.start()
        else:
            self._log(f"no watchdog can be started; nothing is stopped, trying again in {_RETRY_S:g} s")
            self._loop.after(_RETRY_S, self.start)
