"""The node's datagram sockets: heartbeats in, presence datagrams out.

One socket receives heartbeats sent to this node, another one those of the multicast group. A heartbeat that was
received twice, or late, counts once or not at all.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from apples.daemons.ipc.eventloop import Loop
from apples.daemons.ipc.timer import now, raw
from apples.daemons.ipc.wire import (
    HEARTBEAT_BYTES,
    DatagramSeal,
    Forged,
    Freshness,
    HeartbeatMessage,
    PresenceMessage,
)

#: Without a multicast heartbeat for this many seconds and slices, multicast counts as broken.
_GROUP_S, _GROUP_SLICES = 1.0, 3.0
#: A heartbeat that is later than the quickest one by more slices is dropped.
_LATE_SLICES = 2.0


class HeartbeatReceiver:
    """Sockets of one node. All are closed while there is no manager.

    word : random word of this process
    seal, group_seal : of this node's datagrams and of those by multicast, None while there is no manager
    received : called with heartbeat and its instant, by the monotonic clock
    shown : number of the last presence datagram.  last : instant of the last heartbeat
    """

    def __init__(self, loop: Loop, word: str, received: Callable[[HeartbeatMessage, float], None]) -> None:
        self._loop, self._word, self._received = loop, word, received
        self.seal: DatagramSeal | None = None
        self.group_seal: DatagramSeal | None = None
        self.shown = 0
        self.last = 0.0
        self._fresh = Freshness()
        self._group_heartbeat: HeartbeatMessage | None = None
        self._group_at = 0.0
        self._direct: socket.socket | None = None
        self._group: socket.socket | None = None
        self._manager: tuple[str, int] | None = None

    @property
    def multicast_heard(self) -> bool:
        """Whether multicast heartbeats arrive now. Earlier ones do not count: networks change."""
        heartbeat = self._group_heartbeat
        if heartbeat is None:
            return False
        return raw() - self._group_at < max(_GROUP_S, _GROUP_SLICES * heartbeat.slice_s)

    def open(self, stream: socket.socket, manager: tuple[str, int], group: str | None) -> None:
        """Open the sockets, on the interface of a connected stream; raises `OSError`."""
        # Another manager counts from 1 again, on a clock of its own.
        self._fresh, self._manager = Freshness(), manager
        local = stream.getsockname()[0]
        self._direct = _datagrams(stream.family)
        # Any port: the manager reads it from presence datagrams.
        self._direct.bind((local, 0))
        self._loop.watch(self._direct.fileno(), partial(self._receive, self._direct, multicast=False))
        if group is not None and stream.family == socket.AF_INET:
            # If this host cannot join the group, the manager sends to it directly.
            with suppress(OSError):
                self._group = _joined(group, manager[1], local)
                self._loop.watch(self._group.fileno(), partial(self._receive, self._group, multicast=True))

    def close(self) -> None:
        """Close the sockets."""
        for one in (self._direct, self._group):
            if one is not None:
                self._loop.forget(one.fileno())
                one.close()
        self._direct = self._group = self._group_heartbeat = self.seal = self.group_seal = None

    def show(self, *, silent: bool) -> None:
        """Send a presence datagram, if there is a manager. `silent`: the node receives no heartbeats."""
        if self._direct is not None and self.seal is not None and self._manager is not None:
            # Also if it cannot be sent: the number only has to rise.
            self.shown += 1
            here = PresenceMessage(self._word, self.shown, silent, self.multicast_heard and not silent)
            with suppress(OSError):
                self._direct.sendto(self.seal.here(here), self._manager)

    def _receive(self, source: socket.socket, *, multicast: bool) -> None:
        seal = self.group_seal if multicast else self.seal
        if seal is None:
            return
        try:
            # One byte more than a heartbeat, so that longer datagrams are recognized and dropped.
            datagram = source.recv(HEARTBEAT_BYTES + 1)
            # Before the check of the seal, whose time is not that of the network.
            received = raw()
            heartbeat = seal.open_beat(datagram)
        except (OSError, Forged):
            # Any host can send datagrams; only the manager's count.
            return
        if multicast:
            # Also a late or repeated one: it shows that multicast works.
            self._group_heartbeat, self._group_at = heartbeat, received
        if self._fresh.admits(heartbeat, received, late_s=_LATE_SLICES * heartbeat.slice_s):
            self.last = instant = now()
            self._received(heartbeat, instant)


def _datagrams(family: int) -> socket.socket:
    return socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


def _joined(group: str, port: int, local: str) -> socket.socket:
    """Return a socket that receives a multicast group on the interface with the address `local`, and nothing else."""
    made = _datagrams(socket.AF_INET)
    try:
        # Several node managers of one machine receive the same group.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # To the group's address: else datagrams to this port for other groups would arrive as well.
        made.bind((group, port))
        membership = struct.pack("4s4s", socket.inet_aton(group), socket.inet_aton(local))
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError:
        made.close()
        raise
    return made
