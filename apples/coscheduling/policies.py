"""The policies by name, with the parts of the system that each of them needs.

A policy is added by an entry in `POLICIES`.

Sharing by need: processes share processors in proportion to their computation, and block when they wait.

The duty cycle of a process is its computation as a share of computation and waiting. In an imbalanced job the process
with most work computes nearly always, and the others wait for it: they need less of their processors. A process whose
duty cycle is a fraction of the largest one on its node gets that fraction as its weight. All processes may run at any
time. The kernel's weight of a process falls by a factor of 1.25 with each step of niceness. Source of the idea: duty
cycles from PMPI as CPU weights without gang scheduling, arXiv 2604.00377 (2026).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from apples.coscheduling.classes import FcsConstants, MonitorCounts
from apples.coscheduling.events import JobArrived, Measured, NodeEvent, Order, Process, Wait
from apples.coscheduling.fcs import Fcs
from apples.coscheduling.messagedriven import MessageDriven, MessageDrivenConstants
from apples.coscheduling.nodestate import Gang, NodePolicy, SpinBlock, Uncoordinated
from apples.coscheduling.users import NICE_STEP
from apples.errors import ConfigError

#: Highest niceness that is given: a tenth of the weight.
_MOST = 10
#: A new duty cycle changes the niceness if it is at least this many steps off, so that noise changes nothing.
_CHANGE = 0.75


class ShareByNeed(NodePolicy):
    """One node that shares its processors by need."""

    needs_monitor = True

    def __init__(self) -> None:
        super().__init__()
        self._marks: dict[Process, MonitorCounts] = {}
        self._duty: dict[Process, float] = {}
        self._nice: dict[Process, int] = {}

    def _arrived(self, event: JobArrived) -> None:
        for process in event.processors:
            self._nice.setdefault(process, 0)

    def _forget(self, process: Process) -> None:
        super()._forget(process)
        for known in (self._marks, self._duty, self._nice):
            known.pop(process, None)

    def _other(self, event: NodeEvent) -> None:
        if not isinstance(event, Measured):
            return
        for process, reading in event.readings.items():
            if process not in self._here:
                continue
            seen = reading.since(self._marks.get(process, MonitorCounts()))
            self._marks[process] = reading
            if seen.t_cpu_s + seen.t_comm_s > 0:
                duty = seen.t_cpu_s / (seen.t_cpu_s + seen.t_comm_s)
                self._duty[process] = (self._duty.get(process, duty) + duty) / 2
        largest = max(self._duty.values(), default=0.0)
        for process, duty in self._duty.items():
            steps = math.log(largest / duty, NICE_STEP) if duty > 0 else math.inf
            if abs(steps - self._nice[process]) >= _CHANGE:
                self._nice[process] = round(min(steps, _MOST))

    def _decide(self) -> Mapping[Process, Order]:
        return {process: Order(wait=Wait.SPIN_BLOCK, nice=self._nice[process]) for process in self._here}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoschedulingConstants:
    """Constants of all policies. Time slice and spin time of `fcs` apply to gang and spin-block too."""

    fcs: FcsConstants = field(default_factory=FcsConstants)
    message_driven: MessageDrivenConstants = field(default_factory=MessageDrivenConstants)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyKind:
    """One policy.

    summary : one line of help.  node : makes the state machine of one node
    coordinated : needs heartbeats of a machine manager.  exclusive : one job of a user at a time on a processor
    own_timer : nodes have time slices of their own.  measured : nodes report the counts of all processes every second
    """

    name: str
    summary: str
    node: Callable[[CoschedulingConstants], NodePolicy]
    coordinated: bool = False
    exclusive: bool = False
    own_timer: bool = False
    measured: bool = False

    @property
    def needs_monitor(self) -> bool:
        """Return whether programs need the monitor, for measurements or for how they wait."""
        return self.node(CoschedulingConstants()).needs_monitor


POLICIES: dict[str, PolicyKind] = {
    kind.name: kind
    for kind in (
        PolicyKind(
            name="batch",
            summary="one job of each user at a time, first come first served; users take turns",
            node=lambda constants: Gang(),
            coordinated=True,
            exclusive=True,
        ),
        PolicyKind(
            name="gang",
            summary="jobs take turns, all processes of a job at once",
            node=lambda constants: Gang(),
            coordinated=True,
        ),
        PolicyKind(
            name="spin-block",
            summary="the operating system decides; who waits for long lets others run",
            node=lambda constants: SpinBlock(),
        ),
        PolicyKind(
            name="fcs",
            summary="turns for those that need them, by how each process communicates",
            node=lambda constants: Fcs(constants.fcs),
            coordinated=True,
        ),
        PolicyKind(
            name="message-driven",
            summary="no manager: messages bring the processes of a job together",
            node=lambda constants: MessageDriven(constants.message_driven),
            own_timer=True,
        ),
        PolicyKind(
            name="share-by-need",
            summary="the operating system decides, with weights by how much each process computes",
            node=lambda constants: ShareByNeed(),
            measured=True,
        ),
        PolicyKind(
            name="uncoordinated",
            summary="the operating system decides, processes wait as their MPI does",
            node=lambda constants: Uncoordinated(),
        ),
    )
}


def policy_kind(name: str) -> PolicyKind:
    """Return the policy of that name; raises `apples.errors.ConfigError` with the legal values."""
    try:
        return POLICIES[name]
    except KeyError:
        from nws.base.reader import did_you_mean

        hint = did_you_mean(name, POLICIES)
        raise ConfigError(f"no policy is called {name!r}{hint}; legal are {', '.join(POLICIES)}") from None
