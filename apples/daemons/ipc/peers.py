"""The other end of a connection: credentials of its process on a Unix socket, and its address.

A server asks for `peer` of each connection. A client connects with `connect_trusted` before it sends a byte: another
user may have made the socket first, and would receive all that is sent to it.
"""

import os
import socket
import struct
from pathlib import Path

from apples.errors import SharingError

_CREDENTIALS = struct.Struct("3i")


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return (pid, uid) of the process at the other end of a Unix socket, at the time of its connect or listen."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid


def peer_address(connection: socket.socket) -> str:
    """Return the numeric address at the other end of a connection of the network, "unknown" if it has gone."""
    try:
        return str(connection.getpeername()[0])
    except OSError:
        return "unknown"


def connect_trusted(path: Path, *, timeout_s: float, remedy: str) -> socket.socket:
    """Return a stream connected to a Unix socket on which this user or root listens.

    timeout_s : seconds for the connect and each later call.  remedy : the end of the message of a refusal
    Raises `OSError` if no process listens, `SharingError` if another user does.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(str(path))
        # Of the process that listens, as the kernel saw it: no byte has been sent yet.
        _, uid = peer(connection)
        if uid not in (os.geteuid(), 0):
            raise SharingError(
                f"{path}: user {uid} listens there; expected user {os.geteuid()} or root. {remedy}"
            )
    except BaseException:
        connection.close()
        raise
    return connection
