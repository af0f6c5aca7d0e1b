"""A short job on idle nodes before planning, in which their sensors are read: Slurm starts nothing on them without one.

It is made to delay others little: only idle cores are asked for, one on each node where Slurm gives single cores;
nothing is compiled in it; and a job that Slurm does not start at once is given up.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from apples.errors import LaunchError
from apples.hosts.facts import HostFacts
from apples.model.launchrequest import Notify
from apples.slurm import runner
from apples.slurm.allocation import OwnAllocation
from apples.slurm.commands import Shape, minutes
from apples.slurm.launching import RANK_BYTES, UNPREDICTED_S, Cluster
from apples.slurm.pool import Offer
from apples.slurm.records import Node

#: Most nodes of the job. A run over more of them is planned with the readings of earlier runs.
MOST_NODES = 32
#: Seconds until the job is given up.
WAIT_S = 5.0
#: Seconds for which a node counts as just read, and as fit for the run.
FRESH_S = 60.0
#: Seconds that nodes of a job which has just ended may take to be free.
SETTLED_S, LOOK_S = 5.0, 0.5


def unread(offers: Sequence[Offer], read_at: Mapping[str, float], now: float) -> tuple[Offer, ...]:
    """Return the nodes to read: those whose cores no job shares. None if they are too many, or all just read."""
    own = tuple(offer for offer in offers if offer.share >= 1.0)
    fresh = all(is_fresh(read_at.get(offer.node.name), now) for offer in own)
    return () if fresh or len(own) > MOST_NODES else own


def is_fresh(read_at: float | None, now: float) -> bool:
    """Return whether a node was read a moment ago. read_at : None if it was not"""
    return read_at is not None and 0.0 <= now - read_at < FRESH_S


def scaled(facts: HostFacts, slots: int) -> HostFacts:
    """Return the facts with the capacity of so many cores, if the check was bound to fewer."""
    survey = facts.survey
    if survey is None or not 0 < survey.cpus < slots:
        return facts
    return replace(facts, survey=replace(survey, capacity=survey.capacity * slots / survey.cpus))


@contextmanager
def check_job(offers: Sequence[Offer], cluster: Cluster, notify: Notify) -> Iterator[str]:
    """Give the number of a job on these nodes; on exit they are free again. Raises `AllocationRefused`."""
    nodes = tuple(offer.node.name for offer in offers)
    shape = Shape(
        name="apples-check",
        hosts=nodes,
        ranks_each=1,
        minutes=minutes(UNPREDICTED_S, cluster.most_s),
        threads=max(offer.node.threads for offer in offers),
        memory_bytes=2 * RANK_BYTES if cluster.counts_memory else 0.0,
    )
    wishes = replace(cluster.wishes, exclusive=False, immediate_s=WAIT_S)
    with OwnAllocation(shape, wishes, notify) as allocation:
        yield allocation.number
    with contextlib.suppress(LaunchError):
        settled_nodes(nodes)


def settled_nodes(names: Sequence[str]) -> Mapping[str, Node]:
    """Return all nodes once Slurm has cleared those named of an ended job, or after `SETTLED_S`."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        nodes = runner.nodes()
        if not _settling(nodes, names) or time.monotonic() > deadline:
            return nodes
        time.sleep(LOOK_S)


def _settling(nodes: Mapping[str, Node], names: Sequence[str]) -> bool:
    """Return whether Slurm is still clearing nodes of an ended job; they will be free soon."""
    return any("COMPLETING" in nodes[name].states and not nodes[name].away for name in names if name in nodes)
