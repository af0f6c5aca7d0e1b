"""The manager's Unix socket: one JSON object a line, one answer each. The kernel reports the user of the other end.

The socket of a user's own manager has mode 0600. The socket of a manager for all users is open to every user of the
host. Users take turns: the requests of one delay those of another by a few milliseconds only. `apples.livequeue.server`
handles the requests.
"""

from __future__ import annotations

import os
import socket
import traceback
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apples.daemons.paths import private_directory
from apples.errors import RequestRejected, SharingError
from apples.ipc.listener import Listener, raise_descriptors
from apples.ipc.loop import Alarm, Loop
from apples.ipc.peers import peer
from apples.ipc.streams import Stream
from apples.ipc.timer import now
from apples.ipc.wire import OVERLONG
from apples.livequeue.models import Answer, read_request
from apples.queueing.configuration import LimitsSection
from nws.base.errors import ReportedError
from nws.base.ratelimit import RefusalLog

_BACKLOG = 1024
#: Part of the descriptors that the connections of one user may take.
_SHARE = 8
#: Seconds of one user's requests before the next user's turn, and bytes of requests that may wait for it.
_TURN_S, _WAITING_BYTES = 0.005, 16 << 20
#: Cost of a waiting request beyond its text, and bytes of answers that may wait for a client that does not read.
_REQUEST_BYTES, _UNREAD_BYTES = 512, 1 << 20


@dataclass(slots=True, eq=False)
class ClientConnection:
    """One connection. `pid`, `uid`: the process that connected, and its user."""

    stream: Stream
    pid: int
    uid: int

    def answer(self, **values: Any) -> None:
        """Send one line. `values`: those of `apples.livequeue.models.Answer`."""
        self.stream.send(Answer(**values).line())

    def refuse(self, error: ReportedError) -> None:
        """Send the error of a rejected request."""
        self.answer(refused=str(error), code=error.exit_code)

    def may_control(self, owner: int) -> bool:
        """Return whether this user may see and cancel jobs of the user `owner`."""
        return self.uid in (owner, os.geteuid(), 0)


@dataclass(slots=True)
class _Turn:
    """Requests of one user that wait for its turn."""

    lines: deque[tuple[ClientConnection, bytes]] = field(default_factory=deque)
    size: int = 0


class QueueListener:
    """A socket that listens at `path`.

    limits: of each user.
    log: receives one line for each request that failed in the manager, and few for refused users.
    on_request: receives client, request and argument of each line. An error that it raises becomes the answer.
    on_close: receives each client that closed its connection.
    """

    def __init__(
        self,
        loop: Loop,
        path: Path,
        *,
        all_users: bool,
        limits: LimitsSection,
        log: Callable[[str], None],
        on_request: Callable[[ClientConnection, str, Any], None],
        on_close: Callable[[ClientConnection], None],
    ) -> None:
        """Start to listen; raise `SharingError` if that is not possible."""
        self._loop, self.path, self._limits, self._log = loop, path, limits, log
        self._log_refused = RefusalLog(log)
        self._all_users, self._on_request, self._on_close = all_users, on_request, on_close
        self._clients: set[ClientConnection] = set()
        self._connections: Counter[int] = Counter()
        self._most = min(limits.connections, max(raise_descriptors() // _SHARE, 1))
        self._turns: dict[int, _Turn] = {}
        self._due: Alarm | None = None
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
        """Close the socket and all connections. The path stays: clients that find it wait for the next manager."""
        self._listener.close()
        for client in list(self._clients):
            client.stream.close()

    def guarded(self, client: ClientConnection, act: Callable[[], None]) -> None:
        """Call `act`. The client receives its error; one that is not for users is logged, and the manager goes on."""
        try:
            act()
        except ReportedError as error:
            client.refuse(error)
        except Exception as error:
            # A defect of the manager must not end it: the queue serves other clients.
            self._log(f"a request of user {client.uid} failed: \n{traceback.format_exc()}")
            client.refuse(
                SharingError(f"the manager failed to answer ({type(error).__name__}); its log has the reason")
            )

    def _accept(self, connection: socket.socket) -> None:
        pid, uid = peer(connection)
        stream = Stream(
            self._loop,
            connection,
            on_line=lambda line: self._receive(client, line),
            on_end=lambda reason: self._close(client),
            most_waiting=_UNREAD_BYTES,
            drop_overlong=True,
        )
        client = ClientConnection(stream=stream, pid=pid, uid=uid)
        self._clients.add(client)
        self._connections[uid] += 1
        stream.trust(self._limits.job_bytes)
        refused = self._stranger(client)
        if refused is not None:
            self._log_refused(f"user {client.uid}", f"refused: {refused}")
            client.refuse(RequestRejected(refused))
            stream.close()

    def _stranger(self, client: ClientConnection) -> str | None:
        """Return why this connection is refused, or None."""
        if not self._all_users and not client.may_control(os.geteuid()):
            return f"this queue is of user {os.geteuid()}, you are user {client.uid}"
        if self._connections[client.uid] > self._most:
            return f"user {client.uid} has {self._most} connections already (limits.connections); close some"
        return None

    def _receive(self, client: ClientConnection, line: bytes) -> None:
        turn = self._turns.setdefault(client.uid, _Turn())
        turn.size += len(line) + _REQUEST_BYTES
        if turn.size > _WAITING_BYTES + self._limits.job_bytes:
            client.stream.close("too many requests without waiting for their answers")
            return
        turn.lines.append((client, line))
        if self._due is None:
            self._due = self._loop.after(0.0, self._serve)

    def _serve(self) -> None:
        """Give each user with requests one turn."""
        self._due = None
        for uid, turn in list(self._turns.items()):
            until = now() + _TURN_S
            while turn.lines and now() < until:
                client, line = turn.lines.popleft()
                turn.size -= len(line) + _REQUEST_BYTES
                self.guarded(client, lambda client=client, line=line: self._request(client, line))  # type: ignore[misc]
            if not turn.lines:
                del self._turns[uid]
        if self._turns:
            self._due = self._loop.after(0.0, self._serve)

    def _request(self, client: ClientConnection, line: bytes) -> None:
        if line == OVERLONG or len(line) > self._limits.job_bytes:
            raise RequestRejected(
                f"a request of more than {self._limits.job_bytes} bytes (limits.job_bytes); submit a smaller command "
                "or environment"
            )
        self._on_request(client, *read_request(line))

    def _close(self, client: ClientConnection) -> None:
        self._clients.discard(client)
        self._connections[client.uid] -= 1
        if not self._connections[client.uid]:
            del self._connections[client.uid]
        self._on_close(client)
