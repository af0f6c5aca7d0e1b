"""The manager's side of one connection: challenge, proof of the key, and sealed lines."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from apples.daemons.ipc.streams import Stream
from apples.daemons.ipc.wire import (
    LONGEST_LINE,
    PULSE_S,
    SILENCE_S,
    DatagramSeal,
    Seal,
    derive,
    hidden,
    node_key,
    plain_line,
)
from apples.daemons.nodemessages import (
    TO_MANAGER,
    VERSION,
    Challenge,
    ConnectionRefused,
    FromManager,
    FromNode,
    Hello,
    NodeStatus,
    NodeView,
    Pulse,
    Tell,
    claimed_node,
    legal,
)

#: Time for a new connection to prove that it holds the key, seconds.
_UNPROVED_S = 3.0
#: A node without a sign of life for this time is asked for a report, seconds.
_ASK_S = 1.5 * PULSE_S


@dataclass(slots=True, eq=False)
class NodeConnection:
    """One connection, of a node once it has proved that it holds the key.

    challenge : random word of the manager.  word : random word of the node's process
    seal : None until the proof.  name : name of the node, None until then and after another connection replaced it
    address : destination of heartbeats, None until the node has shown it.  shown : number of that datagram
    multicast : the node receives the multicast group.  silent : no heartbeat has reached it for a while
    heard_at, told_at : last sign of life, last report.  status : the last report.  peer : numeric address
    proved : name of the node under whose key its first line was sealed, empty until then
    key : that key.  datagrams : seal of its datagrams.  nonce : random word of the node for this connection
    """

    stream: Stream
    challenge: str
    since: float
    peer: str = ""
    proved: str = ""
    key: bytes = field(default=b"", repr=False)
    nonce: str = ""
    datagrams: DatagramSeal | None = None
    seal: Seal | None = None
    name: str | None = None
    word: str = ""
    address: tuple[str, int] | None = None
    shown: int = 0
    multicast: bool = False
    silent: bool = True
    heard_at: float = 0.0
    told_at: float = 0.0
    status: NodeStatus | None = None
    processors: int = 0

    @property
    def client(self) -> str:
        """Return the client for the log's limit of refusals: an address, or a node of it with its key."""
        return f"{self.peer} with the key of node {self.proved}" if self.proved else self.peer

    def greet(self, session: str) -> None:
        """Send the challenge and the random word of the manager's session, not sealed."""
        self.stream.send(plain_line(Challenge(apples=VERSION, challenge=self.challenge, session=session)))

    def open_hello(self, key: bytes, line: bytes) -> bytes:
        """Return the text of a node's first line; raises `Forged` unless it proves the key of that node."""
        # The name is only claimed: a line of another node is not sealed with its key.
        name = claimed_node(line)
        claimed_key = node_key(key, name)
        hello = Seal(derive(claimed_key, "hello", self.challenge), ours="manager", theirs="node").open(line)
        # From here on the log of refusals counts by node, no longer by address.
        self.proved, self.key = name, claimed_key
        return hello

    def admit(self, session: str, hello: Hello, now: float) -> None:
        """Take over the node's introduction. From here on lines are sealed under a key that only both sides have."""
        self.datagrams, self.nonce = DatagramSeal(self.key, session), hello.nonce
        self.seal = Seal(
            derive(self.key, "stream", self.challenge, hello.nonce), ours="manager", theirs="node"
        )
        self.name, self.word, self.heard_at = hello.node, hello.word, now
        self.processors, self.shown = hello.processors, hello.shown
        # Reports of many processes are long; until the proof a line of a stranger costs little memory.
        self.stream.trust(LONGEST_LINE)

    def hidden(self, secret: bytes) -> str:
        """Return a secret that only the node can read, in hexadecimal digits."""
        return hidden(self.key, self.challenge, self.nonce, secret).hex()

    def send(self, message: FromManager) -> None:
        """Send a sealed line."""
        assert self.seal is not None
        self.stream.send(self.seal.line(msgspec.json.encode(message)))

    def opened(self, line: bytes) -> FromNode:
        """Return the message of a sealed line; raises `Forged`."""
        assert self.seal is not None
        message: FromNode = legal(TO_MANAGER, self.seal.open(line))
        return message

    def refuse(self, why: str) -> None:
        """Send the reason, which is not sealed, and close the connection."""
        self.stream.send(plain_line(ConnectionRefused(refused=why)))
        # After the reason was sent: the stream writes it before it closes, if the socket takes it.
        self.stream.close(why)

    def ask(self) -> None:
        """Request a report."""
        self.send(Tell())

    def keep_alive(self, now: float, slice_s: float) -> None:
        """Close a silent connection, ask a quiet one, or send a sign of life if heartbeats are none."""
        if self.seal is None:
            if now - self.since > _UNPROVED_S:
                self.stream.close(f"no proof of the key within {_UNPROVED_S:g} s")
        # The kernel ends dead connections as well, but not those of a process that is stopped.
        elif now - self.heard_at > SILENCE_S:
            self.stream.close(f"no sign of life for {SILENCE_S:g} s")
        elif self.name is not None and now - self.heard_at > _ASK_S:
            # Its datagrams may get lost or be blocked; lines arrive.
            self.ask()
        elif self.silent or slice_s > PULSE_S:
            # To all other nodes the heartbeats are the manager's sign of life.
            self.send(Pulse())

    def take_report(self, status: NodeStatus) -> None:
        """Store a report of the node's state."""
        # Age of the report is measured here, because clocks of hosts differ.
        self.status, self.told_at = status, self.heard_at
        self.silent, self.multicast = status.silent, status.multicast

    def describe(self, now: float) -> NodeView:
        """Return the last report, its age and the age of the last sign of life in seconds, and the address."""
        return NodeView(
            report=self.status,
            silent=self.silent,
            heard_s=now - self.heard_at,
            told_s=now - self.told_at,
            address=self.address,
        )
