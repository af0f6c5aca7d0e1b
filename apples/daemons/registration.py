"""The node manager's Unix socket, where processes register and commands ask for its state.

One JSON object per line, one answer each. A connection that has registered a process represents it: its end is CMDOUT.
It may send `schedule` (CMDSCH: a request is on its page), which has no answer.
Requests: `status` (this node), `view` (the whole machine), `job` (one job, also a recently ended one), `beats` (times
of the last heartbeats), `hold` (the node manager must not end). `RequestHandler` carries them out.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from apples.coscheduling.events import Process
from apples.daemons.paths import SYSTEM_DIRECTORY
from apples.daemons.processes import RegistrationRefused
from apples.ipc.listener import Listener
from apples.ipc.loop import Loop
from apples.ipc.peers import peer
from apples.ipc.streams import Stream
from apples.ipc.wire import Forged, Json, open_line, plain
from nws.base.ratelimit import RefusalLog

_BACKLOG = 1024
#: Limit of unsent bytes for a client that does not read.
_MOST_WAITING = 1 << 20
Answer = Callable[[Json], None]


class RequestHandler(Protocol):
    """The node manager as far as requests need it."""

    def register(self, request: object, connection: socket.socket) -> Process:
        """Register a process; raises `RegistrationRefused`."""

    def leave(self, process: Process) -> None:
        """Deregister a process after the end of its connection."""

    def requested(self) -> None:
        """Handle a message from a scheduled sender to a process that is not scheduled (CMDSCH)."""

    def ask(self, what: str, argument: object, answer: Answer) -> bool:
        """Answer a query, now or later; return False if `what` is no query."""


class RegistrationServer:
    """Listens at `path`.

    most_of_user : limit of connections of one other user, so that descriptors remain for all
    holding : connections that need the node manager.  log : receives few lines for refused users
    """

    def __init__(
        self,
        loop: Loop,
        path: Path,
        handler: RequestHandler,
        *,
        most_of_user: int,
        log: Callable[[str], object] = lambda line: None,
    ) -> None:
        self._log_refused = RefusalLog(log)
        self._loop, self._path, self._handler = loop, path, handler
        self._most_of_user = most_of_user
        self._of_user: Counter[int] = Counter()
        self.holding: set[Stream] = set()
        self._streams: dict[Stream, Process | None] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        # This process holds the journal's lock, so an existing socket was left by a killed node manager.
        with suppress(FileNotFoundError):
            path.unlink()
        self._listener.bind(str(path))
        path.chmod(0o666 if path.parent == SYSTEM_DIRECTORY else 0o600)
        self._listener.listen(_BACKLOG)
        self._accepting = Listener(loop, self._listener, self._connected)

    def end(self, process: Process) -> None:
        """Detach an ended process from its connection, if it has one."""
        for stream, one in self._streams.items():
            if one == process:
                self._streams[stream] = None

    def close(self) -> None:
        """Close the socket and all connections."""
        self._accepting.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        for stream in list(self._streams):
            self._streams[stream] = None
            stream.close()

    def _connected(self, connection: socket.socket) -> None:
        _, uid = peer(connection)
        if uid != os.geteuid() and self._of_user[uid] >= self._most_of_user:
            why = f"user {uid} has {self._most_of_user} connections here already; end some of them"
            self._log_refused(f"user {uid}", f"refused: {why}")
            with connection, suppress(OSError):
                connection.send(open_line({"refused": why}), socket.MSG_DONTWAIT)
            return
        stream = Stream(
            self._loop,
            connection,
            on_line=lambda line: self._line(stream, line),
            on_end=lambda reason: self._ended(stream, uid),
            most_waiting=_MOST_WAITING,
        )
        self._streams[stream] = None
        self._of_user[uid] += 1

    def _line(self, stream: Stream, line: bytes) -> None:
        def answer(document: Json) -> None:
            stream.send(open_line(document))

        try:
            request = plain(line)
        except Forged as error:
            answer({"refused": f"{error}; expected one JSON object a line"})
            return
        what, argument = next(iter(request.items()), ("", None))
        if what == "register":
            self._register(stream, argument, answer)
        elif what == "schedule" and self._streams[stream] is not None:
            # Not answered: it goes on meanwhile.
            self._handler.requested()
        elif what == "hold":
            self.holding.add(stream)
            answer({"held": {}})
        elif not self._handler.ask(what, argument, answer):
            answer({"refused": f"{what!r} is no request; legal are register, status, view, job, beats, hold"})

    def _register(self, stream: Stream, argument: object, answer: Answer) -> None:
        try:
            if self._streams[stream] is not None:
                raise RegistrationRefused("this connection stands for a process already; open one for each")
            process = self._handler.register(argument, stream.socket)
        except RegistrationRefused as error:
            self._log_refused(f"user {peer(stream.socket)[1]}", f"refused: {error}")
            answer({"refused": str(error)})
            return
        self._streams[stream] = process
        answer({"registered": {"job": process.job, "rank": process.rank}})

    def _ended(self, stream: Stream, uid: int) -> None:
        self._of_user[uid] -= 1
        if not self._of_user[uid]:
            del self._of_user[uid]
        self.holding.discard(stream)
        process = self._streams.pop(stream, None)
        if process is not None:
            self._handler.leave(process)
