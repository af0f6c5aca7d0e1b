"""The policies by name, with the parts of the system that each of them needs.

A policy is added by an entry in `POLICIES`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from apples.coscheduling.classes import FcsConstants
from apples.coscheduling.fcs import Fcs
from apples.coscheduling.messagedriven import MessageDriven, MessageDrivenConstants
from apples.coscheduling.needs import ShareByNeed
from apples.coscheduling.node import Gang, NodePolicy, SpinBlock, Uncoordinated
from apples.errors import ConfigError


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
        raise ConfigError(f"no policy is called {name!r}; legal are: {', '.join(POLICIES)}") from None
