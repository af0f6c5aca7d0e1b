"""A node's connection to the manager: lookup, connect, proof of the key on both sides, and reconnect after any end.

Signs of life hold it together: a presence datagram per second from the node; heartbeats from the manager, or a line per
second if heartbeats are rarer or do not arrive. A cut in the network is noticed soon after `SILENCE_S`.
`managersession` handles lines and heartbeats. If the manager cannot be reached, attempts never end.

Looks up the address of a host in a thread, because a name server that does not answer can take half a minute.

One lookup at a time; the loop receives its result.
"""

from __future__ import annotations

import errno
import os
import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from apples.daemons.heartbeatreceiver import HeartbeatReceiver
from apples.daemons.ipc.eventloop import Alarm, Loop
from apples.daemons.ipc.streams import Stream, keep_honest
from apples.daemons.ipc.timer import now
from apples.daemons.ipc.wire import (
    LONGEST_LINE,
    SILENCE_S,
    DatagramSeal,
    Forged,
    Seal,
    derive,
    hidden,
    random_word,
)
from apples.daemons.nodemessages import TO_NODE, FromManager, FromNode, Welcome, legal, read_challenge
from apples.daemons.settings import address_text

if TYPE_CHECKING:
    from apples.daemons.managersession import ManagerSession

#: Mean pause before the next attempt, seconds.
_RETRY_S = 0.4
#: Age of a looked-up address after which it is looked up again if it does not answer, seconds.
_LOOK_UP_S = 5.0
#: Time limit of one attempt, seconds.
_CONNECT_S = 1.0

#: (family, kind, protocol, canonical name, address), as the system has it.
Address = tuple[Any, ...]


class Lookup:
    """Looks up `server` (host, port). `on_result`: called with an address or the error"""

    def __init__(
        self, loop: Loop, server: tuple[str, int], on_result: Callable[[Address | OSError], None]
    ) -> None:
        self._loop, self._server, self._on_result = loop, server, on_result
        self._outcome: Address | OSError | None = None
        self._read: int | None = None

    def start(self) -> None:
        """Start a lookup unless one is running; raises `OSError` if no descriptor or thread is left."""
        if self._read is None:
            # The loop can wait for a descriptor only, and a thread cannot call into it.
            self._read, ended = os.pipe2(os.O_CLOEXEC)
            self._loop.watch(self._read, self._take)
            try:
                # Daemon: a look-up that hangs must not keep the process from ending.
                threading.Thread(target=self._resolve, args=(ended,), daemon=True).start()
            except RuntimeError as error:
                self.close()
                os.close(ended)
                raise OSError(errno.EAGAIN, str(error)) from error

    def close(self) -> None:
        """Ignore the result of a running lookup."""
        if self._read is not None:
            self._loop.forget(self._read)
            os.close(self._read)
            self._read = None

    def _resolve(self, ended: int) -> None:
        try:
            self._outcome = socket.getaddrinfo(*self._server, type=socket.SOCK_STREAM)[0]
        except OSError as error:
            self._outcome = error
        except UnicodeError as error:
            # Raised for a text that cannot be a host name.
            self._outcome = OSError(str(error))
        # The reading end may be closed already.
        with suppress(OSError):
            # After the outcome was stored: the loop reads it when this byte arrives.
            os.write(ended, b"x")
        os.close(ended)

    def _take(self) -> None:
        outcome = self._outcome
        self.close()
        assert outcome is not None
        self._on_result(outcome)


class ManagerConnection:
    """The connection.

    key : of this node.  word : random word of this process.  welcomed : both sides have proved the key
    refused_since : instant of the first of the last attempts at which no process listened there, None for other ends
    """

    def __init__(self, loop: Loop, manager: tuple[str, int], key: bytes, session: ManagerSession) -> None:
        self._loop, self._manager, self._key, self._session = loop, manager, key, session
        # Of the process, not of the connection: by it the manager knows datagrams of a node that connects again.
        self.word = random_word()
        self.welcomed = self._closed = False
        self.refused_since: float | None = None
        self.receiver = HeartbeatReceiver(loop, self.word, session.heartbeat)
        self._stream: Stream | None = None
        self._seal: Seal | None = None
        #: Makes the seal of multicast heartbeats from the hidden key in the manager's welcome.
        self._reveal: Callable[[str], DatagramSeal]
        self._last_line = 0.0
        self._attempt: Alarm | None = None
        self._lookup = Lookup(loop, manager, self._looked_up)
        self._resolved: Address | None = None
        self._looked_at = 0.0
        self._reported = ""

    @property
    def place(self) -> str:
        """Address of the manager as HOST:PORT."""
        return address_text(self._manager)

    def start(self) -> None:
        """Connect to the last known address; look the name up at the same time if that is old."""
        self._attempt = None
        try:
            # A host that has moved to another address is found again.
            if self._resolved is None or now() - self._looked_at > _LOOK_UP_S:
                self._looked_at = now()
                self._lookup.start()
            if self._resolved is not None:
                self._connect(self._resolved)
        except OSError as error:
            self._gone(f"no connection can be tried: {error.strerror or error}")

    def _looked_up(self, outcome: Address | OSError) -> None:
        # With an address from before, an attempt runs already; the new one is for the next.
        knew = self._resolved is not None
        if not isinstance(outcome, OSError):
            self._resolved = outcome
        if knew:
            return
        try:
            if self._resolved is None:
                self._gone(
                    f"{self.place} cannot be looked up: {getattr(outcome, 'strerror', None) or outcome}"
                )
            else:
                self._connect(self._resolved)
        except OSError as error:
            self._gone(f"no connection can be tried: {error.strerror or error}")

    def _connect(self, candidate: Address) -> None:
        family, kind, protocol, _, address = candidate
        connection = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
        keep_honest(connection, SILENCE_S)
        # Does not wait: the loop reports when the socket can be written to, or is broken.
        code = connection.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            connection.close()
            self._gone(os.strerror(code))
            return
        # Silence counts from here.
        self._last_line = now()
        self._stream = Stream(self._loop, connection, on_line=self._challenged, on_end=self._gone)
        self._loop.after(_CONNECT_S, lambda stream=self._stream: self._check_attempt(stream))  # type: ignore[misc]

    def send(self, message: FromNode) -> None:
        """Send a message to the manager; it is lost if there is no connection."""
        if self.welcomed and self._stream is not None and self._seal is not None:
            self._stream.send(self._seal.line(msgspec.json.encode(message)))

    def tick(self, instant: float, *, silent: bool) -> None:
        """Give up a silent manager, else show presence, about once a second. `silent`: no heartbeats arrive."""
        # Heartbeats are signs of life, too: with short slices the manager sends no others.
        heard_at = max(self._last_line, self.receiver.last)
        if self._stream is not None and self.welcomed and instant - heard_at > SILENCE_S:
            self._stream.close(f"no sign of life for {SILENCE_S:g} s")
        self.receiver.show(silent=silent)

    def close(self) -> None:
        """Close the connection for ever."""
        # First: the end of the stream below is no loss that would be logged.
        self._closed = True
        if self._stream is not None:
            self._stream.close()
        if self._attempt is not None:
            # `_gone` may have just planned it.
            self._attempt.cancel()
        self._lookup.close()
        self.receiver.close()

    def _check_attempt(self, stream: Stream) -> None:
        if stream is self._stream and not self.welcomed:
            stream.close("it does not answer")

    def _challenged(self, line: bytes) -> None:
        """Answer the manager's challenge with a challenge and an introduction, under a key of this purpose."""
        # Nothing is proved yet: another program may have taken the manager's port.
        challenge = read_challenge(line)
        # Random words of both sides go into the key, so that neither can be made to use an old one.
        theirs, session = challenge.challenge, challenge.session
        nonce, stream = random_word(), self._stream
        assert stream is not None
        self._seal = Seal(derive(self._key, "stream", theirs, nonce), ours="node", theirs="manager")
        self.receiver.seal = DatagramSeal(self._key, session)
        self._reveal = lambda text: DatagramSeal(
            hidden(self._key, theirs, nonce, bytes.fromhex(text)), session
        )
        # The manager must still prove the key with its first sealed line, but that line may be long.
        stream.trust(LONGEST_LINE)
        stream.on_line = self._line
        # At each connection anew: processes may have come and gone meanwhile.
        hello = self._session.hello(nonce, self.word, self.receiver.shown)
        seal = Seal(derive(self._key, "hello", theirs), ours="node", theirs="manager")
        stream.send(seal.line(msgspec.json.encode(hello)))

    def _line(self, line: bytes) -> None:
        assert self._seal is not None
        assert self._stream is not None
        if line.startswith(b"{"):
            # Refusals are not sealed, because the manager may not have this key. They are only logged.
            raise Forged(getattr(legal(TO_NODE, line), "refused", "a line that is not sealed"))
        message: FromManager = legal(TO_NODE, self._seal.open(line))
        self._last_line = now()
        if self.welcomed:
            self._session.line(message)
            return
        if not isinstance(message, Welcome):
            raise Forged("a first sealed line that is no welcome")
        # Both sides have proved the key: the manager by this line, the node by its introduction.
        self.welcomed = True
        self.refused_since = None
        self._reported = ""
        connection = self._stream.socket
        self.receiver.group_seal = self._reveal(message.group_key)
        try:
            host, port = connection.getpeername()[:2]
            # On the interface of the stream, because a host may have several.
            self.receiver.open(connection, (str(host), int(port)), message.multicast)
        except OSError as error:
            self._stream.close(f"no socket for its heartbeats: {error.strerror}")
            return
        self._session.welcome(message)
        # At once: the manager learns the address for heartbeats from this datagram.
        self.receiver.show(silent=True)

    def _gone(self, reason: str) -> None:
        was = self.welcomed
        self.welcomed = False
        self._stream = self._seal = None
        self.receiver.close()
        # The host answers and no process listens: the manager has ended. Other reasons may pass.
        refused = reason == os.strerror(errno.ECONNREFUSED)
        self.refused_since = (self.refused_since or now()) if refused else None
        if not self._closed and (was or reason != self._reported):
            self._reported = reason
            self._session.lost(reason)
        # Not all nodes at the same instant.
        self._attempt = self._loop.after(_RETRY_S * random.uniform(0.75, 1.25), self.start)
