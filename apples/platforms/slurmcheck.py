"""A short job on idle nodes before planning, in which their sensors are read: Slurm starts nothing on them without one.

It must not delay others: only nodes that are idle now are asked for, for one core each, and a job that Slurm does not
start at once is given up.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from apples.launching.launcher import Notify
from apples.launching.slurm import RANK_BYTES, UNPREDICTED_S, Cluster
from apples.launching.slurmallocation import OwnAllocation
from apples.slurm import runner
from apples.slurm.commands import Shape, minutes
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


def unread(offers: Sequence[Offer], read_at: Mapping[str, float], now: float) -> tuple[str, ...]:
    """Return the nodes to read: those whose cores no job shares. None if they are too many, or all just read."""
    nodes = tuple(offer.node.name for offer in offers if offer.share >= 1.0)
    fresh = all(0.0 <= now - read_at.get(node, -FRESH_S) < FRESH_S for node in nodes)
    return () if fresh or len(nodes) > MOST_NODES else nodes


@contextmanager
def check_job(nodes: tuple[str, ...], cluster: Cluster, threads: int, notify: Notify) -> Iterator[str]:
    """Give the number of a job on these nodes; on exit they are free again. Raises `AllocationRefused`.

    Args:
        threads: of a core
    """
    shape = Shape(
        name="apples-check",
        hosts=nodes,
        ranks_each=1,
        minutes=minutes(UNPREDICTED_S, cluster.most_s),
        threads=threads,
        memory_bytes=RANK_BYTES if cluster.counts_memory else 0.0,
    )
    wishes = replace(cluster.wishes, exclusive=False, immediate_s=WAIT_S)
    with OwnAllocation(shape, wishes, notify) as allocation:
        yield allocation.number
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
