"""The machine manager: job table, connections of the nodes and heartbeats in one loop.

`jobtable` and `apples.coscheduling.machine` decide which jobs are in and where; the policy of a node decides the
meaning of a heartbeat there. Paper: FCS, section 2.2.

Connections of nodes until they have proved a key: how many one address may have, their proof, and the welcome.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Mapping

from apples.daemons.heartbeatsender import HeartbeatSender
from apples.daemons.ipc.eventloop import Loop, run_until_signal, settle_memory
from apples.daemons.ipc.listener import Listener, bound, raise_descriptors
from apples.daemons.ipc.peers import peer_address
from apples.daemons.ipc.streams import Stream, keep_honest
from apples.daemons.ipc.timer import now, with_heartbeat
from apples.daemons.ipc.wire import PULSE_S, SILENCE_S, DatagramSeal, Forged, derive, random_word
from apples.daemons.jobtable import JobTable
from apples.daemons.nodeconnection import NodeConnection
from apples.daemons.nodemessages import (
    TO_MANAGER,
    Ask,
    Ended,
    Hello,
    MachineView,
    ProcessRegistered,
    RefuseJob,
    Report,
    View,
    Welcome,
    legal,
)
from apples.daemons.settings import SharingSettings, address_text
from apples.daemons.statusqueries import FRESH_S, StatusQueries
from nws.base.detach import notify
from nws.base.ratelimit import RefusalLog

#: Real-time priority of a manager's program: above the node managers', below the watchdog's.
PRIORITY = 11
#: With `while_needed`: wait for the first node, and after the last one, seconds.
_FIRST_S, _NEXT_S = 10.0, 2.0

#: Connections of one address that have not proved a key: at most, and as a part of the descriptors.
_MOST_UNPROVED, _UNPROVED_SHARE = 256, 8


class NodeAdmission:
    """The admission of nodes to one manager.

    session : random word of the manager's process.  group_seal : of heartbeats by multicast, for all admitted nodes
    """

    def __init__(self, key: bytes, policy: str, *, log: Callable[[str], None]) -> None:
        self._key, self._policy, self._log_refused = key, policy, RefusalLog(log)
        self._most = min(_MOST_UNPROVED, max(raise_descriptors() // _UNPROVED_SHARE, 1))
        self._unproved: Counter[str] = Counter()
        # A restarted manager has another one, so that datagrams of the earlier session are worth nothing.
        self.session = random_word()
        self._group_key = derive(key, "group", self.session)
        self.group_seal = DatagramSeal(self._group_key, self.session)

    def greet(self, node: NodeConnection) -> None:
        """Send the challenge to a new connection, or refuse it if its address has too many without a proof."""
        # Before the challenge: each connection costs a descriptor from its first moment.
        self._unproved[node.peer] += 1
        if self._unproved[node.peer] > self._most:
            node.refuse(f"{self._most} connections of this address have not proved a key yet")
        else:
            node.greet(self.session)

    def read_hello(
        self,
        node: NodeConnection,
        line: bytes,
        names: Mapping[str, NodeConnection],
        words: Mapping[str, NodeConnection],
    ) -> Hello | None:
        """Return the first line of a node that may join; refuse any other with the reason, and return None.

        Args:
            node: The connection.
            line: Its first line.
            names: Connected nodes by name.
            words: Connected nodes by the random word of their process.

        Raises:
            Forged: The line proves the key, but is no introduction.
        """
        try:
            text = node.open_hello(self._key, line)
        except Forged:
            # Not sealed, because there is no common key; the node only logs it.
            node.refuse("the keys differ; give the node a key of this manager, made for its name")
            return None
        hello = legal(TO_MANAGER, text)
        if not isinstance(hello, Hello):
            raise Forged("a line that is not legal: no introduction")
        why = _objection(hello, self._policy, names, words)
        if why is None:
            return hello
        node.refuse(why)
        return None

    def admit(self, node: NodeConnection, hello: Hello) -> None:
        """Take over the introduction of a node; it counts no longer among connections without a proof."""
        node.admit(self.session, hello, now())
        self._count_out(node)

    def welcome(self, node: NodeConnection, place: str, slice_s: float, multicast: str | None) -> None:
        """Send the first sealed line, with the key of multicast heartbeats."""
        node.send(
            Welcome(
                place=place,
                policy=self._policy,
                slice_s=slice_s,
                multicast=multicast,
                group_key=node.hidden(self._group_key),
            )
        )

    def ended(self, node: NodeConnection, reason: str) -> None:
        """Log and forget a connection that ended before it was admitted."""
        self._count_out(node)
        before = "joined" if node.proved else "proved its key"
        self._log_refused(node.client, f"a connection ended before it {before}: {reason}")

    def _count_out(self, node: NodeConnection) -> None:
        self._unproved[node.peer] -= 1
        if not self._unproved[node.peer]:
            del self._unproved[node.peer]


def _objection(
    hello: Hello, policy: str, names: Mapping[str, NodeConnection], words: Mapping[str, NodeConnection]
) -> str | None:
    """Return the reason to refuse a node, None to admit it."""
    if hello.policy != policy:
        return f"the manager's policy is {policy}, the node's {hello.policy}"
    known = names.get(hello.node)
    # The same word is the same process, which connects again after a cut.
    if known is not None and known.word != hello.word and now() - known.heard_at < SILENCE_S:
        return f"a node {hello.node} is connected already; give one of them another --name"
    holder = words.get(hello.word)
    if holder is not None and holder is not known:
        # Signs of life are assigned by this word: a node must not take those of another.
        return f"its random word is that of node {holder.name}; start it again"
    return None


class ManagerDaemon:
    """One manager; `run` until a signal arrives. Raises `SharingError` if it cannot listen."""

    def __init__(
        self,
        sharing: SharingSettings,
        key: bytes,
        *,
        log: Callable[[str], None],
        realtime: bool = False,
        while_needed: bool = False,
        counted: Callable[[Mapping[str, int]], None] = lambda nodes: None,
    ) -> None:
        """Call `counted` with the processors of all connected nodes after each join or loss.

        `realtime`: this process has a real-time priority, which the log states.
        """
        self._sharing, self._log, self._counted, self._realtime = sharing, log, counted, realtime
        self._while_needed, self._needed_at = while_needed, now() + _FIRST_S
        self._admission = NodeAdmission(key, sharing.policy.name, log=log)
        self._loop = Loop(precise=False, failed=lambda error: log(f"refused, because of {error!r}"))
        # Both have one port: nodes know a single address.
        listener, datagrams = bound(sharing.listen)
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self.place = address_text(self.address)
        self.jobs = JobTable(sharing.rows, now())
        self._connections: set[NodeConnection] = set()
        self._nodes: dict[str, NodeConnection] = {}
        self._sent_version = -1
        self._queries = StatusQueries(self._loop, ask=NodeConnection.ask, answer=self._answer)
        self.heartbeats = HeartbeatSender(
            self._loop,
            datagrams,
            self._admission.group_seal,
            sharing.slice_s,
            multicast=sharing.multicast,
            jobs=self.jobs,
            nodes=self._nodes,
        )
        self._listener = Listener(self._loop, listener, self._connected)

    def run(self) -> int | None:
        """Run until a signal arrives, and return its number; None if the daemon is no longer needed."""
        return run_until_signal(self._loop, self.close, starting=self._start)

    def _start(self) -> None:
        priority = "real time" if self._realtime else "ordinary"
        self._log(_introduction(self.place, self._sharing, self.heartbeats.multicast, priority))
        settle_memory()
        self.heartbeats.start()
        self._next_second()
        notify(f"READY=1\nSTATUS=listens at {self.place}")

    def close(self) -> None:
        """Close all connections. Nodes resume all processes when no heartbeat arrives."""
        for connection in list(self._connections):
            connection.stream.close()
        self._listener.close()
        self.heartbeats.close()
        self._loop.close()

    def _connected(self, accepted: socket.socket) -> None:
        # A peer whose host has lost power says nothing; the kernel ends such connections.
        keep_honest(accepted, SILENCE_S)
        stream = Stream(
            self._loop,
            accepted,
            on_line=lambda line: self._line(connection, line),
            on_end=lambda reason: self._ended(connection, reason),
        )
        peer = peer_address(accepted)
        connection = NodeConnection(stream=stream, challenge=random_word(), since=now(), peer=peer)
        self._connections.add(connection)
        self._admission.greet(connection)

    def _line(self, node: NodeConnection, line: bytes) -> None:
        if node.seal is None:
            self._hello(node, line)
            return
        message = node.opened(line)
        # Only for lines that are sealed: other hosts can make no sign of life.
        node.heard_at = now()
        # A newer connection of this node has taken its place.
        if node.name is None:
            return
        if isinstance(message, ProcessRegistered):
            # The job is refused, not the process: it runs, without slots.
            why = self.jobs.registered(node.name, message.process, now())
            if why is not None:
                node.send(RefuseJob(job=message.process.job, why=why))
        elif isinstance(message, Ended):
            self.jobs.ended(node.name, message.job, message.rank, now())
        elif isinstance(message, Report):
            node.take_report(message.status)
            self._queries.reported(node)
        elif isinstance(message, Ask):
            stale = {one for one in self._nodes.values() if node.heard_at - one.told_at > FRESH_S}
            self._queries.put(node, message.query, stale)
        # After every message: one line may end a job and let another one begin.
        self._send_changes()

    def _answer(self, queries: list[tuple[NodeConnection, int]]) -> None:
        view = self.view()
        for node, number in queries:
            node.send(View(query=number, view=view))

    def _hello(self, node: NodeConnection, line: bytes) -> None:
        """Welcome the sender of a first line among the nodes, in place of an earlier connection, if it may join."""
        hello = self._admission.read_hello(node, line, self._nodes, self.heartbeats.words)
        if hello is None:
            return
        name = hello.node
        old = self._nodes.get(name)
        if old is not None:
            # Before the new one is entered under the same name.
            self._forget(old)
            # So that its end, which follows, does not count as the loss of the node.
            old.name = None
            old.stream.close()
        self._admission.admit(node, hello)
        self._nodes[name] = self.heartbeats.words[node.word] = node
        self._count()
        # The first sealed line: it proves the key to the node.
        self._admission.welcome(node, self.place, self._sharing.slice_s, self.heartbeats.multicast)
        node.ask()
        if self._nodes.get(name) is not node:
            # The connection broke while it was welcomed; `_ended` has removed it already.
            return
        for job, why in self.jobs.joined(name, hello.processors, hello.processes, hello.placed, now()):
            node.send(RefuseJob(job=job, why=why))
        held = f", with {len(hello.processes)} processes" if hello.processes else ""
        self._log(f"node {name} has joined: {hello.processors} processors{held}")
        self._send_changes()

    def _ended(self, node: NodeConnection, reason: str) -> None:
        self._connections.discard(node)
        self._queries.reported(node)
        if node.name is not None and self._nodes.get(node.name) is node:
            self._forget(node)
            self.jobs.lost(node.name, now())
            self._count()
            self._log(f"node {node.name} is lost: {reason}")
            self._send_changes()
        elif node.seal is None:
            self._admission.ended(node, reason)

    def _forget(self, node: NodeConnection) -> None:
        assert node.name is not None
        del self._nodes[node.name]
        self.heartbeats.words.pop(node.word, None)

    def _count(self) -> None:
        self._counted({name: node.processors for name, node in self._nodes.items()})

    def _send_changes(self) -> None:
        """Send every node its part of the matrix, if the matrix has changed."""
        if self._sent_version == self.jobs.version:
            return
        self._sent_version = self.jobs.version
        # A node that cannot be reached is removed meanwhile, which the nodes after it are sent too.
        for name, node in list(self._nodes.items()):
            if self._nodes.get(name) is node:
                node.send(self.jobs.view(name))

    def _second(self) -> None:
        # First: a step that fails must not be the last.
        self._next_second()
        # After a stop of this process, all datagrams are read before any node counts as silent.
        self.heartbeats.receive()
        instant = now()
        # After the datagrams, so that a stop of this process makes no node look lost.
        self.jobs.tick(instant)
        self._send_changes()
        for node in list(self._connections):
            node.keep_alive(instant, self.heartbeats.slice_s)
        if self._nodes:
            self._needed_at = instant + _NEXT_S
        if self._while_needed and instant > self._needed_at:
            self._loop.stop()

    def _next_second(self) -> None:
        # Due at a heartbeat, which the kernel timer makes quicker than an alarm: it is sent first.
        started, slice_s = self.heartbeats.started, self.heartbeats.slice_s
        self._loop.at(with_heartbeat(started, slice_s, now() + PULSE_S), self._second)

    def view(self) -> MachineView:
        """Return the state of the whole machine."""
        instant = now()
        return MachineView(
            place=self.place,
            policy=self._sharing.policy.name,
            slice_s=self._sharing.slice_s,
            mpl=self._sharing.rows,
            settled=self.jobs.settled,
            beats=self.heartbeats.sent,
            left_out=self.heartbeats.skipped,
            late_s=self.heartbeats.lateness(),
            jobs=self.jobs.describe(),
            nodes={name: node.describe(instant) for name, node in sorted(self._nodes.items())},
        )


def _introduction(place: str, sharing: SharingSettings, multicast: str | None, priority: str) -> str:
    return (
        f"manager at {place}, TCP and UDP: policy {sharing.policy.name}, slices of {sharing.slice_s * 1e3:g} ms, "
        f"heartbeats {'by multicast' if multicast else 'one by one'}, {priority} priority"
    )
