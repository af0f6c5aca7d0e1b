"""The machine manager: joins roster, nodes' streams and the beat in one loop.

Each slice, one datagram names the slot: by multicast to nodes that receive it, one by one to the others. A kernel timer
paces the slices, so lateness never adds up; a heartbeat half a slice late is left out. Paper: FCS, 2.2.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from apples.daemons.jobtable import JobTable
from apples.daemons.managerconnection import PULSE_S, SILENCE_S
from apples.daemons.matrixview import job_of_json
from apples.daemons.realtime import become_realtime, settle_memory
from apples.daemons.settings import SharingSettings
from apples.daemons.statusqueries import FRESH_S, StatusQueries
from apples.ipc.listener import Listener, bound, may_multicast, raise_descriptors
from apples.ipc.loop import EndSignals, Loop
from apples.ipc.streams import Stream, keep_honest
from apples.ipc.timer import Timer, between_heartbeats, now, raw
from apples.ipc.wire import (
    LONGEST_LINE,
    PRESENCE_BYTES,
    VERSION,
    DatagramSeal,
    Forged,
    HeartbeatMessage,
    Json,
    PresenceMessage,
    Seal,
    derive,
    random_word,
)
from nws.base.detach import notify

_PRIORITY = 11
#: A stranger has so long to say who it is, seconds.
_STRANGER_S = 3.0
#: One that has not shown itself for so long is asked, seconds.
_ASK_S = 1.5 * PULSE_S
_MOST_HERE = 64  #: datagrams that are read at once, and four more for each node: not a whole flood
#: Beats whose lateness is remembered.
_REMEMBERED = 1000
#: A manager that runs while it is needed waits so long for its first node, and after its last, seconds.
_FIRST_S, _NEXT_S = 10.0, 2.0


@dataclass(slots=True, eq=False)
class _Peer:
    """One connection. challenge : our random word.  seal : once it has proved itself; then `name` is a node's

    address : where beats go to; None until it has shown where it listens.  multicast : it hears the group
    silent : it has heard no beat for a while.  told_at : when it last told how it is, its `status`
    """

    stream: Stream
    challenge: str
    since: float
    seal: Seal | None = None
    name: str | None = None
    word: str = ""
    address: tuple[str, int] | None = None
    shown: int = 0
    multicast: bool = False
    silent: bool = True
    heard_at: float = 0.0
    told_at: float = 0.0
    status: Json = field(default_factory=dict)
    processors: int = 0


class ManagerDaemon:
    """One manager; `run` until it is told to end. Raises `SharingError` where it cannot listen."""

    def __init__(
        self,
        sharing: SharingSettings,
        key: bytes,
        *,
        say: Callable[[str], None],
        while_needed: bool = False,
        counted: Callable[[Mapping[str, int]], None] = lambda nodes: None,
    ) -> None:
        """counted : hears which nodes are connected, with their processors, whenever one comes or goes"""
        self._sharing, self._key, self._say, self._counted = sharing, key, say, counted
        self._while_needed = while_needed
        self._needed_at = now() + _FIRST_S
        raise_descriptors()
        self._loop = Loop(precise=False)
        self._drum = Timer()
        self._loop.hurry(self._beat)
        # As the timer has it, or the two would drift apart.
        self._slice_s = round(sharing.slice_s * 1e9) / 1e9
        self._start, self._tick = 0.0, -1
        self._listener, self._datagrams = bound(sharing.listen)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self.roster = JobTable(sharing.rows, now())
        self._session = random_word()
        self._seal = DatagramSeal(key, self._session)
        self._peers: set[_Peer] = set()
        #: By name, and by the random word of their process.
        self._nodes: dict[str, _Peer] = {}
        self._words: dict[str, _Peer] = {}
        self._told = -1
        self._questions = StatusQueries(self._loop, ask=self._ask, answer=self._answer)
        self._number = 0
        self._late: deque[float] = deque(maxlen=_REMEMBERED)
        self._left_out = 0
        self._multicast = sharing.multicast if may_multicast(self._datagrams, self.address[0]) else None
        self._realtime = sharing.realtime and become_realtime(_PRIORITY)
        self._door = Listener(self._loop, self._listener, self._came)
        self._loop.watch(self._datagrams.fileno(), self._here)

    def run(self) -> int | None:
        """Until a signal comes, which is returned, or nobody needs it any more."""
        ended_by: list[int] = []

        def end(number: int) -> None:
            ended_by.append(number)
            self._loop.stop()

        signals = EndSignals(self._loop, end)
        sharing = self._sharing
        self._say(
            f"manager at {self.place}, TCP and UDP: policy {sharing.policy.name}, slices of "
            f"{sharing.slice_s * 1e3:g} ms, beats {'by multicast' if self._multicast else 'one by one'}, "
            f"{'real time' if self._realtime else 'ordinary'} priority"
        )
        settle_memory()
        self._start = now()
        self._drum.every(self._start, self._slice_s)
        self._loop.watch(self._drum.fileno(), self._beat)
        self._next_second()
        notify(f"READY=1\nSTATUS=listens at {self.place}")
        try:
            self._loop.run()
        finally:
            signals.close()
            self.close()
        return ended_by[0] if ended_by else None

    def close(self) -> None:
        """Hang up; the nodes let everything run when the beats stay away."""
        for peer in list(self._peers):
            peer.stream.close()
        self._door.close()
        self._loop.forget(self._datagrams.fileno())
        self._datagrams.close()
        self._drum.close()
        self._loop.close()

    @property
    def place(self) -> str:
        """Where it listens, HOST:PORT."""
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    # the beat

    def _beat(self) -> None:
        due = self._drum.expired()
        if due == 0:
            return
        self._tick += due
        late = now() - (self._start + self._tick * self._slice_s)
        if late < 0.5 * self._slice_s:
            slot = self.roster.machine.next_slot().slot
            self._number += 1
            at = -1 if slot is None else slot
            self._send(
                self._seal.beat(HeartbeatMessage(self._number, self.roster.version, raw(), at, self._slice_s))
            )
            self._late.append(late)
            due -= 1
        self._left_out += due

    def _send(self, datagram: bytes) -> None:
        if self._multicast is not None:
            self._send_to(datagram, (self._multicast, self.address[1]))
        for peer in self._nodes.values():
            if peer.address is not None and not peer.multicast:
                self._send_to(datagram, peer.address)

    def _send_to(self, datagram: bytes, address: tuple[str, int]) -> None:
        # A full or broken network loses this one; the nodes know what to do without.
        with suppress(OSError):
            self._datagrams.sendto(datagram, address)

    def _here(self) -> None:
        """Nodes show that they are here, and where they listen."""
        for _ in range(_MOST_HERE + 4 * len(self._nodes)):
            try:
                datagram, address = self._datagrams.recvfrom(PRESENCE_BYTES + 1)
            except OSError:
                return
            with suppress(Forged):
                self._shown(self._seal.open_here(datagram), address[:2])

    def _shown(self, here: PresenceMessage, address: tuple[str, int]) -> None:
        peer = self._words.get(here.node)
        if peer is not None and here.number > peer.shown:
            peer.shown, peer.address, peer.heard_at = here.number, address, now()
            peer.silent, peer.multicast = here.silent, here.multicast

    # nodes

    def _came(self, connection: socket.socket) -> None:
        keep_honest(connection, SILENCE_S)
        stream = Stream(
            self._loop,
            connection,
            heard=lambda line: self._heard(peer, line),
            ended=lambda reason: self._ended(peer, reason),
        )
        peer = _Peer(stream=stream, challenge=random_word(), since=now())
        self._peers.add(peer)
        stream.send(_open({"apples": VERSION, "challenge": peer.challenge, "session": self._session}))

    def _heard(self, peer: _Peer, line: bytes) -> None:
        if peer.seal is None:
            self._hello(peer, line)
            return
        document = peer.seal.open(line)
        peer.heard_at = now()
        if peer.name is None:
            return
        if "registered" in document:
            entry = document["registered"]
            why = self.roster.registered(peer.name, entry, now())
            if why is not None:
                peer.stream.send(peer.seal.line({"refuse": entry["job"], "why": why}))
        elif "ended" in document:
            self.roster.ended(peer.name, document["ended"]["job"], document["ended"]["rank"], now())
        elif "status" in document:
            peer.status, peer.told_at = document["status"], peer.heard_at
            peer.silent, peer.multicast = peer.status["silent"], peer.status["multicast"]
            self._questions.has_told(peer)
        elif "ask" in document:
            stale = {one for one in self._nodes.values() if peer.heard_at - one.told_at > FRESH_S}
            self._questions.put(peer, document["ask"], stale)
        self._tell_all()

    def _ask(self, peer: _Peer) -> None:
        assert peer.seal is not None
        peer.stream.send(peer.seal.line({"tell": True}))

    def _answer(self, questions: list[tuple[_Peer, int]]) -> None:
        view = self.view()
        for peer, number in questions:
            assert peer.seal is not None
            peer.stream.send(peer.seal.line({"answer": number, "view": view}))

    def _hello(self, peer: _Peer, line: bytes) -> None:
        """A stranger proves that it holds the key, and is told so under a key that only we two can have now."""
        seal = Seal(derive(self._key, "hello", peer.challenge), ours="manager", theirs="node")
        try:
            hello = seal.open(line)
        except Forged:
            self._refuse(peer, "the keys differ; give the node the key file of this manager")
            return
        name, wanted = hello["node"], hello["policy"]
        if wanted != self._sharing.policy.name:
            self._refuse(peer, f"the manager's policy is {self._sharing.policy.name}, the node's {wanted}")
            return
        old = self._nodes.get(name)
        if old is not None and old.word != hello["word"] and now() - old.heard_at < SILENCE_S:
            self._refuse(peer, f"a node {name} is connected already; give one of them another --name")
            return
        if old is not None:
            self._forget(old)
            old.name = None
            old.stream.close()
        peer.seal = Seal(
            derive(self._key, "stream", peer.challenge, hello["nonce"]), ours="manager", theirs="node"
        )
        peer.name, peer.word, peer.heard_at = name, hello["word"], now()
        peer.processors, peer.shown = hello["processors"], hello["shown"]
        peer.stream.trust(LONGEST_LINE)
        self._nodes[name] = self._words[peer.word] = peer
        self._count()
        welcome = {
            "place": self.place,
            "policy": self._sharing.policy.name,
            "slice_s": self._sharing.slice_s,
            "multicast": self._multicast,
        }
        peer.stream.send(peer.seal.line(welcome))
        self._ask(peer)
        if self._nodes.get(name) is not peer:
            # It has gone again, and been counted out.
            return
        placed = {job: job_of_json(entry) for job, entry in hello["placed"].items()}
        for job, why in self.roster.joined(name, hello["processors"], hello["processes"], placed, now()):
            peer.stream.send(peer.seal.line({"refuse": job, "why": why}))
        held = f", with {len(hello['processes'])} processes" if hello["processes"] else ""
        self._say(f"node {name} has joined: {hello['processors']} processors{held}")
        self._tell_all()

    def _refuse(self, peer: _Peer, why: str) -> None:
        peer.stream.send(_open({"refused": why}))
        peer.stream.close(why)

    def _ended(self, peer: _Peer, reason: str) -> None:
        self._peers.discard(peer)
        self._questions.has_told(peer)
        if peer.name is not None and self._nodes.get(peer.name) is peer:
            self._forget(peer)
            self.roster.lost(peer.name, now())
            self._count()
            self._say(f"node {peer.name} is lost: {reason}")
            self._tell_all()
        elif peer.seal is None:
            self._say(f"a stranger is gone: {reason}")

    def _forget(self, peer: _Peer) -> None:
        assert peer.name is not None
        del self._nodes[peer.name]
        self._words.pop(peer.word, None)

    def _count(self) -> None:
        self._counted({name: peer.processors for name, peer in self._nodes.items()})

    def _tell_all(self) -> None:
        """Let every node know what has changed for it."""
        if self._told == self.roster.version:
            return
        self._told = self.roster.version
        # One that cannot be told any more leaves meanwhile, which is told to those that are left.
        for name, peer in list(self._nodes.items()):
            if self._nodes.get(name) is not peer:
                continue
            assert peer.seal is not None
            peer.stream.send(peer.seal.line({"matrix": self.roster.view(name).as_json()}))

    def _second(self) -> None:
        # After a stop all that has come is read before anybody is called silent.
        self._here()
        instant = now()
        self.roster.tick(instant)
        self._tell_all()
        for peer in list(self._peers):
            if peer.seal is None:
                if instant - peer.since > _STRANGER_S:
                    peer.stream.close("it does not say who it is")
            elif instant - peer.heard_at > SILENCE_S:
                peer.stream.close(f"nothing heard of it for {SILENCE_S:g} s")
            elif peer.name is not None and instant - peer.heard_at > _ASK_S:
                # Its datagrams may get lost, or not be let through: lines are.
                self._ask(peer)
            elif peer.silent or self._slice_s > PULSE_S:
                # The others know by the beats that we are here.
                peer.stream.send(peer.seal.line({"pulse": True}))
        if self._nodes:
            self._needed_at = instant + _NEXT_S
        if self._while_needed and instant > self._needed_at:
            self._loop.stop()
        self._next_second()

    def _next_second(self) -> None:
        self._loop.at(between_heartbeats(self._start, self._slice_s, now() + PULSE_S), self._second)

    def view(self) -> Json:
        """The whole machine, for people."""
        instant = now()
        late = sorted(self._late)
        return {
            "place": self.place,
            "policy": self._sharing.policy.name,
            "slice_s": self._sharing.slice_s,
            "mpl": self._sharing.rows,
            "settled": self.roster.settled,
            "beats": self._number,
            "left_out": self._left_out,
            "late_s": {
                "p50": late[len(late) // 2] if late else None,
                "p95": late[int(len(late) * 0.95)] if late else None,
                "most": late[-1] if late else None,
            },
            "jobs": self.roster.describe(),
            "nodes": {
                name: peer.status
                | {
                    "silent": peer.silent,
                    "heard_s": instant - peer.heard_at,
                    "told_s": instant - peer.told_at,
                }
                | {"address": peer.address}
                for name, peer in sorted(self._nodes.items())
            },
        }


def _open(document: Json) -> bytes:
    import json

    return json.dumps(document).encode() + b"\n"
