"""The protocol between manager and node managers, and its authentication.

The manager holds a key, from which each node's key follows by the node's name. A node needs its own key only, and can
make no line or sign of life of another node. A key of all nodes seals heartbeats by multicast; nodes receive it over
their streams, hidden by a pad of their connection. On the stream every line is ``MAC JSON``: HMAC-SHA256 over the
direction, the line's number in the stream and its text, under a key made of both sides' random words of this
connection. So a line of another connection or side, or out of order, is refused, and the hosts' clocks need not agree.
A heartbeat is one datagram for all nodes, `HEARTBEAT_BYTES` long for any number of nodes: it names the slot, and the
nodes know its rows already. It is sealed with keyed BLAKE2b, which costs a third of HMAC. It has a number that rises
within the manager's session, and one that is much later than the others is refused. A node's sign of life is a datagram
too.
"""

import hmac
import secrets
import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from apples.errors import SharingError

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

#: Relative drift of two uncorrected clocks; and seconds of late heartbeats after which a clock has changed.
_DRIFT = 1e-3
CLOCK_RESET_S = 3.0


class Forged(SharingError):
    """Data from a sender without the key, or replayed data."""


def random_word() -> str:
    """Return 16 random bytes as 32 hexadecimal digits."""
    return secrets.token_hex(16)


def derive(key: bytes, *parts: str) -> bytes:
    """Return a key for one purpose."""
    return hmac.digest(key, "\0".join(parts).encode(), "sha256")


def node_key(key: bytes, node: str) -> bytes:
    """Return the key of one node. `key`: the manager's."""
    return derive(key, "node", node)


def hidden(key: bytes, challenge: str, nonce: str, secret: bytes) -> bytes:
    """Return a secret of 32 bytes hidden by a pad of one connection, or the secret of a hidden one.

    key : of the node.  challenge, nonce : random words of both sides, so that no pad is used twice
    """
    pad = derive(key, "pad", challenge, nonce)
    # A pad of its own for each connection: two secrets under one pad would show their difference.
    return bytes(one ^ other for one, other in zip(secret, pad, strict=True))


class Seal:
    """One side of one stream. `ours`, `theirs`: names of the directions."""

    def __init__(self, key: bytes, *, ours: str, theirs: str) -> None:
        self._key, self._ours, self._theirs = key, ours.encode(), theirs.encode()
        self._sent = self._received = 0

    def line(self, body: bytes) -> bytes:
        """Return the next line to send; its text has no line break."""
        mac = self._mac(self._ours, self._sent, body)
        self._sent += 1
        return mac + b" " + body + b"\n"

    def open(self, line: bytes) -> bytes:
        """Return the text of the next received line; raises `Forged`."""
        mac, _, body = line.partition(b" ")
        # In constant time: the time of a plain comparison would show how many bytes were right.
        if not hmac.compare_digest(mac, self._mac(self._theirs, self._received, body)):
            raise Forged("a line that is not sealed with our key, or not in its place")
        # Only for valid lines; a forged one ends the connection anyway.
        self._received += 1
        return body

    def _mac(self, direction: bytes, number: int, body: bytes) -> bytes:
        # Direction and number: a line cannot be sent back, repeated or put elsewhere.
        text = b"%s\0%d\0%s" % (direction, number, body)
        return hmac.digest(self._key, text, "sha256").hex().encode()


def plain_line(message: object) -> bytes:
    """Return the line of a message that is not sealed."""
    return msgspec.json.encode(message) + b"\n"


#: Stands for a line that was too long and was dropped; no other line contains a line break.
OVERLONG = b"\n"


class Lines:
    """Cuts received bytes into lines. `drop`: skip a line that is too long and yield `OVERLONG` in its place."""

    def __init__(self, *, drop: bool = False) -> None:
        self.longest = UNTRUSTED_LINE
        self._rest = bytearray()
        self._drop, self._dropping = drop, False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield complete lines; raises `Forged` for one that is too long."""
        self._rest += data
        while (end := self._rest.find(b"\n")) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            overlong = self._dropping or (self._drop and len(line) > self.longest)
            self._dropping = False
            yield OVERLONG if overlong else line
        if len(self._rest) > self.longest:
            if not self._drop:
                raise Forged(f"a line of more than {self.longest} bytes")
            self._dropping = True
            self._rest.clear()


class HeartbeatMessage(NamedTuple):
    """The begin of a slot.

    number : counts the heartbeats of a session.  version : version of the matrix with row `slot`; -1 for an empty one
    sent_s : instant at which it is due, on the manager's clock that nothing slews.  slice_s : until the next
    """

    number: int
    version: int
    sent_s: float
    slot: int
    slice_s: float


class PresenceMessage(NamedTuple):
    """Sign of life of a node, which listens at the sender's address. `node`: random word of its process

    number : counts upwards.  silent : no heartbeat arrived for a while.  multicast : heartbeats arrive by multicast
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
        # Stored with the key absorbed: that would be most of the cost of a heartbeat.
        self._keyed = blake2b(key=derive(key, "datagrams", session), digest_size=_MAC)

    def beat_body(self, message: HeartbeatMessage) -> bytes:
        """Return the datagram of a heartbeat before it is sealed, the same for all nodes of the session."""
        return self._beat_begins + _BEAT.pack(*message)[_BEGIN:]

    def beat(self, message: HeartbeatMessage) -> bytes:
        """Return the datagram of a heartbeat."""
        return self.sealed(self.beat_body(message))

    def open_beat(self, datagram: bytes) -> HeartbeatMessage:
        """Return the heartbeat of a datagram; raises `Forged`, also for one of another session."""
        self._check(datagram, _BEAT.size, self._beat_begins)
        return tuple.__new__(HeartbeatMessage, _BEAT.unpack_from(datagram))

    def here(self, message: PresenceMessage) -> bytes:
        """Return the datagram of a sign of life."""
        # The first bytes of the format are left free for magic and session.
        fields = _HERE.pack(bytes.fromhex(message.node), *message[1:])
        return self.sealed(self._here_begins + fields[_BEGIN:])

    def open_here(self, datagram: bytes) -> PresenceMessage:
        """Return the sign of life of a datagram; raises `Forged`."""
        self._check(datagram, _HERE.size, self._here_begins)
        node, *rest = _HERE.unpack_from(datagram)
        return PresenceMessage(node.hex(), *rest)

    def sealed(self, body: bytes) -> bytes:
        """Return a datagram with its seal."""
        keyed = self._keyed.copy()
        keyed.update(body)
        return body + keyed.digest()

    def _check(self, datagram: bytes, size: int, begins: bytes) -> None:
        if len(datagram) != size + _MAC or not datagram.startswith(begins):
            raise Forged("a datagram that is not of this session")
        keyed = self._keyed.copy()
        keyed.update(datagram[:size])
        if not hmac.compare_digest(datagram[size:], keyed.digest()):
            raise Forged("a datagram that is not sealed with our key")


def presence_word(datagram: bytes) -> str:
    """Return the random word of the node that a sign of life names; nothing is proved yet."""
    return datagram[_BEGIN : _BEGIN + 16].hex()


class Freshness:
    """Admits each heartbeat once, in order, and none that is `late_s` later than the quickest one so far.

    The clocks of both sides need not agree: the smallest difference seen is the reference. If all heartbeats are late
    for `CLOCK_RESET_S`, a clock has changed, and a new reference is taken.
    """

    def __init__(self) -> None:
        self.number = 0
        self._ahead_s: float | None = None
        self._late_number = 0
        self._late_since: float | None = None

    def admits(self, beat: HeartbeatMessage, now: float, *, late_s: float) -> bool:
        """Return whether to act on a heartbeat that arrived at `now`, on a clock that nothing slews."""
        # Repeated, or overtaken by a later one.
        if beat.number <= self.number:
            return False
        ahead = now - beat.sent_s
        # The reference may grow slowly, because the clocks of both hosts drift.
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
        """Return whether new heartbeats have been late for so long that a clock must have changed."""
        if number <= self._late_number:
            return False
        self._late_number = number
        if self._late_since is None:
            self._late_since = now
        return now - self._late_since >= CLOCK_RESET_S
