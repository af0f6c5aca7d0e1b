"""Connections of nodes until they have proved a key: how many one address may have, their proof, and the welcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from apples.daemons.ipc.listener import raise_descriptors
from apples.daemons.ipc.timer import now
from apples.daemons.ipc.wire import SILENCE_S, DatagramSeal, Forged, derive, random_word
from apples.daemons.nodeconnection import NodeConnection
from apples.daemons.nodemessages import TO_MANAGER, Hello, Welcome, legal
from nws.base.ratelimit import RefusalLog

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
        self.session = random_word()
        self._group_key = derive(key, "group", self.session)
        self.group_seal = DatagramSeal(self._group_key, self.session)

    def greet(self, node: NodeConnection) -> None:
        """Send the challenge to a new connection, or refuse it if its address has too many without a proof."""
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
        self._log_refused(node.client, f"a connection ended before it proved its key: {reason}")

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
    if known is not None and known.word != hello.word and now() - known.heard_at < SILENCE_S:
        return f"a node {hello.node} is connected already; give one of them another --name"
    holder = words.get(hello.word)
    if holder is not None and holder is not known:
        # Signs of life are assigned by this word: a node must not take those of another.
        return f"its random word is that of node {holder.name}; start it again"
    return None
