"""The manager's side of one connection: challenge, proof of the key, and sealed lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from apples.ipc.streams import Stream
from apples.ipc.wire import LONGEST_LINE, Json, Seal, derive


@dataclass(slots=True, eq=False)
class NodeConnection:
    """One connection, of a node once it has proved that it holds the key.

    challenge : random word of the manager.  word : random word of the node's process
    seal : None until the proof.  name : name of the node, None until then and after another connection replaced it
    address : destination of heartbeats, None until the node has shown it.  shown : number of that datagram
    multicast : the node receives the multicast group.  silent : no heartbeat has reached it for a while
    heard_at, told_at : last sign of life, last report.  status : the last report
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

    def open_hello(self, key: bytes, line: bytes) -> Json:
        """Return the first line of a node; raises `Forged` unless it proves that the sender holds the key."""
        return Seal(derive(key, "hello", self.challenge), ours="manager", theirs="node").open(line)

    def admit(self, key: bytes, hello: Json, now: float) -> None:
        """Take over the node's introduction. From here on lines are sealed under a key that only both sides have."""
        self.seal = Seal(derive(key, "stream", self.challenge, hello["nonce"]), ours="manager", theirs="node")
        self.name, self.word, self.heard_at = hello["node"], hello["word"], now
        self.processors, self.shown = hello["processors"], hello["shown"]
        self.stream.trust(LONGEST_LINE)

    def send(self, document: Json) -> None:
        """Send a sealed line."""
        assert self.seal is not None
        self.stream.send(self.seal.line(document))

    def take_report(self, status: Json) -> None:
        """Store a report of the node's state."""
        self.status, self.told_at = status, self.heard_at
        self.silent, self.multicast = status["silent"], status["multicast"]

    def describe(self, now: float) -> Json:
        """Return the last report, its age and the age of the last sign of life in seconds, and the address."""
        return self.status | {
            "silent": self.silent,
            "heard_s": now - self.heard_at,
            "told_s": now - self.told_at,
            "address": self.address,
        }
