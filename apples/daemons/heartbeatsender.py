"""The manager's heartbeats: one datagram per slice, by multicast or to each node.

A kernel timer runs from the start on, so lateness never accumulates. A heartbeat that is half a slice late is skipped,
because two that are close together would shorten the slot between them. Nodes answer with presence datagrams, which
name the address to which their heartbeats go. They wake nothing: they are read after each heartbeat.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from apples.daemons.nodeconnection import NodeConnection
from apples.ipc.listener import may_multicast
from apples.ipc.loop import Loop
from apples.ipc.timer import Timer, now, raw
from apples.ipc.wire import PRESENCE_BYTES, DatagramSeal, Forged, HeartbeatMessage, Json, presence_word

#: Datagrams read at once, and four more for each node, so that a flood of them cannot delay the next heartbeat.
_MOST_DATAGRAMS = 64
#: Number of heartbeats whose lateness is remembered.
_REMEMBERED = 1000


class HeartbeatSender:
    """Sends heartbeats and receives presence datagrams on one UDP socket.

    seal : of heartbeats by multicast
    slice_s : seconds between two heartbeats.  started : instant of the first
    next_slot : returns version and number of the slot that begins, -1 for an empty one
    nodes : connections by name.  words : connections by the random word of the node's process
    """

    def __init__(
        self,
        loop: Loop,
        datagrams: socket.socket,
        seal: DatagramSeal,
        slice_s: float,
        *,
        multicast: str | None,
        next_slot: Callable[[], tuple[int, int]],
        nodes: Mapping[str, NodeConnection],
    ) -> None:
        self._loop, self._datagrams, self._seal = loop, datagrams, seal
        self._next_slot, self._nodes = next_slot, nodes
        self.words: dict[str, NodeConnection] = {}
        host, self._port = datagrams.getsockname()[:2]
        self.multicast = multicast if may_multicast(datagrams, host) else None
        # In whole nanoseconds, like the timer's period, or the two would drift apart.
        self.slice_s = round(slice_s * 1e9) / 1e9
        self.started, self._tick = 0.0, -1
        self._number, self._skipped = 0, 0
        self._late: deque[float] = deque(maxlen=_REMEMBERED)
        self._timer = Timer()
        loop.hurry(self._expired)

    def start(self) -> None:
        """Send the first heartbeat now."""
        self.started = now()
        self._timer.every(self.started, self.slice_s)
        self._loop.watch(self._timer.fileno(), self._expired)

    def close(self) -> None:
        """Close timer and socket. Nodes resume all processes when no heartbeat arrives."""
        self._datagrams.close()
        self._timer.close()

    def describe(self) -> Json:
        """Return the number of heartbeats sent and skipped, and quantiles of their lateness in seconds."""
        late = sorted(self._late)
        return {
            "beats": self._number,
            "left_out": self._skipped,
            "late_s": {
                "p50": late[len(late) // 2] if late else None,
                "p95": late[int(len(late) * 0.95)] if late else None,
                "most": late[-1] if late else None,
            },
        }

    def receive(self) -> None:
        """Read the presence datagrams that have arrived."""
        for _ in range(_MOST_DATAGRAMS + 4 * len(self._nodes)):
            try:
                datagram, address = self._datagrams.recvfrom(PRESENCE_BYTES + 1)
            except OSError:
                return
            with suppress(Forged):
                node = self.words.get(presence_word(datagram))
                if node is None or node.datagrams is None:
                    continue
                here = node.datagrams.open_here(datagram)
                if here.number > node.shown:
                    node.shown, node.address, node.heard_at = here.number, address[:2], now()
                    node.silent, node.multicast = here.silent, here.multicast

    def _expired(self) -> None:
        due = self._timer.expired()
        if due == 0:
            return
        self._tick += due
        late = now() - (self.started + self._tick * self.slice_s)
        if late < 0.5 * self.slice_s:
            version, slot = self._next_slot()
            self._number += 1
            self._send(HeartbeatMessage(self._number, version, raw(), slot, self.slice_s))
            self._late.append(late)
            due -= 1
        self._skipped += due
        self.receive()

    def _send(self, heartbeat: HeartbeatMessage) -> None:
        body, send = self._seal.beat_body(heartbeat), self._datagrams.sendto
        # A full or broken network loses a datagram; the nodes continue without it.
        if self.multicast is not None:
            with suppress(OSError):
                send(self._seal.sealed(body), (self.multicast, self._port))
        for node in self._nodes.values():
            if node.address is not None and node.datagrams is not None and not node.multicast:
                try:
                    send(node.datagrams.sealed(body), node.address)
                except OSError:
                    continue
