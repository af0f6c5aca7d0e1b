"""What a partition has to give: who is left out and why, how many slots, which share and memory."""

import pytest

from apples.slurm.commands import Wishes
from apples.slurm.pool import cpu_type, fits, offered
from apples.slurm.records import Node, Partition
from tests.transcripts import replay

MIB = 2.0**20


class PoolSession:
    """Commands of transcripts: nodes of a partition, and the offers that they make."""

    def new(self):
        self.nodes = {}

    def node(self, name, **fields):
        """A node: states and features with + between them, memory in MiB, other fields as numbers."""
        for key, text in fields.items():
            if key in ("states", "features"):
                fields[key] = tuple(text.split("+"))
            elif key.endswith("bytes"):
                fields[key] = float(text) * MIB
            elif key != "reason":
                fields[key] = int(text)
        self.nodes[name] = Node(name=name, **fields)

    def offer(self, *unknown, memory="counted", alone="no", shared="1", **wishes):
        """Offers of all nodes, and of names that Slurm does not know."""
        partition = Partition(name="p", nodes=(*self.nodes, *unknown), shared=int(shared))
        if alone == "partition":
            partition = Partition(name="p", nodes=partition.nodes, exclusive=True)
        wishes = Wishes(exclusive=alone == "wish", **wishes)
        found = offered(partition, self.nodes, wishes, counts_memory=memory == "counted")
        for one in found.offers:
            memory = f"{one.memory_bytes / MIB:g} MiB"
            yield f"{one.node.name}: {one.slots} slots, {one.share:.4g} of a core each, {memory}"
        yield from (f"without {name}: {why}" for name, why in found.absent.items())


def test_nodes_of_a_partition_make_recorded_offers(golden):
    golden("apples/slurm/offers.txt", replay("apples/slurm/offers.txt", PoolSession()))


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [("x", True), ("y", False), ("x&y", False), ("x|y", True), ("[y*2]", True), ("(y&z)|w", True)],
)
def test_constraints_that_only_slurm_understands_are_left_to_it(constraint, expected):
    assert fits(constraint, ["x"]) is expected


def test_nodes_alike_share_their_benchmark():
    one = Node(name="a", architecture="x86_64", features=("ib", "big"))
    other = Node(name="b", architecture="x86_64", features=("big", "ib"))
    assert cpu_type(one) == cpu_type(other) == "slurm x86_64 big ib"
    assert cpu_type(Node(name="c")) == "slurm unknown"
