"""The node manager's Unix socket, where processes register and commands ask for its state.

One JSON object per line, one answer each. A connection that has registered a process represents it: its end is CMDOUT.
It may send `schedule` (CMDSCH: a request is on its page), which has no answer.
Requests: `status` (this node), `view` (the whole machine), `job` (one job, also a recently ended one), `beats` (times
of the last heartbeats), `hold` (the node manager must not end). `NodeDaemon` carries them out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from apples.coscheduling.events import Process
from apples.daemons.exchanges import NODE_REQUESTS, Held, RegisteredProcess
from apples.daemons.ipc.eventloop import Loop
from apples.daemons.ipc.requests import read_request
from apples.daemons.ipc.unixserver import Client, SocketLimits, UnixServer
from apples.daemons.ipc.wire import UNTRUSTED_LINE, plain_line
from apples.daemons.paths import SYSTEM_DIRECTORY
from apples.daemons.processes import RegistrationRefused
from apples.errors import RequestRejected

if TYPE_CHECKING:
    from apples.daemons.nodedaemon import NodeDaemon

#: Receives the answer to a request, of the type that `NODE_REQUESTS` has.
Answer = Callable[[object], None]


#: Keys of answers that differ from their requests'; programs with the monitor and rank supervisors know them.
_ANSWERED = {"register": "registered", "hold": "held"}


class RegistrationServer:
    """Listens at `path`, in the system's directory for all users.

    most_of_user : limit of connections of one other user.  log : gets a text for each request that failed
    """

    def __init__(
        self,
        loop: Loop,
        path: Path,
        node: NodeDaemon,
        *,
        most_of_user: int,
        all_users: bool = False,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._node = node
        self._holding: set[Client] = set()
        self._needed = False
        self._registered: dict[Client, Process] = {}
        self._server = UnixServer(
            loop,
            path,
            all_users=all_users or path.parent == SYSTEM_DIRECTORY,
            # The user of this node manager is not limited: its own runs may have thousands of ranks here.
            limits=SocketLimits(connections=most_of_user, line_bytes=UNTRUSTED_LINE, own=False),
            log=log,
            on_line=self._line,
            on_close=self._ended,
        )

    def needed(self) -> bool:
        """Return whether any connection has held the node manager or registered a process since the last call."""
        needed, self._needed = self._needed or bool(self._holding), False
        return needed

    def end(self, process: Process) -> None:
        """Detach an ended process from its connection, if it has one."""
        for client, one in list(self._registered.items()):
            if one == process:
                del self._registered[client]

    def close(self) -> None:
        """Close the socket and all connections."""
        # The ends of connections below are no ends of processes.
        self._registered.clear()
        self._server.close()
        with suppress(FileNotFoundError):
            os.unlink(self._server.path)

    def _line(self, client: Client, line: bytes) -> None:
        if not client.stream.open:
            # It has left meanwhile, and a process that it stands for with it.
            return
        what, argument = read_request(NODE_REQUESTS, line)

        def answer(document: object) -> None:
            client.send(plain_line({_ANSWERED.get(what, what): document}))

        if what == "register":
            if client in self._registered:
                raise RegistrationRefused("this connection stands for a process already; open one for each")
            try:
                process = self._node.register(argument, client)
            except RegistrationRefused as error:
                # Also in the log: programs seldom show the answer.
                self._server.log_refused(f"user {client.uid}", f"refused: {error}")
                raise
            # After the registration has succeeded; the connection now represents the process.
            self._registered[client] = process
            self._needed = True
            answer(RegisteredProcess(process.job, process.rank))
        elif what == "schedule":
            if client not in self._registered:
                raise RequestRejected(
                    "'schedule' is no request of a connection without a process; register one"
                )
            # Not answered: it goes on meanwhile.
            self._node.requested()
        elif what == "hold":
            # Released by the end of the connection, however the client ends.
            self._holding.add(client)
            self._needed = True
            answer(Held())
        else:
            self._node.ask(what, argument, answer)

    def _ended(self, client: Client) -> None:
        self._holding.discard(client)
        process = self._registered.pop(client, None)
        if process is not None:
            self._node.leave(process)
