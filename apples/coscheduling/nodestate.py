"""Base classes of node policies, and the policies without classes of processes.

A node policy is a state machine without a clock: `on(event)` changes its state, `wanted()` returns the orders. An event
about a process that has left is ignored, because jobs end at any time. A policy describes itself by the attributes of
`NodePolicy`; no caller asks for its class.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from apples.coscheduling.classes import Classification, ProcessClass
from apples.coscheduling.contention import Contention
from apples.coscheduling.events import (
    Heartbeat,
    HeartbeatLost,
    JobArrived,
    JobLeft,
    NodeEvent,
    Order,
    Process,
    ProcessLeft,
    Wait,
)
from apples.coscheduling.users import Users

RUN_POLLING = Order()
RUN_SPINNING = Order(wait=Wait.SPIN_BLOCK)
STOPPED = Order(run=False)

_NO_CLASSES: Mapping[Process, Classification] = MappingProxyType({})


class NodePolicy:
    """One node under one policy. Subclasses decide in `_decide` and in the handlers that they override.

    needs_monitor : the policy reads measurements or sets how processes wait, so programs need the monitor
    needs_shares : heartbeats have to report the shares of the owners of the slot that ends
    repeats : `wanted()` returns the same mapping object whenever a slot recurs unchanged, so callers may cache by it
    announces_scheduled : processes have to know whether their job is the `scheduled` one
    """

    needs_monitor: ClassVar[bool] = False
    needs_shares: ClassVar[bool] = False
    repeats: ClassVar[bool] = False
    announces_scheduled: ClassVar[bool] = False

    def __init__(self) -> None:
        #: By process, the number of its processor, in the order of arrival.
        self._here: dict[Process, int] = {}
        self._target: Mapping[Process, Order] = {}
        self._heartbeat_lost = False
        self._users = Users()

    def wanted(self) -> Mapping[Process, Order]:
        """Return the order of every process on the node. The mapping never changes after it was returned."""
        return self._target

    @property
    def jobs(self) -> tuple[str, ...]:
        """Jobs on the node in the order of arrival."""
        return tuple(dict.fromkeys(process.job for process in self._here))

    @property
    def scheduled(self) -> str | None:
        """The job that has the node; None if there is none, or the policy schedules no single job."""
        return None

    @property
    def contended(self) -> frozenset[str]:
        """Return the jobs that share their slots, because they do not get their processors (`Contention`)."""
        return frozenset()

    @property
    def classifications(self) -> Mapping[Process, Classification]:
        """Class and slot counts by process; empty if the policy has no classes."""
        return _NO_CLASSES

    def learned(self, process: Process) -> ProcessClass | None:
        """Return the class of a process after enough slots; None before, and if the policy has no classes."""
        return None

    def on(self, event: NodeEvent) -> None:
        """Handle one event; the new orders are the value of `wanted()`."""
        if isinstance(event, Heartbeat):
            self._heartbeat_lost = False
            self._heartbeat(event)
        elif isinstance(event, JobArrived):
            self._here.update(event.processors)
            self._users.arrived(event.job, event.user)
            self._arrived(event)
        elif isinstance(event, JobLeft):
            for process in [p for p in self._here if p.job == event.job]:
                self._forget(process)
            self._left(event)
            self._users.left(event.job)
        elif isinstance(event, ProcessLeft):
            self._forget(event.process)
        elif isinstance(event, HeartbeatLost):
            self._heartbeat_lost = True
        else:
            self._other(event)
        self._target = (
            self._users.weighed(dict.fromkeys(self._here, RUN_SPINNING))
            if self._heartbeat_lost
            else self._orders()
        )

    def _orders(self) -> Mapping[Process, Order]:
        """Return the orders now, for every process in `_here`."""
        return self._users.weighed(self._decide())

    def _decide(self) -> Mapping[Process, Order]:
        """Return new orders for every process in `_here`."""
        raise NotImplementedError

    def _arrived(self, event: JobArrived) -> None:
        """Handle the arrival of a job, which is in `_here` already."""

    def _left(self, event: JobLeft) -> None:
        """Handle the end of a job, which is no longer in `_here`."""

    def _heartbeat(self, event: Heartbeat) -> None:
        """Handle the begin of a slot."""

    def _other(self, event: NodeEvent) -> None:
        """Handle an event that only some policies use."""

    def _forget(self, process: Process) -> None:
        self._here.pop(process, None)


def changes(before: Mapping[Process, Order], after: Mapping[Process, Order]) -> bool:
    """Return whether any process in `after` has another order than in `before`, or none there."""
    return after is not before and any(before.get(process) != order for process, order in after.items())


class Uncoordinated(NodePolicy):
    """Processes run as the operating system decides and wait as their MPI does: the behaviour without scheduling."""

    def _decide(self) -> Mapping[Process, Order]:
        return dict.fromkeys(self._here, RUN_POLLING)


class SpinBlock(NodePolicy):
    """Processes run as the operating system decides; a process that waits long blocks (ICS; FCS paper, section 3)."""

    needs_monitor = True

    def _decide(self) -> Mapping[Process, Order]:
        return dict.fromkeys(self._here, RUN_SPINNING)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotDecision:
    """Orders of one slot. `owners`: processes that own it.  `alone`: those that should have their processors alone."""

    slot: Heartbeat
    orders: Mapping[Process, Order]
    owners: tuple[Process, ...]
    alone: tuple[Process, ...]


class SlottedPolicy(NodePolicy):
    """A policy with one decision per slot. Most heartbeats repeat an earlier slot, so decisions are cached.

    A decision is valid until processes arrive or leave, its slot has other jobs, or a subclass calls `_reconsider`.
    A contended job (`apples.coscheduling.contention`) has no slot to itself: subclasses let its processes run at any
    time, and block when they wait.
    """

    repeats = True
    needs_shares = True

    def __init__(self) -> None:
        super().__init__()
        self._slot: Heartbeat | None = None
        self._decisions: dict[int, SlotDecision] = {}
        #: The decision for `_slot`, None if there is none that is valid.
        self._decision: SlotDecision | None = None
        self._contention = Contention()

    @property
    def contended(self) -> frozenset[str]:
        """Return the jobs that share their slots."""
        return frozenset(job for job in self.jobs if job in self._contention)

    def _arrived(self, event: JobArrived) -> None:
        self._reconsider()

    def _forget(self, process: Process) -> None:
        super()._forget(process)
        self._reconsider()

    def _left(self, event: JobLeft) -> None:
        self._contention.forget(event.job)

    def _heartbeat(self, event: Heartbeat) -> None:
        ended = self._decision
        if event.shares and ended is not None and self._contention.ended(ended.alone, event.shares):
            self._reconsider()
        self._slot = event

    def _reconsider(self) -> None:
        """Drop all cached decisions."""
        self._decisions.clear()
        self._decision = None

    def _orders(self) -> Mapping[Process, Order]:
        slot = self._slot
        if slot is None or slot.slot is None:
            self._decision = None
            return self._users.weighed(dict.fromkeys(self._here, RUN_POLLING))
        known = self._decisions.get(slot.slot)
        # Most often both are the same objects.
        if known is not None and (known.slot.jobs, known.slot.fill) != (slot.jobs, slot.fill):
            self._reconsider()
            known = None
        if known is None:
            owners = self._owners(slot)
            alone = tuple(process for process in owners if self._wants_alone(process))
            orders = self._users.levelled(self._decide(), self._here, owners)
            known = SlotDecision(slot=slot, orders=orders, owners=owners, alone=alone)
            self._decisions[slot.slot] = known
        self._decision = known
        return known.orders

    def _decide(self) -> Mapping[Process, Order]:
        assert self._slot is not None
        return self._decide_slot(self._slot)

    def _decide_slot(self, slot: Heartbeat) -> Mapping[Process, Order]:
        """Return new orders for a slot that has jobs."""
        raise NotImplementedError

    def _wants_alone(self, process: Process) -> bool:
        """Return whether a process should have its processor alone in its slots, as far as possible."""
        return True

    def _owners(self, slot: Heartbeat) -> tuple[Process, ...]:
        """Return the processes that own the slot."""
        return tuple(p for p, processor in self._here.items() if slot.jobs.get(processor) == p.job)

    def _vacated(self, slot: Heartbeat) -> set[int]:
        """Return the processors whose owner in the slot has ended, or runs on other nodes only."""
        present = {None, *self.jobs}
        return {processor for processor in self._here.values() if owner(slot, processor) not in present}


class Gang(SlottedPolicy):
    """The owner of the slot runs and polls, all other processes are stopped. With one row only it is batch.

    Contended jobs share the slots of contended jobs, and those of no job. The rest of a slot whose owner has ended goes
    to the first job on the node.
    """

    def _decide_slot(self, slot: Heartbeat) -> Mapping[Process, Order]:
        contended, vacated = self.contended, self._vacated(slot)
        first = next((p.job for p, processor in self._here.items() if processor in vacated), None)
        orders: dict[Process, Order] = {}
        for process, processor in self._here.items():
            has = owner(slot, processor)
            if process.job == has:
                orders[process] = RUN_SPINNING if has in contended else RUN_POLLING
            elif processor in vacated:
                orders[process] = RUN_SPINNING if process.job == first else STOPPED
            else:
                shares = process.job in contended and (has is None or has in contended)
                orders[process] = RUN_SPINNING if shares else STOPPED
        return orders


def owner(slot: Heartbeat, processor: int) -> str | None:
    """Return the job that has the processor in this slot: the slot's own job, else the job that may fill it."""
    return slot.jobs.get(processor) or slot.fill.get(processor)
