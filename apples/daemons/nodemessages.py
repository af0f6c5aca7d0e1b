"""The lines between node managers and their machine manager, and the reports in them: one record each.

Both sides read with the same decoders, `TO_MANAGER` and `TO_NODE`. A line names its kind in the field `is`. Sizes are
bounded, so that no legal line can fill the memory. Reports go on to clients of a node manager (`exchanges`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from apples.daemons.ipc.wire import Forged

#: Of the lines between node managers and machine manager; sides that differ refuse each other.
VERSION = 5

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Word = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Rank = Annotated[int, Meta(ge=0, lt=1 << 20)]
Ranks = Annotated[int, Meta(ge=1, le=1 << 20)]
Slot = Annotated[int, Meta(ge=0, lt=1 << 16)]
Processors = Annotated[int, Meta(ge=1, le=1 << 16)]
Uid = Annotated[int, Meta(ge=0, lt=2**32)]


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="is", tag=str.lower):
    """A line between a node manager and its machine manager."""


class LinePart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a line."""


def check_rank(rank: int, ranks: int) -> None:
    """Raise `ValueError` unless a rank is one of so many."""
    if rank >= ranks:
        raise ValueError("a rank below the number of ranks is legal")


# from node manager to machine manager


class ProcessEntry(LinePart, frozen=True):
    """A registered process as the machine manager knows it."""

    job: Name
    rank: Rank
    ranks: Ranks
    uid: Uid

    def __post_init__(self) -> None:
        check_rank(self.rank, self.ranks)


class JobView(LinePart, frozen=True):
    """One job.

    slot : its row, None while it waits.  nodes : node of each rank, on the whole machine
    processors : by rank, the processor of its processes on this node
    """

    slot: Slot | None
    nodes: tuple[Name, ...]
    processors: Mapping[Rank, Count] = {}


class Hello(Line, frozen=True):
    """The introduction of a node. nonce : random word of this connection.  word : of the node's process

    shown : number of its last presence datagram.  placed : its jobs that had a slot in a matrix
    """

    node: Name
    word: Word
    nonce: Word
    policy: Name
    processors: Processors
    shown: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    processes: list[ProcessEntry]
    placed: Mapping[Name, JobView]


class ProcessRegistered(Line, frozen=True, tag="registered"):
    """A process has registered."""

    process: ProcessEntry


class Ended(Line, frozen=True):
    """A process has left."""

    job: Name
    rank: Rank


class Ask(Line, frozen=True):
    """The node wants the view of the whole machine. `query`: number that the answer has"""

    query: Count


class ProcessReport(Struct, frozen=True, kw_only=True):
    """One process as its node manager reports it; times in seconds, None where they are not measured.

    state : free, runs or stopped; of one that has left, the reason.  waits : how it waits for messages
    ran_s, off_s, queued_s : time for which it could run, outside MPI without a CPU, and while others had the CPU
    cpu_s : CPU seconds of the kernel.  refused : reason why the manager does not accept its job
    node : its node, where reports of several are together
    """

    job: str
    rank: int
    ranks: int
    pid: int
    uid: int
    state: str
    waits: str | None
    process_class: str | None = msgspec.field(name="class")
    monitored: bool
    stopped_s: float
    here_s: float
    ran_s: float
    off_s: float = 0.0
    queued_s: float = 0.0
    threads: int
    cpu_s: float | UnsetType | None = UNSET
    refused: str | None
    t_cpu_s: float | None
    t_comm_s: float | None
    c_comm: int | None
    granularity_s: float | None
    node: str | UnsetType = UNSET


class NodeStatus(Struct, frozen=True, kw_only=True):
    """The state of one node.

    slot : the current one, None without heartbeats.  slots : jobs with which a new one would share the node
    scheduled, contended : jobs that the node's policy runs, and that compete there.  powers : text by capability
    """

    node: str
    pid: int
    watchdog: int | None
    processors: int
    policy: str
    slice_s: float
    manager: str | None
    connected: bool
    silent: bool
    multicast: bool
    slot: int | None
    slots: Count
    scheduled: str | None
    contended: list[str] = []
    realtime: bool
    powers: Mapping[str, str] = {}
    processes: list[ProcessReport]

    @property
    def cut_off(self) -> bool:
        """Whether the node has a manager and does not reach it."""
        return self.manager is not None and not self.connected


class Report(Line, frozen=True):
    """The state of the node."""

    status: NodeStatus


# from machine manager to node manager


class Challenge(Line, frozen=True):
    """The manager's first line, not sealed. challenge, session : random words of connection and process"""

    apples: int
    challenge: Word
    session: Word


class ConnectionRefused(Line, frozen=True, tag="refused"):
    """The reason why a connection is refused; not sealed."""

    refused: str


class Welcome(Line, frozen=True):
    """The first sealed line. group_key : hidden key of heartbeats by multicast"""

    place: Name
    policy: Name
    slice_s: Annotated[float, Meta(gt=0)]
    multicast: str | None
    group_key: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class MatrixRow(LinePart, frozen=True):
    """One slot on one node. `jobs`: owner by processor.  `fill`: by processor, a job that may use it while idle"""

    jobs: Mapping[Count, Name] = {}
    fill: Mapping[Count, Name] = {}


class MatrixView(Line, frozen=True):
    """The part of the Ousterhout matrix that one node needs: all jobs with a process there, its own columns.

    version : counts the changes of the matrix; a heartbeat names the version to whose rows it refers
    settled : False while a restarted manager does not know all jobs yet
    """

    version: int = 0
    settled: bool = False
    rows: Mapping[Slot, MatrixRow] = {}
    jobs: Mapping[Name, JobView] = {}


class RefuseJob(Line, frozen=True):
    """A job is not accepted: its processes run freely."""

    job: Name
    why: str


class JobState(Struct, frozen=True, kw_only=True):
    """A job as the machine manager knows it. `state`: gathers, waits, in; here without a manager.

    registered, ended : ranks, as far as a manager counts them
    """

    state: str
    slot: int | None
    ranks: int
    registered: int | UnsetType = UNSET
    ended: int | UnsetType = UNSET
    nodes: list[str] | UnsetType = UNSET
    uid: int


class NodeView(Struct, frozen=True, kw_only=True):
    """A node as the machine manager knows it. report : the last one, None before the first

    heard_s, told_s : ages of the last sign of life and of the report.  address : where heartbeats go
    """

    report: NodeStatus | None
    silent: bool
    heard_s: float
    told_s: float
    address: tuple[str, int] | None


class Lateness(Struct, frozen=True, kw_only=True):
    """Quantiles of the lateness of heartbeats in seconds, None before the first."""

    p50: float | None
    p95: float | None
    most: float | None


class MachineView(Struct, frozen=True, kw_only=True):
    """The state of the whole machine. mpl : limit of rows.  beats, left_out : heartbeats sent and skipped"""

    place: str
    policy: str
    slice_s: float
    mpl: int | None
    settled: bool
    beats: int
    left_out: int
    late_s: Lateness
    jobs: Mapping[str, JobState]
    nodes: Mapping[str, NodeView]


class View(Line, frozen=True):
    """The answer to `Ask`."""

    query: Count
    view: MachineView


class Tell(Line, frozen=True):
    """The manager wants a report."""


class Pulse(Line, frozen=True):
    """Sign of life of a manager whose heartbeats do not arrive, or are rare."""


FromNode: TypeAlias = Hello | ProcessRegistered | Ended | Ask | Report
FromManager: TypeAlias = (
    Challenge | ConnectionRefused | Welcome | MatrixView | RefuseJob | View | Tell | Pulse
)
TO_MANAGER: msgspec.json.Decoder[FromNode] = msgspec.json.Decoder(FromNode)
TO_NODE: msgspec.json.Decoder[FromManager] = msgspec.json.Decoder(FromManager)


class _Claim(Struct, frozen=True):
    """The part of an introduction by which the manager finds the key."""

    node: Name


class _Greeting(Struct, frozen=True):
    """The part of a greeting that all versions have."""

    apples: object = None
    refused: str = ""


def legal(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """Return the record of a line; raises `Forged` if it is not legal."""
    try:
        # RecursionError: JSON may be nested deeper than the decoder goes.
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise Forged(f"a line that is not legal: {str(error)[:400]}") from None


def claimed_node(line: bytes) -> str:
    """Return the name by which the sender of a sealed first line calls itself; nothing is proved yet."""
    # The seal is not checked here, because the key follows from the name.
    claim: _Claim = legal(_CLAIM, line.partition(b" ")[2])
    return claim.node


def read_challenge(line: bytes) -> Challenge:
    """Return the manager's first line; raises `Forged` with its reason, or if it is of another version."""
    greeting: _Greeting = legal(_GREETING, line)
    # Before the version: a manager of another release may refuse for another reason.
    if greeting.refused:
        raise Forged(greeting.refused)
    if greeting.apples != VERSION:
        raise Forged(f"its protocol is {greeting.apples!r:.100}, ours {VERSION}; install the same version")
    challenge = legal(TO_NODE, line)
    if not isinstance(challenge, Challenge):
        raise Forged("a first line that is no challenge")
    return challenge


_CLAIM, _GREETING = msgspec.json.Decoder(_Claim), msgspec.json.Decoder(_Greeting)
