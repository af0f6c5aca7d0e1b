"""What the policies of a node have in common: who is here, what is wanted of whom, and what has changed.

A node policy is a state machine without a clock. It never fails on an event about a process that is gone: jobs
end when they like.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from apples.coscheduling.events import (
    Heartbeat,
    Instruction,
    JobArrived,
    JobLeft,
    NodeEvent,
    Order,
    Process,
    ProcessLeft,
    Silence,
    Wait,
)

RUN_POLLING = Order()
RUN_SPINNING = Order(wait=Wait.SPIN_BLOCK)
STOPPED = Order(run=False)


class NodePolicy:
    """One node under one policy. Subclasses decide in `_decide` and in the handlers they add.

    needs_monitor : the policy reads measurements or switches how processes wait, so programs need the monitor
    """

    needs_monitor: ClassVar[bool] = False

    def __init__(self) -> None:
        #: By process, the processor it belongs to, in the order of arrival.
        self._here: dict[Process, int] = {}
        self._wanted: dict[Process, Order] = {}
        self._silent = False

    @property
    def wanted(self) -> Mapping[Process, Order]:
        """What every process on the node should be doing now."""
        return MappingProxyType(self._wanted)

    @property
    def jobs(self) -> tuple[str, ...]:
        """Jobs on the node in the order of arrival."""
        return tuple(dict.fromkeys(process.job for process in self._here))

    def on(self, event: NodeEvent) -> list[Instruction]:
        """Take one event in; returns what must change, nothing for an event that concerns nobody."""
        if isinstance(event, JobArrived):
            self._here.update(event.processors)
            self._arrived(event)
        elif isinstance(event, JobLeft):
            for process in [p for p in self._here if p.job == event.job]:
                self._forget(process)
            self._left(event)
        elif isinstance(event, ProcessLeft):
            self._forget(event.process)
        elif isinstance(event, Silence):
            self._silent = True
            return self._change(dict.fromkeys(self._here, RUN_SPINNING))
        elif isinstance(event, Heartbeat):
            self._silent = False
            self._beat(event)
        else:
            self._other(event)
        if self._silent:
            return self._change(dict.fromkeys(self._here, RUN_SPINNING))
        return self._change(self._decide())

    def _decide(self) -> Mapping[Process, Order]:
        """What is wanted now, of every process in `_here`."""
        raise NotImplementedError

    def _arrived(self, event: JobArrived) -> None:
        """A job has come; it is in `_here`."""

    def _left(self, event: JobLeft) -> None:
        """A job has gone; it is no longer in `_here`."""

    def _beat(self, event: Heartbeat) -> None:
        """A slot begins."""

    def _other(self, event: NodeEvent) -> None:
        """An event that only some policies know."""

    def _forget(self, process: Process) -> None:
        self._here.pop(process, None)
        self._wanted.pop(process, None)

    def _change(self, wanted: Mapping[Process, Order]) -> list[Instruction]:
        now = self._wanted
        changes = [
            Instruction(process, order, before)
            for process, order in wanted.items()
            if (before := now.get(process)) is not order and before != order
        ]
        for process, order, _ in changes:
            now[process] = order
        return changes


class Uncoordinated(NodePolicy):
    """Every process runs when its operating system likes, and waits as its MPI does: what there is without us."""

    def _decide(self) -> Mapping[Process, Order]:
        return dict.fromkeys(self._here, RUN_POLLING)


class SpinBlock(NodePolicy):
    """Every process runs when its operating system likes; who waits for long lets others run (ICS; section 3)."""

    needs_monitor = True

    def _decide(self) -> Mapping[Process, Order]:
        return dict.fromkeys(self._here, RUN_SPINNING)


class Gang(NodePolicy):
    """Whoever has the slot runs and polls, everybody else is stopped. With one row only it is batch."""

    def __init__(self) -> None:
        super().__init__()
        self._slot: Heartbeat | None = None

    def _beat(self, event: Heartbeat) -> None:
        self._slot = event

    def _decide(self) -> Mapping[Process, Order]:
        slot = self._slot
        if slot is None or slot.slot is None:
            return dict.fromkeys(self._here, RUN_POLLING)
        return {
            process: RUN_POLLING if process.job == owner(slot, processor) else STOPPED
            for process, processor in self._here.items()
        }


def owner(slot: Heartbeat, processor: int) -> str | None:
    """Whose the processor is in this slot: its own job's, else the job's that may fill it."""
    return slot.jobs.get(processor) or slot.fill.get(processor)
