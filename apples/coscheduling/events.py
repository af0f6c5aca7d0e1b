"""Events of a node policy and the orders that answer them.

A policy has one protocol: `on(event)` changes its state, `wanted()` returns the order of every process on the node.
The simulator and the node manager use the same two calls. A node manager asserts all orders again at every
heartbeat, because signals get lost and other programs stop or resume processes too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from apples.coscheduling.classes import MonitorCounts, ProcessClass

#: Seconds from one `Measured` to the next.
MEASURED_EVERY_S = 1.0


class Process(NamedTuple):
    """One rank of one job."""

    job: str
    rank: int


class Wait(Enum):
    """How a process waits for a message. Adaptive: the way that is measured to be the fastest while it runs."""

    POLL = "poll"
    SPIN_BLOCK = "spin-block"
    ADAPTIVE = "adaptive"


@dataclass(frozen=True, slots=True)
class Order:
    """The wanted state of one process.

    run : True if the process may run, False if it is stopped
    wait : how it waits for messages
    favoured : True if it runs ahead of every other process on its processor
    nice : steps of niceness above its own, while it is not favoured
    share : strict limit on the CPU share of its job on the node; None for no limit
    """

    run: bool = True
    wait: Wait = Wait.POLL
    favoured: bool = False
    share: float | None = None
    nice: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArrived:
    """Processes of a job are on the node.

    processors : by process, the number of its processor, from 0
    classes : by process, its class in an earlier run; without processes of which none is known
    user : number of its user
    """

    job: str
    processors: Mapping[Process, int]
    classes: Mapping[Process, ProcessClass] = field(default_factory=dict)
    now: float = 0.0
    user: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLeft:
    """The job has no process left on the node."""

    job: str
    now: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLeft:
    """One process has ended while others of its job continue."""

    process: Process
    now: float = 0.0


class Heartbeat(NamedTuple):
    """A slot begins. A tuple, because every heartbeat makes one on every node.

    slot : number of the matrix row, None if no job runs
    jobs : by processor, the job that owns it in this slot; a processor that is missing is idle
    fill : by processor, a job of another slot that may use it, because all its processors are idle in this slot
    readings : by process, the monitor's counts since its start, at least of the owners of the slot that ends
    shares : by owner of the slot that ends, the time that it ran there as a share of the time for which it was ready;
        without processes of which it is unknown
    """

    slot: int | None
    jobs: Mapping[int, str] = MappingProxyType({})
    fill: Mapping[int, str] = MappingProxyType({})
    readings: Mapping[Process, MonitorCounts] = MappingProxyType({})
    shares: Mapping[Process, float] = MappingProxyType({})
    now: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceEnded:
    """The node's own time slice is over. `cpu_s`: by job, CPU seconds consumed on this node since its arrival."""

    cpu_s: Mapping[str, float]
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Another `MEASURED_EVERY_S` is over. `readings`: by process, the monitor's counts since its start."""

    readings: Mapping[Process, MonitorCounts]
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageArrived:
    """A process has received a message.

    sender_scheduled : status sent with the message: the sender's job was scheduled on the sender's node
    cpu_s : by job, CPU seconds consumed on this node since its arrival; empty if the policy counts no CPU time
    """

    process: Process
    sender_scheduled: bool
    now: float
    cpu_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatLost:
    """No heartbeat arrived for too long, so every stopped process has to run."""

    now: float = 0.0


NodeEvent: TypeAlias = (
    JobArrived | JobLeft | ProcessLeft | Heartbeat | SliceEnded | Measured | MessageArrived | HeartbeatLost
)
