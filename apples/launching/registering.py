"""A rank supervisor's connection to the node manager of its host. Imported by the supervisor, so it imports little.

For policies that need no monitor in the program, the connection registers the program and represents it: its end
reports to the node manager that the rank has ended. A program with a monitor registers by itself; then the connection
only holds the node manager. Either way its end makes the supervisor resume the program: the node manager, and perhaps
its watchdog, has ended while it held the program stopped.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Seconds a node manager may take to answer; the program runs meanwhile, and without it.
PATIENCE_S = 2.0

_SOCKET, _JOB, _PAGES = "APPLES_NODE_SOCKET", "APPLES_JOB", "APPLES_MONITOR"


def wanted(environment: Mapping[str, str]) -> bool:
    """Return whether to connect: the environment names a node manager and a job."""
    return bool(environment.get(_SOCKET) and environment.get(_JOB))


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
        connection.setblocking(False)
        return os.dup(connection.fileno())
    finally:
        connection.close()
