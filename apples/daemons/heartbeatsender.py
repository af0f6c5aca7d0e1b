"""The manager's heartbeats: one datagram per slice, by multicast or to each node.

A kernel timer runs from the start on, so lateness never accumulates. A heartbeat that is half a slice late is skipped,
because two that are close together would shorten the slot between them. Nodes answer with presence datagrams, which
name the address to which their heartbeats go. They wake nothing: they are read after each heartbeat.

The heartbeats of a second are sealed one after the other, and dropped if the matrix changes: at its instant each would
find the caches cold, which costs several times as much as the work itself.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from apples.coscheduling.machine import Turn
from apples.daemons.ipc.eventloop import Loop
from apples.daemons.ipc.listener import may_multicast
from apples.daemons.ipc.timer import Timer, now, raw
from apples.daemons.ipc.wire import (
    PRESENCE_BYTES,
    PULSE_S,
    DatagramSeal,
    Forged,
    HeartbeatMessage,
    presence_word,
)
from apples.daemons.jobtable import JobTable
from apples.daemons.nodeconnection import NodeConnection
from apples.daemons.nodemessages import Lateness

#: Datagrams read at once, and four more for each node, so that a flood of them cannot delay the next heartbeat.
_MOST_DATAGRAMS = 64
#: Number of heartbeats whose lateness is remembered.
_REMEMBERED = 1000


class _Heartbeat(NamedTuple):
    """One heartbeat in advance. group : by multicast.  direct : by name, of the nodes that do not receive that"""

    turn: Turn
    body: bytes
    group: bytes
    direct: dict[str, bytes]


class HeartbeatSender:
    """Sends heartbeats and receives presence datagrams on one UDP socket.

    seal : of heartbeats by multicast
    slice_s : seconds between two heartbeats.  started : instant of the first.  sent, skipped : their numbers
    jobs : its turns and the version of its matrix
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
        jobs: JobTable,
        nodes: Mapping[str, NodeConnection],
    ) -> None:
        self._loop, self._datagrams, self._seal = loop, datagrams, seal
        self._jobs, self._nodes = jobs, nodes
        #: The next heartbeats, for a matrix of this version.
        self._ahead: deque[_Heartbeat] = deque()
        self._version = -1
        self.words: dict[str, NodeConnection] = {}
        host, self._port = datagrams.getsockname()[:2]
        self.multicast = multicast if may_multicast(datagrams, host) else None
        # In whole nanoseconds, like the timer's period, or the two would drift apart.
        self.slice_s = round(slice_s * 1e9) / 1e9
        self.started, self._tick = 0.0, -1
        self.sent, self.skipped = 0, 0
        self._late: deque[float] = deque(maxlen=_REMEMBERED)
        self._timer = Timer()
        self._arrived = select.poll()
        self._arrived.register(datagrams, select.POLLIN)
        loop.hurry(self._expired)

    def start(self) -> None:
        """Send the first heartbeat now."""
        self.started = now()
        # By the kernel, periodically: a timer that is set anew each time would drift.
        self._timer.set(self.started, self.slice_s)
        self._loop.watch(self._timer.fileno(), self._expired)

    def close(self) -> None:
        """Close timer and socket. Nodes resume all processes when no heartbeat arrives."""
        # Nodes notice by the missing heartbeats, and resume everything.
        self._datagrams.close()
        self._timer.close()

    def lateness(self) -> Lateness:
        """Return quantiles of the lateness of the last heartbeats."""
        late: Sequence[float | None] = sorted(self._late) or [None]
        return Lateness(p50=late[len(late) // 2], p95=late[int(len(late) * 0.95)], most=late[-1])

    def receive(self) -> None:
        """Read the presence datagrams that have arrived."""
        # At most heartbeats there is none, which costs less to ask than the exception of a read.
        if not self._arrived.poll(0):
            return
        # Others wait in the socket until after the next heartbeat.
        for _ in range(_MOST_DATAGRAMS + 4 * len(self._nodes)):
            try:
                datagram, address = self._datagrams.recvfrom(PRESENCE_BYTES + 1)
            except OSError:
                return
            with suppress(Forged):
                # The word selects a key, and proves nothing: the seal is checked below.
                node = self.words.get(presence_word(datagram))
                if node is None or node.datagrams is None:
                    continue
                here = node.datagrams.open_here(datagram)
                # A repeated datagram, perhaps sent by another host, must not redirect heartbeats.
                if here.number > node.shown:
                    node.shown, node.address, node.heard_at = here.number, address[:2], now()
                    node.silent, node.multicast = here.silent, here.multicast

    def _expired(self) -> None:
        due = self._timer.expired()
        if due == 0:
            return
        # All expiries since the last read: after a stop of this process there are several.
        self._tick += due
        late = now() - (self.started + self._tick * self.slice_s)
        timely = late < 0.5 * self.slice_s
        if due > 1 or not timely or self._version != self._jobs.version:
            # Their instants, or the matrix to which they refer, are over.
            self._ahead.clear()
        if timely:
            if not self._ahead:
                self._prepare()
            self.sent += 1
            self._send(self._ahead.popleft())
            # Only of heartbeats that were sent; the others are counted below.
            self._late.append(late)
            due -= 1
        self.skipped += due
        self.receive()

    def _prepare(self) -> None:
        """Seal the heartbeats of this tick and of those within a second."""
        # Sealed with the key of each node, so that no node can make heartbeats for another.
        direct = {name: node.datagrams for name, node in self._nodes.items() if not node.multicast}
        # The instant at which it is due, on the clock that nothing slews: nodes measure lateness by it.
        first_s = raw() - now() + self.started + self._tick * self.slice_s
        self._version = self._jobs.version
        for number, turn in enumerate(self._jobs.machine.upcoming(max(int(PULSE_S / self.slice_s), 1))):
            sent_s, slot = first_s + number * self.slice_s, -1 if turn.slot is None else turn.slot
            count = self.sent + 1 + number
            body = self._seal.beat_body(HeartbeatMessage(count, self._version, sent_s, slot, self.slice_s))
            sealed = {name: seal.sealed(body) for name, seal in direct.items() if seal is not None}
            self._ahead.append(_Heartbeat(turn, body, self._seal.sealed(body), sealed))

    def _send(self, heartbeat: _Heartbeat) -> None:
        turn, body, group, direct = heartbeat
        # Only now: a heartbeat that is dropped takes no turn from its user.
        self._jobs.machine.take(turn)
        if self.multicast is not None:
            self._send_to((self.multicast, self._port), group)
        for name, node in self._nodes.items():
            if not node.multicast and node.address is not None and node.datagrams is not None:
                # A node that has just lost multicast was not sealed for in advance.
                self._send_to(node.address, direct.get(name) or node.datagrams.sealed(body))

    def _send_to(self, address: tuple[str, int], datagram: bytes) -> None:
        try:
            self._datagrams.sendto(datagram, address)
        except OSError:
            # A full or broken network loses a datagram; the nodes continue without it.
            return
