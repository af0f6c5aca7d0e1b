"""What manager and node managers say to each other, and how it is known to come from them.

Both hold one key. On the stream every line is ``MAC JSON``: HMAC-SHA256 over the direction, the line's place in the
stream and its text, under a key made of both sides' random words of this connection; so a line of another
connection, of the other side, or out of its place is refused, and the clocks of hosts need not agree. A beat is one
datagram for all nodes, `BEAT_BYTES` long however many there are: it names the slot, whose rows the nodes hold
already, sealed with keyed BLAKE2b, which costs a node a third of what HMAC does. It counts upwards within the
manager's session, and one that comes much later than its fellows is refused. A node's sign of life is one as well.
Pure: bytes in, records out.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from apples.errors import SharingError

#: Of the protocol; sides that differ refuse each other.
VERSION = 3

#: A line of a stranger, and one of a side that is known: the longest that is read, bytes.
UNTRUSTED_LINE, LONGEST_LINE = 4096, 8 << 20

_MAC = 32
_BEAT_MAGIC, _HERE_MAGIC = b"APb1", b"APh1"
#: What follows magic and session: a `BeatMessage`, a `HereMessage`.
_BEGIN = 20
_BEAT, _HERE = struct.Struct(f"!{_BEGIN}xQQdid"), struct.Struct(f"!{_BEGIN}x16sQ??")
HEARTBEAT_BYTES, PRESENCE_BYTES = _BEAT.size + _MAC, _HERE.size + _MAC

#: Seconds between two signs of life in each direction, and seconds without any after which a connection is given up.
PULSE_S, SILENCE_S = 1.0, 3.0

#: What two clocks that nobody corrects may drift apart, as a share; and when late beats are taken for a changed clock.
_DRIFT = 1e-3
CLOCK_RESET_S = 3.0

Json = dict[str, Any]


class Forged(SharingError):
    """Something came that does not come from a holder of the key, or not now."""


def random_word() -> str:
    """16 bytes nobody can guess, as 32 hexadecimal digits."""
    return secrets.token_hex(16)


def checked_word(value: object, *, what: str) -> str:
    """A random word as the other side names it; raises `Forged` for anything that is none."""
    if not isinstance(value, str) or re.fullmatch("[0-9a-f]{32}", value) is None:
        raise Forged(f"a line whose {what} is no random word")
    return value


def derive(key: bytes, *parts: str) -> bytes:
    """A key for one purpose."""
    return hmac.digest(key, "\0".join(parts).encode(), "sha256")


class Seal:
    """One side of one stream. `ours`, `theirs`: names of the directions."""

    def __init__(self, key: bytes, *, ours: str, theirs: str) -> None:
        self._key, self._ours, self._theirs = key, ours.encode(), theirs.encode()
        self._sent = self._received = 0

    def line(self, document: Json) -> bytes:
        """The next line to send."""
        body = json.dumps(document, separators=(",", ":")).encode()
        mac = self._mac(self._ours, self._sent, body)
        self._sent += 1
        return mac + b" " + body + b"\n"

    def open(self, line: bytes) -> Json:
        """The document of the next line that came; raises `Forged`."""
        mac, _, body = line.partition(b" ")
        if not hmac.compare_digest(mac, self._mac(self._theirs, self._received, body)):
            raise Forged("a line that is not sealed with our key, or not in its place")
        self._received += 1
        return plain(body)

    def _mac(self, direction: bytes, place: int, body: bytes) -> bytes:
        text = b"%s\0%d\0%s" % (direction, place, body)
        return hmac.digest(self._key, text, "sha256").hex().encode()


def open_line(document: Json) -> bytes:
    """Return the line of a document that is not sealed."""
    return json.dumps(document).encode() + b"\n"


def plain(line: bytes) -> Json:
    """A line of plain JSON; raises `Forged` when it is none."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise Forged("a line that is no JSON") from None
    if not isinstance(document, dict):
        raise Forged("a line that is no JSON object")
    return document


class Lines:
    """Cuts what comes from a stream into lines."""

    def __init__(self) -> None:
        self.longest = UNTRUSTED_LINE
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Whole lines, one after the other; raises `Forged` for one that is too long."""
        self._rest += data
        while (end := self._rest.find(b"\n")) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            yield line
        if len(self._rest) > self.longest:
            raise Forged(f"a line of more than {self.longest} bytes")


class HeartbeatMessage(NamedTuple):
    """One slot begins.

    number : counts the beats of a session.  version : of the matrix whose row `slot` is; -1 for an empty one
    sent_s : on the manager's clock that nothing slews.  slice_s : until the next
    """

    number: int
    version: int
    sent_s: float
    slot: int
    slice_s: float


class PresenceMessage(NamedTuple):
    """A node is here, and listens where this comes from. node : random word of its process.  number : counts up

    silent : it has heard no beat for a while.  multicast : beats come to it by multicast
    """

    node: str
    number: int
    silent: bool
    multicast: bool


class DatagramSeal:
    """Datagrams of one manager's session. `session`: its random word, which nodes learn over the stream."""

    def __init__(self, key: bytes, session: str) -> None:
        word = bytes.fromhex(session)
        self._beat_begins, self._here_begins = _BEAT_MAGIC + word, _HERE_MAGIC + word
        # Kept with the key worked in: beginning anew would be most of what a beat costs.
        self._keyed = blake2b(key=derive(key, "datagrams", session), digest_size=_MAC)

    def beat(self, message: HeartbeatMessage) -> bytes:
        """A datagram for all nodes."""
        return self._sealed(self._beat_begins + _BEAT.pack(*message)[_BEGIN:])

    def open_beat(self, datagram: bytes) -> HeartbeatMessage:
        """The beat in a datagram; raises `Forged`, also for one of another session."""
        self._check(datagram, _BEAT.size, self._beat_begins)
        return HeartbeatMessage._make(_BEAT.unpack_from(datagram))

    def here(self, message: PresenceMessage) -> bytes:
        """A datagram for the manager."""
        fields = _HERE.pack(bytes.fromhex(message.node), *message[1:])
        return self._sealed(self._here_begins + fields[_BEGIN:])

    def open_here(self, datagram: bytes) -> PresenceMessage:
        """Who is here; raises `Forged`."""
        self._check(datagram, _HERE.size, self._here_begins)
        node, *rest = _HERE.unpack_from(datagram)
        return PresenceMessage(node.hex(), *rest)

    def _sealed(self, body: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(body)
        return body + keyed.digest()

    def _check(self, datagram: bytes, size: int, begins: bytes) -> None:
        if len(datagram) != size + _MAC or not datagram.startswith(begins):
            raise Forged("a datagram that is not of this session")
        if not hmac.compare_digest(datagram, self._sealed(datagram[:size])):
            raise Forged("a datagram that is not sealed with our key")


class Freshness:
    """Lets each beat through once, in order, and none that lies `late_s` behind the quickest one so far.

    Sender and receiver need not agree on the time: what counts is the difference of their clocks, at its smallest.
    Where all beats have been late for `ANEW_S` it is the clocks that have changed, and the smallest is looked for anew.
    """

    def __init__(self) -> None:
        self.number = 0
        self._ahead_s: float | None = None
        self._late_number = 0
        self._late_since: float | None = None

    def admits(self, beat: HeartbeatMessage, now: float, *, late_s: float) -> bool:
        """Whether to act on a beat that came at `now`, on a clock that nothing slews."""
        if beat.number <= self.number:
            return False
        ahead = now - beat.sent_s
        best = ahead if self._ahead_s is None else min(ahead, self._ahead_s + _DRIFT * beat.slice_s)
        self._ahead_s = best
        if ahead - best > late_s and not self._only_late(beat.number, now):
            return False
        if ahead - best > late_s:
            self._ahead_s = ahead
        self._late_since = None
        self.number = beat.number
        return True

    def _only_late(self, number: int, now: float) -> bool:
        """Whether beats have been late, and new ones, for so long that it is not they that are held up."""
        if number <= self._late_number:
            return False
        self._late_number = number
        if self._late_since is None:
            self._late_since = now
        return now - self._late_since >= CLOCK_RESET_S
