"""A short speed test of hosts that were checked: the application's kernel on each, and the links between them.

All hosts compute at once. Links are measured in rounds of a tournament, so that no host is in two probes at a time, and
in both directions. `apples.hosts.slowness` interprets the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from apples.hosts.conversation import AgentConversation, together
from apples.hosts.hostmessages import (
    AskKernel,
    AskLink,
    AskLoss,
    AskServe,
    HostCheckError,
    KernelAnswer,
    LinkAnswer,
    LossAnswer,
    PortAnswer,
)
from apples.hosts.hostpreflight import Checked
from nws.base.program import OWN_PYTHON

#: A mesh that one process goes over in a moment, and that fits every host's memory.
KERNEL = ("-m", "stencil_app", "heat", "--benchmark", "OUTPUT", "--rows", "16", "--nx", "64", "--ny", "64")

#: Seconds: kernels may have to be compiled first; one direction of a link, its losses, and its answer.
KERNEL_S, LINK_S, LOSS_S, ANSWER_S = 120.0, 3.0, 8.0, 10.0

CheckedConnection = tuple[Checked, AgentConversation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """CPU seconds for one cell and iteration of the heat equation; None with the reason if it failed."""

    seconds_per_cell: float | None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpeed:
    """From one host to another: one-way latency and bandwidth, None with the reason if the probe failed.

    lost : share of small messages that were lost on the way, None where it was not measured
    """

    source: str
    target: str
    latency_s: float | None = None
    bandwidth_Bps: float | None = None
    error: str | None = None
    lost: float | None = None


def kernels(hosts: Sequence[CheckedConnection]) -> dict[str, Kernel]:
    """Return the kernel's speed on every host, by name."""
    command = [*OWN_PYTHON, *KERNEL]

    def one(host: CheckedConnection) -> Kernel:
        try:
            answer = host[1].question(AskKernel(command=command), KernelAnswer, KERNEL_S)
        except HostCheckError as trouble:
            return Kernel(seconds_per_cell=None, error=str(trouble))
        return Kernel(seconds_per_cell=answer.seconds_per_cell)

    return dict(
        zip((checked.candidate.name for checked, _ in hosts), together(one, hosts, stop=_stop), strict=True)
    )


def links(hosts: Sequence[CheckedConnection], *, losses: bool = False) -> list[LinkSpeed]:
    """Return every ordered pair of hosts with known addresses, in the order of measurement.

    Args:
        hosts: that were checked
        losses: measure also the share of lost messages, half a second for each pair
    """
    addresses = addresses_among([checked for checked, _ in hosts])
    reached = [host for host in hosts if host[0].candidate.name in addresses]
    if len(reached) < 2:
        return []
    ports = dict(
        zip(
            addresses,
            together(lambda host: _serve(host, addresses[host[0].candidate.name]), reached),
            strict=True,
        )
    )
    measured: list[LinkSpeed] = []
    for turn in tournament(len(reached)):

        def both_ways(pair: tuple[int, int]) -> list[LinkSpeed]:
            a, b = (reached[i] for i in pair)
            return [_probe(source, target, addresses, ports, losses) for source, target in ((a, b), (b, a))]

        for some in together(both_ways, turn):
            measured += some
    return measured


def addresses_among(checked: Sequence[Checked]) -> dict[str, str]:
    """Return the numeric address of each host as the others reach it, in their order. Unknown ones are missing."""
    reports = [one.facts for one in checked]
    here = next((ours for facts in reports if facts is not None and (ours := facts.our_address)), None)
    address_of_host: dict[str, str] = {}
    for one in checked:
        reached_at = None if one.facts is None else one.facts.reached_at
        # This machine was not reached by ssh, so the others tell how they see it.
        address = here if one.candidate.address is None else reached_at
        if address is not None:
            address_of_host[one.candidate.name] = address
    return address_of_host


def tournament(count: int) -> list[list[tuple[int, int]]]:
    """Return rounds in which every two of `count` meet once, and none meets two at a time.

    >>> tournament(4)
    [[(0, 3), (1, 2)], [(0, 2), (3, 1)], [(0, 1), (2, 3)]]
    """
    # With an odd count, the host that meets number `count` pauses in this round.
    places = list(range(count + count % 2))
    half = len(places) // 2
    turns = []
    for _ in range(len(places) - 1):
        pairs = [(places[i], places[-1 - i]) for i in range(half)]
        turns.append([pair for pair in pairs if count not in pair])
        # The circle method: the first stays, the others move on by one.
        places = [places[0], places[-1], *places[1:-1]]
    return turns


def _stop(host: CheckedConnection) -> None:
    host[1].stop()


def _serve(host: CheckedConnection, address: str) -> int | None:
    try:
        return host[1].question(AskServe(address=address), PortAnswer, ANSWER_S).port
    except HostCheckError:
        return None


def _probe(
    source: CheckedConnection,
    target: CheckedConnection,
    addresses: Mapping[str, str],
    ports: Mapping[str, int | None],
    losses: bool,
) -> LinkSpeed:
    names = source[0].candidate.name, target[0].candidate.name
    port = ports[names[1]]
    if port is None:
        return LinkSpeed(source=names[0], target=names[1], error="nothing answers probes there")
    peer, address = names[1], addresses[names[1]]
    try:
        measure = AskLink(peer=peer, address=address, port=port, within_s=LINK_S)
        link = source[1].question(measure, LinkAnswer, LINK_S + ANSWER_S)
        # Not measured unless it was asked for: it takes longer than the rest.
        lost = None
        if losses:
            # Messages that are lost take long: the kernel waits before it sends them again.
            count = AskLoss(peer=peer, address=address, port=port, within_s=LOSS_S)
            lost = source[1].question(count, LossAnswer, LOSS_S + ANSWER_S).lost
    except HostCheckError as trouble:
        return LinkSpeed(source=names[0], target=names[1], error=str(trouble))
    return LinkSpeed(source=names[0], target=names[1], lost=lost, **structs.asdict(link))
