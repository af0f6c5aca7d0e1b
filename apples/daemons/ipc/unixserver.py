"""The Unix socket of a daemon: one JSON object a line, one answer each. The kernel names the user of the other end.

The socket of a user's own daemon has mode 0600; that of a daemon for all users is open to every user of the host. Users
take turns: the requests of one delay those of another by a few milliseconds only. A request that fails is logged and
answered by a refusal; the daemon goes on.
"""

import os
import socket
import traceback
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from apples.daemons.ipc.eventloop import Alarm, Loop
from apples.daemons.ipc.listener import Listener, raise_descriptors
from apples.daemons.ipc.peers import peer
from apples.daemons.ipc.requests import Refusal
from apples.daemons.ipc.streams import Stream
from apples.daemons.ipc.timer import now
from apples.daemons.ipc.wire import OVERLONG, plain_line
from apples.errors import RequestRejected, SharingError
from nws.base.errors import ReportedError
from nws.base.ratelimit import RefusalLog

_BACKLOG = 1024
#: Part of the descriptors that the connections of one user may take.
_SHARE = 8
#: Seconds of one user's requests before the next user's turn.
_TURN_S = 0.005
#: Bytes of one user's requests that may wait for the user's turn, and cost of each beyond its text.
_WAITING_BYTES, _REQUEST_BYTES = 16 << 20, 512
#: Bytes of answers that may wait for a client that does not read.
_UNREAD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketLimits:
    """Limits of each user.

    connections : open ones.  line_bytes : of one request.  line_setting : its key in the settings, or empty
    own : the limit of connections holds for the daemon's own user, too
    """

    connections: int
    line_bytes: int
    line_setting: str = ""
    own: bool = True


@dataclass(slots=True, eq=False)
class Client:
    """One connection. `pid`, `uid`: the process that connected, and its user."""

    stream: Stream
    pid: int
    uid: int

    def send(self, line: bytes) -> None:
        """Send one line."""
        self.stream.send(line)

    def refuse(self, error: ReportedError) -> None:
        """Send the error of a rejected request, with its exit code."""
        # A message may quote a name with bytes that are no UTF-8.
        text = str(error).encode(errors="replace").decode()
        self.send(plain_line(Refusal(refused=text, code=error.exit_code)))

    def may_control(self, owner: int) -> bool:
        """Return whether this user may see and change things of the user `owner`."""
        return self.uid in (owner, os.geteuid(), 0)


@dataclass(slots=True)
class _Turn:
    """Requests of one user that wait for its turn."""

    lines: deque[tuple[Client, bytes]] = field(default_factory=deque)
    size: int = 0


class UnixServer:
    """A socket that listens at `path`, until `close`.

    all_users: users other than the daemon's own and root may connect.
    log: receives one text for each request that failed in the daemon, and few for refused users.
    on_line: receives client and text of each request. An error that it raises becomes the answer.
    on_close: receives each client whose connection has ended.
    """

    def __init__(
        self,
        loop: Loop,
        path: Path,
        *,
        all_users: bool,
        limits: SocketLimits,
        log: Callable[[str], None],
        on_line: Callable[[Client, bytes], None],
        on_close: Callable[[Client], None],
    ) -> None:
        """Start to listen; raise `SharingError` if that is not possible. The caller holds a lock for the path."""
        self._loop, self.path, self._limits, self._log = loop, path, limits, log
        self.log_refused = RefusalLog(log)
        self._all_users, self._on_line, self._on_close = all_users, on_line, on_close
        self._clients: set[Client] = set()
        self._connections: Counter[int] = Counter()
        self._most = min(limits.connections, max(raise_descriptors() // _SHARE, 1))
        self._turns: dict[int, _Turn] = {}
        self._due: Alarm | None = None
        self._listener = Listener(loop, _listening(path, all_users=all_users), self._accept)

    def close(self) -> None:
        """Close the socket and all connections. The path stays: clients that find it wait for the next daemon."""
        self._listener.close()
        for client in list(self._clients):
            client.stream.close()

    def guarded(self, client: Client, act: Callable[[], None]) -> None:
        """Call `act`. The client receives its error; one that is not for users is logged, and the daemon goes on."""
        try:
            act()
        except ReportedError as error:
            client.refuse(error)
        except Exception as error:
            # A defect of the daemon must not end it: it serves other clients.
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
        client = Client(stream=stream, pid=pid, uid=uid)
        self._clients.add(client)
        self._connections[uid] += 1
        # The kernel has named the user: no proof is needed on a Unix socket.
        stream.trust(self._limits.line_bytes)
        refused = self._stranger(client)
        if refused is not None:
            self.log_refused(f"user {uid}", f"refused: {refused}")
            client.refuse(RequestRejected(refused))
            stream.close()

    def _stranger(self, client: Client) -> str | None:
        """Return why this connection is refused, or None."""
        user = os.geteuid()
        if not self._all_users and not client.may_control(user):
            return f"this socket is of user {user}, you are user {client.uid}"
        limited = self._limits.own or client.uid != user
        if limited and self._connections[client.uid] > self._most:
            return f"user {client.uid} has {self._most} connections already (limits.connections); close some"
        return None

    def _receive(self, client: Client, line: bytes) -> None:
        turn = self._turns.setdefault(client.uid, _Turn())
        # An empty request costs memory, too.
        turn.size += len(line) + _REQUEST_BYTES
        if turn.size > _WAITING_BYTES + self._limits.line_bytes:
            client.stream.close("too many requests without waiting for their answers")
            return
        turn.lines.append((client, line))
        if self._due is None:
            # Not at once: requests of other users that have arrived meanwhile get into the same round.
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
            # Users without requests cost nothing.
            if not turn.lines:
                del self._turns[uid]
        if self._turns:
            self._due = self._loop.after(0.0, self._serve)

    def _request(self, client: Client, line: bytes) -> None:
        limits = self._limits
        if line == OVERLONG or len(line) > limits.line_bytes:
            setting = f" ({limits.line_setting})" if limits.line_setting else ""
            raise RequestRejected(
                f"a request of more than {limits.line_bytes} bytes{setting}; send a smaller one"
            )
        self._on_line(client, line)

    def _close(self, client: Client) -> None:
        self._clients.discard(client)
        self._connections[client.uid] -= 1
        if not self._connections[client.uid]:
            del self._connections[client.uid]
        self._on_close(client)


def _listening(path: Path, *, all_users: bool) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        # The caller holds the lock, so an existing socket was left by a daemon that was killed.
        with suppress(FileNotFoundError):
            # A socket's file outlives its process, and `bind` refuses a path that exists.
            path.unlink()
        # The socket has its mode from the start: between `bind` and `chmod` others could connect.
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
            f"{path}: no socket can be opened there ({error.strerror or error}); name another path with --socket"
        ) from error
    return listener
