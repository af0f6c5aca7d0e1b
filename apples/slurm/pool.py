"""The nodes of a partition on which a run may be planned, and the capacity of each. Pure.

Every node of one allocation gets the same number of CPUs, because Slurm gives others only by chance. The pool therefore
has one number, the one with the largest total, and nodes with fewer idle CPUs are left out with that reason.

Measured links between nodes, stored on disk: a cluster's network rarely changes.

The file follows the rules of `apples.model.jsonstore`. A missing link is measured in the next allocation.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import Struct

from apples.errors import HistoryError
from apples.hosts.speed import LinkSpeed
from apples.model import jsonstore
from apples.model.jsonstore import Format
from apples.model.launchrequest import Notify
from apples.slurm.commands import Wishes
from apples.slurm.records import Node, Partition


class _Document(Struct):
    """The content of the file: each link with the name of its cluster."""

    links: list[tuple[str, LinkSpeed]]


FORMAT = Format(
    name="apples-slurm-links",
    version=2,
    lost="links among nodes are measured once more",
    content=_Document,
    what="list of links",
)

#: The most links in a file. Older ones are dropped.
MOST = 20_000


class LinkStore:
    """The links of one cluster, in one file.

    cluster : its name, because nodes of two clusters may have the same names
    notify : receives why the file cannot be read or written; links are then measured again
    """

    def __init__(self, path: Path, cluster: str, notify: Notify) -> None:
        """Use the file at `path`, which the first link creates."""
        self._path, self._cluster, self._notify = path, cluster, notify

    def among(self, hosts: Sequence[str]) -> list[LinkSpeed]:
        """Return the links with both ends in `hosts`."""
        ends, stored = set(hosts), self._read()
        return [link for of, link in stored if of == self._cluster and {link.source, link.target} <= ends]

    def missing(self, hosts: Sequence[str]) -> list[str]:
        """Return the hosts that have an unknown link to another, in the order of the argument."""
        known = {(link.source, link.target) for link in self.among(hosts)}
        return [a for a in hosts if any(b != a and not {(a, b), (b, a)} <= known for b in hosts)]

    def add(self, links: Iterable[LinkSpeed]) -> None:
        """Store the links that could be measured."""
        measured = [link for link in links if link.latency_s is not None and link.bandwidth_Bps is not None]
        stored = [*self._read(), *((self._cluster, link) for link in measured)]
        latest = {(of, link.source, link.target): (of, link) for of, link in stored}
        try:
            jsonstore.write(self._path, FORMAT, _Document(links=list(latest.values())[-MOST:]))
        except HistoryError as error:
            self._notify(f"the links measured now are not kept: {error}")

    def _read(self) -> list[tuple[str, LinkSpeed]]:
        document = jsonstore.read(self._path, FORMAT, self._notify)
        return [] if document is None else document.links


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The capacity of a node.

    slots : ranks it takes, one a core.  share : of a core each gets.  memory_bytes : for all of them
    """

    node: Node
    slots: int
    share: float = 1.0
    memory_bytes: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPool:
    """Nodes that can be planned on, best first, and why the others cannot."""

    offers: tuple[Offer, ...]
    absent: Mapping[str, str] = field(default_factory=dict)


def offered(
    partition: Partition, nodes: Mapping[str, Node], wishes: Wishes, *, counts_memory: bool
) -> PartitionPool:
    """Return the capacity of the partition at present.

    Args:
        counts_memory: Slurm allocates memory as it does CPUs
    """
    found: list[Offer] = []
    absent: dict[str, str] = {}
    for name in partition.nodes:
        node = nodes.get(name)
        why = "it is not known to Slurm" if node is None else _unfit(node, wishes, partition)
        if node is None or why:
            absent[name] = why
            continue
        found.append(_offer(node, partition, counts_memory=counts_memory))
    return _even(found, absent)


def _unfit(node: Node, wishes: Wishes, partition: Partition) -> str:
    alone = wishes.exclusive or partition.exclusive
    # The nodes of a reservation are reserved, and under maintenance if it is one, for those who name it.
    unreserved = replace(
        node, states=tuple(state for state in node.states if state not in ("RESERVED", "MAINT"))
    )
    away = node.away if wishes.reservation is None else unreserved.away
    if away:
        return f"it {away}"
    if wishes.constraint is not None and not fits(wishes.constraint, node.features):
        return f"it lacks the feature {wishes.constraint}; it has {', '.join(node.features) or 'none'}"
    if alone and node.allocated_cpus:
        return f"other jobs hold {node.allocated_cpus} of its {node.cpus} CPUs, and it must be ours alone"
    if partition.shared <= 1 and node.cpus - node.allocated_cpus < node.threads:
        return f"other jobs hold all its {node.cpus} CPUs"
    if node.allocated_cpus >= partition.shared * node.cpus:
        return f"other jobs hold all its {node.cpus} CPUs, {partition.shared} of them each"
    return ""


def _offer(node: Node, partition: Partition, *, counts_memory: bool) -> Offer:
    idle = node.cpus - node.allocated_cpus
    slots, share = idle // node.threads, 1.0
    if partition.shared > 1:
        # Its CPUs are allocated several times: a new job shares them with the running ones.
        slots = node.cpus // node.threads
        share = node.cpus / (node.cpus + node.allocated_cpus)
    memory = [node.free_bytes, node.memory_bytes - (node.allocated_bytes if counts_memory else 0.0)]
    known = [value for value in memory if not math.isnan(value)]
    return Offer(node=node, slots=slots, share=share, memory_bytes=min(known, default=math.inf))


def _even(offers: Sequence[Offer], absent: dict[str, str]) -> PartitionPool:
    """Return the pool with the same number of slots for all: the number with the largest total."""
    if not offers:
        return PartitionPool(offers=(), absent=absent)
    each = max({offer.slots for offer in offers}, key=lambda n: (n * sum(o.slots >= n for o in offers), n))
    even = []
    for offer in offers:
        if offer.slots < each:
            absent[offer.node.name] = (
                f"it has {offer.slots} idle core{'s' * (offer.slots != 1)} and the others have {each}; every node of "
                "an allocation gets as many"
            )
        else:
            even.append(replace(offer, slots=each))
    return PartitionPool(offers=tuple(even), absent=absent)


def fits(constraint: str, features: Sequence[str]) -> bool:
    """Return whether a node with these features may fit. Slurm decides where it is more than `a&b` or `a|b`.

    >>> fits("ib&big", ["ib"]), fits("ib|big", ["ib"]), fits("[a*2]", [])
    (False, True, True)
    """
    if any(mark in constraint for mark in "[]()*,"):
        return True
    if "&" in constraint and "|" in constraint:
        return True
    if "|" in constraint:
        return any(word.strip() in features for word in constraint.split("|"))
    return all(word.strip() in features for word in constraint.split("&"))


def cpu_type(node: Node) -> str:
    """Return a text that is equal for nodes which compute alike, as far as Slurm reports: architecture and features."""
    return " ".join(["slurm", node.architecture or "unknown", *sorted(node.features)])
