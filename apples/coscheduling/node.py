"""What the policies of a node have in common: who is here, what is wanted of whom, and what has changed.

A node policy is a state machine without a clock. It never fails on an event about a process that is gone: jobs
end when they like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from apples.coscheduling.events import (
    Heartbeat,
    HeartbeatLost,
    Instruction,
    JobArrived,
    JobLeft,
    NodeEvent,
    Order,
    Process,
    ProcessLeft,
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
        self._wanted: Mapping[Process, Order] = {}
        self._silent = False

    @property
    def wanted(self) -> Mapping[Process, Order]:
        """What every process on the node should be doing now; the very same record while a policy keeps its answer."""
        return self._wanted

    @property
    def jobs(self) -> tuple[str, ...]:
        """Jobs on the node in the order of arrival."""
        return tuple(dict.fromkeys(process.job for process in self._here))

    def on(self, event: NodeEvent) -> list[Instruction]:
        """Take one event in; returns what must change, nothing for an event that concerns nobody.

        A list that was given out may be given out again: it is to be read only.
        """
        if isinstance(event, Heartbeat):
            self._silent = False
            self._beat(event)
        elif isinstance(event, JobArrived):
            self._here.update(event.processors)
            self._arrived(event)
        elif isinstance(event, JobLeft):
            for process in [p for p in self._here if p.job == event.job]:
                self._forget(process)
            self._left(event)
        elif isinstance(event, ProcessLeft):
            self._forget(event.process)
        elif isinstance(event, HeartbeatLost):
            self._silent = True
            return self._change(dict.fromkeys(self._here, RUN_SPINNING))
        else:
            self._other(event)
        if self._silent:
            return self._change(dict.fromkeys(self._here, RUN_SPINNING))
        return self._react()

    def _react(self) -> list[Instruction]:
        """What must change now."""
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
        self._wanted = {p: order for p, order in self._wanted.items() if p != process}

    def _change(self, wanted: Mapping[Process, Order]) -> list[Instruction]:
        """From now on that is wanted, of every process in `_here`; what does that change."""
        now = self._wanted
        changes = [
            Instruction(process, order, before)
            for process, order in wanted.items()
            if (before := now.get(process)) is not order and before != order
        ]
        self._wanted = wanted
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotDecision:
    """What is wanted in a slot.

    owners : processes whose slot it is
    changes : what must change to come to it, by the answer before
    """

    slot: Heartbeat
    orders: Mapping[Process, Order]
    owners: tuple[Process, ...]
    changes: dict[SlotDecision, list[Instruction]] = field(default_factory=dict)


class SlottedPolicy(NodePolicy):
    """A policy that goes by slots. Most beats bring nothing new, so its answers are kept.

    They hold until processes come or go, slots have other jobs, or a subclass says `_reconsider`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._slot: Heartbeat | None = None
        self._answers: dict[int, SlotDecision] = {}
        #: The answer to `_slot`, None when it has none that holds.
        self._given: SlotDecision | None = None

    def _arrived(self, event: JobArrived) -> None:
        self._reconsider()

    def _forget(self, process: Process) -> None:
        super()._forget(process)
        self._reconsider()

    def _beat(self, event: Heartbeat) -> None:
        self._slot = event

    def _reconsider(self) -> None:
        """Nothing that was answered holds any longer."""
        self._answers.clear()
        self._given = None

    def _react(self) -> list[Instruction]:
        slot, before = self._slot, self._given
        if slot is None or slot.slot is None:
            self._given = None
            return super()._react()
        answer = self._given = self._answer(slot.slot, slot)
        if before is None or self._wanted is not before.orders:
            return self._change(answer.orders)
        if answer is before:
            return []
        changes = answer.changes.get(before)
        if changes is None:
            changes = answer.changes[before] = self._change(answer.orders)
        self._wanted = answer.orders
        return changes

    def _answer(self, number: int, slot: Heartbeat) -> SlotDecision:
        """The answer to a slot of that number, kept or new."""
        known = self._answers.get(number)
        if known is not None:
            if same(known.slot.jobs, slot.jobs) and same(known.slot.fill, slot.fill):
                return known
            self._reconsider()
        answer = SlotDecision(slot=slot, orders=self._decide(), owners=self._owners(slot))
        self._answers[number] = answer
        return answer

    def _owners(self, slot: Heartbeat) -> tuple[Process, ...]:
        """Processes whose slot it is."""
        return tuple(p for p, processor in self._here.items() if slot.jobs.get(processor) == p.job)


def same(one: Mapping[int, str], other: Mapping[int, str]) -> bool:
    """Are processors given to the same jobs; quick where it is the very same record."""
    return one is other or one == other


class Gang(SlottedPolicy):
    """Whoever has the slot runs and polls, everybody else is stopped. With one row only it is batch."""

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
