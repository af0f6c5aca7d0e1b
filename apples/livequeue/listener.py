"""The manager's Unix socket: one JSON object a line, one answer each; the kernel says who is at the other end.

A socket of a user's own manager has mode 0600; one that serves everybody is open to all users of the host. What is
asked is decided in `apples.livequeue.server`.
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
from apples.daemons.processes import peer
from apples.errors import SharingError
from apples.ipc import listener as door
from apples.ipc.loop import Loop
from apples.ipc.streams import Stream
from apples.ipc.wire import LONGEST_LINE, Forged, Json, plain

_BACKLOG = 1024


@dataclass(slots=True, eq=False)
class ClientConnection:
    """One connection. uid : of the process that connected"""

    stream: Stream
    uid: int

    def answer(self, document: Json) -> None:
        """One line."""
        self.stream.send(json.dumps(document).encode() + b"\n")


class QueueListener:
    """Listens at `path`. asked : gets visitor, request and argument of each line.  left : hears who has hung up

    Raises `SharingError` where it cannot listen.
    """

    def __init__(
        self,
        loop: Loop,
        path: Path,
        *,
        everybody: bool,
        asked: Callable[[ClientConnection, str, object], None],
        left: Callable[[ClientConnection], None],
    ) -> None:
        self._loop, self.path = loop, path
        self._everybody, self._asked, self._left = everybody, asked, left
        self._visitors: set[ClientConnection] = set()
        private_directory(path.parent)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            # The store's lock is ours: a socket that is still there was left by a manager that was killed.
            with suppress(FileNotFoundError):
                path.unlink()
            before = os.umask(0o177)
            try:
                listener.bind(str(path))
            finally:
                os.umask(before)
            if everybody:
                path.chmod(0o666)
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            raise SharingError(
                f"{path}: the queue cannot listen there ({error.strerror or error}); name another place with --socket"
            ) from error
        self._door = door.Listener(loop, listener, self._came)

    def close(self) -> None:
        """Nobody is let in any more."""
        self._door.close()
        with suppress(FileNotFoundError):
            self.path.unlink()
        for visitor in list(self._visitors):
            visitor.stream.close()

    def _came(self, connection: socket.socket) -> None:
        _, uid = peer(connection)
        stream = Stream(
            self._loop,
            connection,
            on_line=lambda line: self._heard(visitor, line),
            on_end=lambda reason: self._ended(visitor),
        )
        visitor = ClientConnection(stream=stream, uid=uid)
        self._visitors.add(visitor)
        stream.trust(LONGEST_LINE)
        if not self._everybody and uid not in (os.geteuid(), 0):
            visitor.answer({"refused": f"this queue is of user {os.geteuid()}, you are user {uid}"})
            stream.close()

    def _heard(self, visitor: ClientConnection, line: bytes) -> None:
        try:
            request = plain(line)
        except Forged as error:
            visitor.answer({"refused": f"{error}; expected one JSON object a line"})
            return
        what, argument = next(iter(request.items()), ("", None))
        self._asked(visitor, what, argument)

    def _ended(self, visitor: ClientConnection) -> None:
        self._visitors.discard(visitor)
        self._left(visitor)
