"""The manager's Unix socket: one JSON object a line, one answer each. The kernel reports the user of the other end.

The socket of a user's own manager has mode 0600. The socket of a manager for all users is open to every user of the
host. `apples.livequeue.server` handles the requests.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from apples.daemons.paths import private_directory
from apples.errors import RequestRejected, SharingError
from apples.ipc.listener import Listener
from apples.ipc.loop import Loop
from apples.ipc.peers import peer
from apples.ipc.streams import Stream
from apples.ipc.wire import LONGEST_LINE, Forged, Json, plain
from nws.base.errors import ReportedError

_BACKLOG = 1024


def refusal_document(error: ReportedError) -> Json:
    """Return the answer to a rejected request. Its value `code` is the error's exit code."""
    return {"refused": str(error), "code": error.exit_code}


@dataclass(slots=True, eq=False)
class ClientConnection:
    """One connection. `uid`: user of the process that connected."""

    stream: Stream
    uid: int

    def answer(self, document: Json) -> None:
        """Send one line."""
        self.stream.send(json.dumps(document).encode() + b"\n")

    def refuse(self, error: ReportedError) -> None:
        """Send the error of a rejected request."""
        self.answer(refusal_document(error))

    def may_control(self, owner: int) -> bool:
        """Return whether this user may see and cancel jobs of the user `owner`."""
        return self.uid in (owner, os.geteuid(), 0)


class QueueListener:
    """A socket that listens at `path`.

    on_request: receives client, request and argument of each line.
    on_close: receives each client that closed its connection.
    """

    def __init__(
        self,
        loop: Loop,
        path: Path,
        *,
        all_users: bool,
        on_request: Callable[[ClientConnection, str, object], None],
        on_close: Callable[[ClientConnection], None],
    ) -> None:
        """Start to listen; raise `SharingError` if that is not possible."""
        self._loop, self.path = loop, path
        self._all_users, self._on_request, self._on_close = all_users, on_request, on_close
        self._clients: set[ClientConnection] = set()
        private_directory(path.parent)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            # This process holds the store's lock: an existing socket was left by a manager that was killed.
            with suppress(FileNotFoundError):
                path.unlink()
            before = os.umask(0o177)
            try:
                listener.bind(str(path))
            finally:
                os.umask(before)
            if all_users:
                path.chmod(0o666)
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            raise SharingError(
                f"{path}: the queue cannot listen there ({error.strerror or error}); name another path with --socket"
            ) from error
        self._listener = Listener(loop, listener, self._accept)

    def close(self) -> None:
        """Remove the socket and close all connections."""
        self._listener.close()
        with suppress(FileNotFoundError):
            self.path.unlink()
        for client in list(self._clients):
            client.stream.close()

    def _accept(self, connection: socket.socket) -> None:
        _, uid = peer(connection)
        stream = Stream(
            self._loop,
            connection,
            on_line=lambda line: self._receive(client, line),
            on_end=lambda reason: self._close(client),
        )
        client = ClientConnection(stream=stream, uid=uid)
        self._clients.add(client)
        stream.trust(LONGEST_LINE)
        if not self._all_users and not client.may_control(os.geteuid()):
            client.refuse(RequestRejected(f"this queue is of user {os.geteuid()}, you are user {uid}"))
            stream.close()

    def _receive(self, client: ClientConnection, line: bytes) -> None:
        try:
            document = plain(line)
        except Forged as error:
            client.refuse(RequestRejected(f"{error}; expected one JSON object a line"))
            return
        request, argument = next(iter(document.items()), ("", None))
        self._on_request(client, request, argument)

    def _close(self, client: ClientConnection) -> None:
        self._clients.discard(client)
        self._on_close(client)
