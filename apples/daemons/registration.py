"""The node manager's door on its own host: a Unix socket where processes register and people ask.

One JSON object a line, one answer each. A connection that has registered a process stands for it: its end is CMDOUT;
it may say `schedule` (CMDSCH: a request is on its page), which is not answered.
What is asked: `status` (this node), `view` (the whole machine), `job` (one job, also one that has just ended), `beats`
(when the last ones came), `hold` (the node manager is needed). Decides nothing; `Desk` does.
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
from apples.daemons.processes import RegistrationRefused, peer
from apples.ipc.listener import Listener
from apples.ipc.loop import Loop
from apples.ipc.streams import Stream
from apples.ipc.wire import Forged, Json, open_line, plain

_BACKLOG = 1024
#: While so much waits for somebody who does not read, no more is said to him, bytes.
_MOST_WAITING = 1 << 20
Answer = Callable[[Json], None]


class RequestHandler(Protocol):
    """What the node manager does with those who come."""

    def register(self, request: object, connection: socket.socket) -> Process:
        """Take a process in; raises `Refused`."""

    def leave(self, process: Process) -> None:
        """Its connection has ended."""

    def requested(self) -> None:
        """A process has a message from one that is scheduled, and is not scheduled itself (CMDSCH)."""

    def ask(self, what: str, argument: object, answer: Answer) -> bool:
        """Answer a question, now or later; False where it is none."""


class RegistrationServer:
    """Listens at `path`.

    most_of_user : connections of one other user, so that he leaves some to the rest
    holding : connections that need the node manager to stay
    """

    def __init__(self, loop: Loop, path: Path, handler: RequestHandler, *, most_of_user: int) -> None:
        self._loop, self._path, self._handler = loop, path, handler
        self._most_of_user = most_of_user
        self._of_user: Counter[int] = Counter()
        self.holding: set[Stream] = set()
        self._streams: dict[Stream, Process | None] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        # The lock of the journal is ours: a socket that is still there was left by one that was killed.
        with suppress(FileNotFoundError):
            path.unlink()
        self._listener.bind(str(path))
        path.chmod(0o666 if path.parent == SYSTEM_DIRECTORY else 0o600)
        self._listener.listen(_BACKLOG)
        self._accepting = Listener(loop, self._listener, self._connected)

    def end(self, process: Process) -> None:
        """The process has ended: its connection, if it has one, stands for nothing any more."""
        for stream, one in self._streams.items():
            if one == process:
                self._streams[stream] = None

    def close(self) -> None:
        """Nobody is let in any more."""
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
