"""A node's connection to the manager: made, proved on both sides, listened to, made again whenever it ends.

Three things hold it together: the stream (who is here, who stands where), the datagrams (the beats), and signs of life:
a datagram a second from the node; from the manager its beats, or a line a second where the node hears none or they are
rarer. So a cut in the network shows soon after `SILENCE_S`. What the lines and beats mean for the node is decided in
`nodedaemon`. Where the manager cannot be reached, attempts go on for ever.
"""

from __future__ import annotations

import errno
import os
import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from apples.ipc.lookup import Address, Lookup
from apples.ipc.loop import Alarm, Loop
from apples.ipc.streams import Stream, keep_honest
from apples.ipc.timer import now, raw
from apples.ipc.wire import (
    HEARTBEAT_BYTES,
    LONGEST_LINE,
    VERSION,
    DatagramSeal,
    Forged,
    Freshness,
    HeartbeatMessage,
    Json,
    PresenceMessage,
    Seal,
    checked_word,
    derive,
    plain,
    random_word,
)

#: Seconds between two signs of life each way; without any for so long the connection is given up; and before the next
#: attempt.
PULSE_S, SILENCE_S, AGAIN_S = 1.0, 3.0, 0.4
#: An address that was looked up so long ago is looked up again where it does not answer, seconds.
_LOOK_UP_S = 5.0
#: Of an attempt.
_CONNECT_S = 1.0
#: Without a beat by multicast for so long, and so many slices, it is not heard any more.
_GROUP_S, _GROUP_SLICES = 1.0, 3.0
#: Slices that a beat may be behind the quickest and still count.
_LATE_SLICES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionCallbacks:
    """What the node does with what comes. hello : what to say of itself; the others get a document or a beat

    beat : when it was heard comes with it, on the clock of its `sent_s` and on that of timers
    """

    hello: Callable[[], Json]
    welcome: Callable[[Json], None]
    line: Callable[[Json], None]
    beat: Callable[[HeartbeatMessage, float, float], None]
    lost: Callable[[str], None]


class ManagerConnection:
    """The connection. word : of this process, random"""

    def __init__(self, loop: Loop, manager: tuple[str, int], key: bytes, hooks: ConnectionCallbacks) -> None:
        self._loop, self._manager, self._key, self._hooks = loop, manager, key, hooks
        self.word = random_word()
        self.welcomed = False
        self._stream: Stream | None = None
        self._seal: Seal | None = None
        self._beats: DatagramSeal | None = None
        self._fresh = Freshness()
        self._last_line = 0.0
        self._shown = 0
        self._last_beat = 0.0
        self._group_beat: HeartbeatMessage | None = None
        self._group_heard = 0.0
        self._direct: socket.socket | None = None
        self._group: socket.socket | None = None
        self._attempt: Alarm | None = None
        self._lookup = Lookup(loop, manager, self._looked_up)
        self._found: Address | None = None
        self._looked_at = 0.0
        self._address: tuple[str, int] | None = None
        self._said = ""

    @property
    def place(self) -> str:
        """The manager, for messages."""
        return "{}:{}".format(*self._manager)

    @property
    def multicast_heard(self) -> bool:
        """Whether beats come by multicast now; that they once did says nothing of a network that has changed."""
        beat = self._group_beat
        return beat is not None and raw() - self._group_heard < max(_GROUP_S, _GROUP_SLICES * beat.slice_s)

    def start(self) -> None:
        """Begin to connect: to the last address known, which is looked up again beside it."""
        self._attempt = None
        try:
            if self._found is None or now() - self._looked_at > _LOOK_UP_S:
                self._looked_at = now()
                self._lookup.start()
            if self._found is not None:
                self._connect(self._found)
        except OSError as error:
            self._gone(f"no connection can be tried: {error.strerror or error}")

    def _looked_up(self, found: Address | OSError) -> None:
        knew = self._found is not None
        if not isinstance(found, OSError):
            self._found = found
        if knew:
            return
        try:
            if self._found is None:
                self._gone(f"{self.place} cannot be looked up: {getattr(found, 'strerror', None) or found}")
            else:
                self._connect(self._found)
        except OSError as error:
            self._gone(f"no connection can be tried: {error.strerror or error}")

    def _connect(self, found: Address) -> None:
        family, kind, protocol, _, address = found
        connection = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
        keep_honest(connection, SILENCE_S)
        self._address = (str(address[0]), int(address[1]))
        code = connection.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            connection.close()
            self._gone(os.strerror(code))
            return
        self._last_line = now()
        self._stream = Stream(self._loop, connection, heard=self._challenged, ended=self._gone)
        self._loop.after(_CONNECT_S, lambda stream=self._stream: self._check_attempt(stream))  # type: ignore[misc]

    def send(self, document: Json) -> None:
        """Tell the manager, if it is there."""
        if self.welcomed and self._stream is not None and self._seal is not None:
            self._stream.send(self._seal.line(document))

    def tick(self, instant: float, *, silent: bool) -> None:
        """Once a second or so: give up a silent manager, else show that we are here. silent : the node hears no beat"""
        heard_at = max(self._last_line, self._last_beat)
        if self._stream is not None and self.welcomed and instant - heard_at > SILENCE_S:
            self._stream.close(f"nothing heard of it for {SILENCE_S:g} s")
        self._show(silent=silent)

    def close(self) -> None:
        """For good."""
        self._hooks = ConnectionCallbacks(
            hello=dict,
            welcome=lambda d: None,
            line=lambda d: None,
            beat=lambda *b: None,
            lost=lambda r: None,
        )
        if self._stream is not None:
            self._stream.close()
        if self._attempt is not None:
            self._attempt.cancel()
        self._lookup.close()
        self._close_datagrams()

    def _check_attempt(self, stream: Stream) -> None:
        if stream is self._stream and not self.welcomed:
            stream.close("it does not answer")

    def _challenged(self, line: bytes) -> None:
        """The manager's first line: its random word; ours goes back with who we are, under a key of this purpose."""
        document = plain(line)
        if "refused" in document:
            raise Forged(str(document["refused"]))
        if document.get("apples") != VERSION:
            raise Forged(
                f"its protocol is {document.get('apples')!r}, ours {VERSION}; install the same version"
            )
        # Nothing is proved yet: whoever has taken the manager's port may say anything.
        theirs, session = (checked_word(document.get(name), what=name) for name in ("challenge", "session"))
        ours, stream = random_word(), self._stream
        assert stream is not None
        self._seal = Seal(derive(self._key, "stream", theirs, ours), ours="node", theirs="manager")
        self._beats = DatagramSeal(self._key, session)
        stream.trust(LONGEST_LINE)
        stream.heard = self._line
        hello = self._hooks.hello() | {"nonce": ours, "word": self.word, "shown": self._shown}
        stream.send(Seal(derive(self._key, "hello", theirs), ours="node", theirs="manager").line(hello))

    def _line(self, line: bytes) -> None:
        assert self._seal is not None
        assert self._stream is not None
        if line.startswith(b"{"):
            # Refusals come in the open: who refuses us may not share our key. They are for people only.
            raise Forged(str(plain(line).get("refused", "a line that is not sealed")))
        document = self._seal.open(line)
        self._last_line = now()
        if not self.welcomed:
            self.welcomed = True
            self._said = ""
            self._fresh = Freshness()
            try:
                self._open_datagrams(document.get("multicast"))
            except OSError as error:
                self._stream.close(f"no socket for its beats: {error.strerror}")
                return
            self._hooks.welcome(document)
            self._show(silent=True)
        else:
            self._hooks.line(document)

    def _gone(self, reason: str) -> None:
        was = self.welcomed
        self.welcomed = False
        self._group_beat = None
        self._stream = self._seal = self._beats = None
        self._close_datagrams()
        if was or reason != self._said:
            self._said = reason
            self._hooks.lost(reason)
        # Not all nodes at once.
        self._attempt = self._loop.after(AGAIN_S * random.uniform(0.75, 1.25), self.start)

    def _open_datagrams(self, group: str | None) -> None:
        assert self._stream is not None
        assert self._address is not None
        own = self._stream.socket.getsockname()[0]
        self._direct = _datagrams(self._stream.socket.family)
        self._direct.bind((own, 0))
        self._loop.watch(self._direct.fileno(), partial(self._datagram, self._direct, multicast=False))
        if group is not None and self._stream.socket.family == socket.AF_INET:
            # A host without a network that carries it goes without: beats come one by one then.
            with suppress(OSError):
                self._group = _joined(group, self._address[1], own)
                self._loop.watch(self._group.fileno(), partial(self._datagram, self._group, multicast=True))

    def _close_datagrams(self) -> None:
        for one in (self._direct, self._group):
            if one is not None:
                self._loop.forget(one.fileno())
                one.close()
        self._direct = self._group = None

    def _datagram(self, source: socket.socket, *, multicast: bool) -> None:
        if self._beats is None:
            return
        try:
            # One that is longer is none of ours.
            datagram = source.recv(HEARTBEAT_BYTES + 1)
            heard = raw()
            beat = self._beats.open_beat(datagram)
        except (OSError, Forged):
            # Anybody can send datagrams; those that are not the manager's count for nothing.
            return
        if multicast:
            self._group_beat, self._group_heard = beat, heard
        if self._fresh.admits(beat, heard, late_s=_LATE_SLICES * beat.slice_s):
            self._last_beat = instant = now()
            self._hooks.beat(beat, heard, instant)

    def _show(self, *, silent: bool) -> None:
        if self._direct is not None and self._beats is not None and self._address is not None:
            self._shown += 1
            here = PresenceMessage(self.word, self._shown, silent, self.multicast_heard and not silent)
            with suppress(OSError):
                self._direct.sendto(self._beats.here(here), self._address)


def _datagrams(family: int) -> socket.socket:
    return socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


def _joined(group: str, port: int, own: str) -> socket.socket:
    """A socket that hears a multicast group on the interface of address `own`, and nothing else."""
    made = _datagrams(socket.AF_INET)
    try:
        # Several nodes of one machine hear the same group.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((group, port))
        membership = struct.pack("4s4s", socket.inet_aton(group), socket.inet_aton(own))
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError:
        made.close()
        raise
    return made
