"""What the policies are told and what they answer.

Events go in, instructions come out. A policy of a node also keeps `wanted`: what every process on the node
should be doing now. Instructions are its changes, so that a simulator acts on the few that matter, while a
daemon can assert the whole of it again and again: signals get lost, processes are stopped by others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from apples.coscheduling.classes import MonitorCounts


class Process(NamedTuple):
    """One rank of one job."""

    job: str
    rank: int


class Wait(Enum):
    """How a process waits for a message."""

    POLL = "poll"
    SPIN_BLOCK = "spin-block"


@dataclass(frozen=True, slots=True)
class Order:
    """What is wanted of one process.

    run : may it run, or is it stopped
    wait : how it waits
    favoured : ahead of every other process on its processor
    share : CPU share that its job may have on the node, strictly; None for no limit
    """

    run: bool = True
    wait: Wait = Wait.POLL
    favoured: bool = False
    share: float | None = None


class Instruction(NamedTuple):
    """What must change: the new order of a process and the one before it (None for a process just arrived)."""

    process: Process
    order: Order
    before: Order | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArrived:
    """Processes of a job are on the node. `processors`: by process, the processor (0, 1, …) it belongs to."""

    job: str
    processors: Mapping[Process, int]
    now: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLeft:
    """The job has no process left on the node."""

    job: str
    now: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLeft:
    """One process is gone while others of its job go on."""

    process: Process
    now: float = 0.0


class Heartbeat(NamedTuple):
    """The machine manager says which slot begins. A tuple, because every beat makes one on every node.

    slot : number of the row, None when there is nothing to run
    jobs : by processor, the job that has it in this slot; a processor that is missing is idle in it
    fill : by processor, a job of another slot that may use it because all its processors are idle in this one
    readings : by process, what the monitor has counted since the start, at least for those whose slot ends
    """

    slot: int | None
    jobs: Mapping[int, str] = MappingProxyType({})
    fill: Mapping[int, str] = MappingProxyType({})
    readings: Mapping[Process, MonitorCounts] = MappingProxyType({})
    now: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceEnded:
    """A node's own time slice is over. `cpu_s`: by job, CPU seconds consumed on this node since it arrived."""

    cpu_s: Mapping[str, float]
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageArrived:
    """A process has received a message.

    sender_scheduled : the status that travelled with it: was the sender's job scheduled where it runs
    cpu_s : by job, CPU seconds consumed on this node since it arrived; may be left out where nothing is counted in them
    """

    process: Process
    sender_scheduled: bool
    now: float
    cpu_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatLost:
    """No heartbeat came for too long: whoever may be stopped has to run."""

    now: float = 0.0


NodeEvent: TypeAlias = (
    JobArrived | JobLeft | ProcessLeft | Heartbeat | SliceEnded | MessageArrived | HeartbeatLost
)
