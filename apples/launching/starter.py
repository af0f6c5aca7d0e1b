"""The command that starts the ranks of several hosts: `mpiexec` or `srun`, its remote shells, and its end.

The remote shells of `mpiexec` pass their commands to the launcher on a socket, and receive the exit codes.
"""

import contextlib
import json
import os
import secrets
import select
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from apples.launching.command import with_parent_death

#: Seconds that the command may take to end when no process is left on any host.
LEFT_BEHIND_S = 2.0


class RemoteShellServer:
    """Socket of one launch on which remote shells deliver their commands; readable when there is work.

    name : of the abstract socket. It is random, and only processes of the same user are accepted
    """

    def __init__(self, *, shell: bool = False) -> None:
        """shell : commands are run by a shell; else their words, quoted for a shell, are the command."""
        self._shell = shell
        # Abstract: it has no file that a killed launcher could leave, and no path of limited length.
        self.name = f"apples-{secrets.token_hex(16)}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self.name)
        self._listener.listen(128)
        # One descriptor for the caller to wait on, for the listener and all shells that have connected.
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._accepted: dict[int, socket.socket] = {}
        self._waiting: dict[int, tuple[str, socket.socket]] = {}
        self._orders = 0

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._poll.fileno()

    def orders(self) -> list[tuple[int, str, list[str]]]:
        """Return the new orders, each as (number, host, command)."""
        orders = []
        for fd, _ in self._poll.poll(0):
            if fd == self._listener.fileno():
                self._accept()
            else:
                # A shell sends its order at once and nothing afterwards, so each descriptor is readable once.
                orders += self._read(self._accepted.pop(fd))
        return orders

    def answer(self, number: int, code: int) -> None:
        """Send the exit code of an order to its remote shell."""
        _, connection = self._waiting.pop(number, ("", None))
        if connection is not None:
            # The remote shell may have ended.
            with contextlib.suppress(OSError):
                connection.sendall(str(code & 0xFF).encode())
            connection.close()

    def host_lost(self, host: str) -> None:
        """Answer every order for a host with 255, as ssh does when its connection breaks."""
        for number in [n for n, (name, _) in self._waiting.items() if name == host]:
            # Else `mpiexec` would wait for the proxy of that host, and the run for `mpiexec`.
            self.answer(number, 255)

    def close(self) -> None:
        """Close all connections."""
        for connection in [*self._accepted.values(), *(c for _, c in self._waiting.values())]:
            connection.close()
        self._listener.close()
        self._poll.close()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        # Every user can read the name in /proc/net/unix; the user at the other end is named by the kernel.
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if int.from_bytes(credentials[4:8], sys.byteorder) != os.getuid():
            connection.close()
            return
        self._accepted[connection.fileno()] = connection
        self._poll.register(connection, select.EPOLLIN)

    def _read(self, connection: socket.socket) -> list[tuple[int, str, list[str]]]:
        """Read one line with a host and a command; an empty list if the remote shell has ended."""
        self._poll.unregister(connection)
        line = b""
        # This may block for a moment: the rest of a long line is on its way already.
        while not line.endswith(b"\n") and (data := connection.recv(1 << 16)):
            line += data
        if not line:
            connection.close()
            return []
        order = json.loads(line)
        number, self._orders = self._orders, self._orders + 1
        self._waiting[number] = (order["host"], connection)
        # ssh joins the words, and the shell on the host splits them: hydra quotes its words for that.
        text = " ".join(order["command"])
        return [(number, order["host"], ["/bin/sh", "-c", text] if self._shell else shlex.split(text))]


class Starter:
    """The process of the command. It dies with the launcher.

    shells : its remote shells.  fd : readable when the process has ended.  over : it was seen to end
    kill_at : when it will be killed (`time.monotonic`), None for not yet known
    """

    def __init__(
        self, command: list[str], environment: Callable[[str], Mapping[str, str]], log: Path, *, shell: bool
    ) -> None:
        """Start it; raises `OSError`.

        Args:
            environment: builds its environment from the name of the socket for its remote shells
            log: file for its output
            shell: its remote shells are given texts for a shell
        """
        self.over = False
        self.kill_at: float | None = None
        self.shells = RemoteShellServer(shell=shell)
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    # The kernel kills it with this launcher, also after SIGKILL.
                    with_parent_death(command, os.getpid()),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment(self.shells.name),
                    # A Ctrl-C at the terminal must reach the ranks once, through the launcher.
                    start_new_session=True,
                )
        except OSError:
            self.shells.close()
            raise
        # It has not been waited for, so its process id cannot belong to another process.
        self.fd = os.pidfd_open(self._process.pid)

    def end_soon(self) -> bool:
        """Return whether it has ended. If not, it is killed soon: no process is left on any host."""
        if self.kill_at is None:
            self.kill_at = time.monotonic() + LEFT_BEHIND_S
        return self.over

    def check_time(self) -> None:
        """Kill it if its time is over."""
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.kill()

    def kill(self) -> None:
        """Kill it if it runs."""
        self._process.kill()

    def close(self) -> int:
        """Kill it if it runs, and close its remote shells; return its exit code, negative for a signal."""
        self._process.kill()
        code = self._process.wait()
        os.close(self.fd)
        self.shells.close()
        return code
