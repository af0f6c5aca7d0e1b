"""A rank supervisor's connection to the node manager of its host. Imported by the supervisor, so it imports little.

For policies that need no monitor in the program, the connection registers the program and represents it: its end
reports to the node manager that the rank has ended. A program with a monitor registers by itself; then the connection
only holds the node manager. Either way its end makes the supervisor resume the program: the node manager, and perhaps
its watchdog, has ended while it held the program stopped.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Seconds a node manager may take to answer; the program runs meanwhile, and without it.
PATIENCE_S = 2.0
#: Seconds between attempts to hold a new node manager after the end of one.
HOLD_AGAIN_S = 0.25

_SOCKET, _JOB, _PAGES = "APPLES_NODE_SOCKET", "APPLES_JOB", "APPLES_MONITOR"


class NodeHold:
    """The connection of one rank to the node manager of its host, made again after the end of one.

    Without a node manager in the environment, or after a refusal, there is none.

    fd : readable when the node manager has ended, -1 without one
    """

    def __init__(self) -> None:
        self.fd = -1
        self._rank, self._program, self._again_at = 0, 0, 0.0

    def begin(self, rank: int, program: int) -> None:
        """Register a program if the environment names a node manager and a job; raises `OSError` if it is refused."""
        self._rank, self._program = rank, program
        if os.environ.get(_SOCKET) and os.environ.get(_JOB):
            self.fd = register(os.environ, rank, program)

    def left_s(self) -> float | None:
        """Return the seconds until `resume` is due, None if it is not."""
        return max(self._again_at - time.monotonic(), 0.0) if self._again_at else None

    def lose(self) -> None:
        """Close the connection to a node manager that has ended."""
        os.close(self.fd)
        # A node manager that is restarted needs a moment, and all ranks of a host ask for it.
        self.fd, self._again_at = -1, time.monotonic() + HOLD_AGAIN_S

    def resume(self) -> bool:
        """Hold the next node manager, to notice its end as well; return False if there is none yet."""
        try:
            self.fd = register(os.environ, self._rank, self._program, adopted=True)
        except OSError:
            # After the attempt, which may have taken long.
            self._again_at = time.monotonic() + HOLD_AGAIN_S
            return False
        self._again_at = 0.0
        return True


def register(environment: Mapping[str, str], rank: int, pid: int, *, adopted: bool = False) -> int:
    """Return the descriptor of a connection that ends with the node manager; raises `OSError` after a refusal.

    Args:
        adopted: the node manager has adopted the program of an earlier one, and is only to be held
    """
    import _socket

    path, job = environment[_SOCKET], environment[_JOB]
    ranks = int(environment.get("PMI_SIZE", "1"))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        # A node manager that hangs must not keep a rank from its work.
        connection.settimeout(PATIENCE_S)
        connection.connect(path)
        # Names of jobs hold nothing that JSON would have to write otherwise; json itself takes long to import.
        line = f'{{"register":{{"job":"{job}","rank":{rank},"ranks":{ranks},"pid":{pid},"page":null}}}}\n'
        if adopted or environment.get(_PAGES):
            line = '{"hold":null}\n'
        connection.send(line.encode())
        answer = connection.recv(4096).decode("utf-8", "replace")
        if not answer.startswith(('{"registered"', '{"held"')):
            raise OSError(0, answer.strip() or "it has ended")
        # The descriptor is only waited for.
        connection.setblocking(False)
        # The `finally` below closes the original.
        return os.dup(connection.fileno())
    finally:
        connection.close()
