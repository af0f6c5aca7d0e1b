"""Registers a rank's program with the node manager of its host, for policies that do not need the monitor in it.

The connection stands for the program: its end tells the node manager that the rank is gone, and the end of the node
manager tells the keeper to let the program run. Imported by the keeper, so it imports little.
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
    """Whether the keeper is to register: a node manager is named, and the program has no monitor that does it."""
    return bool(environment.get(_SOCKET) and environment.get(_JOB)) and not environment.get(_PAGES)


def register(environment: Mapping[str, str], rank: int, pid: int) -> int:
    """Descriptor of the connection that stands for the program; raises `OSError` with the reason if it is refused."""
    import _socket

    path, job = environment[_SOCKET], environment[_JOB]
    ranks = int(environment.get("PMI_SIZE", "1"))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(PATIENCE_S)
        connection.connect(path)
        # Names of jobs hold nothing that JSON would have to write otherwise; json itself takes long to import.
        line = f'{{"register":{{"job":"{job}","rank":{rank},"ranks":{ranks},"pid":{pid},"page":null}}}}\n'
        connection.send(line.encode())
        answer = connection.recv(4096).decode("utf-8", "replace")
        if not answer.startswith('{"registered"'):
            raise OSError(0, answer.strip() or "it has ended")
        connection.setblocking(False)
        return os.dup(connection.fileno())
    finally:
        connection.close()
