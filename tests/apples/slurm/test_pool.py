"""What a partition has to give: who is left out and why, how many slots, which share and memory."""

import math

import pytest

from apples.slurm.commands import Wishes
from apples.slurm.pool import cpu_type, fits, offered
from apples.slurm.records import Node, Partition

MIB = 2.0**20


def nodes(*found):
    return {node.name: node for node in found}


def pool(*found, wishes=None, counts_memory=True, **partition):
    names = partition.pop("names", tuple(node.name for node in found))
    return offered(
        Partition(name="p", nodes=names, **partition),
        nodes(*found),
        wishes or Wishes(),
        counts_memory=counts_memory,
    )


def test_slots_are_idle_cores_and_memory_the_smaller_value():
    a = Node(
        name="a", cpus=8, allocated_cpus=2, threads=2, memory_bytes=1000 * MIB, allocated_bytes=300 * MIB
    )
    found = pool(a).offers[0]
    assert (found.slots, found.share, found.memory_bytes) == (3, 1.0, 700 * MIB)
    assert pool(a, counts_memory=False).offers[0].memory_bytes == 1000 * MIB
    busy = Node(name="a", memory_bytes=1000 * MIB, free_bytes=50 * MIB)
    assert pool(busy).offers[0].memory_bytes == 50 * MIB
    assert pool(Node(name="a")).offers[0].memory_bytes == math.inf


def test_others_are_left_out_with_their_reasons():
    found = pool(
        Node(name="ok", cpus=2),
        Node(name="down", states=("DOWN",), reason="fan"),
        Node(name="full", cpus=2, allocated_cpus=2),
        Node(name="half", cpus=2, allocated_cpus=1),
        names=("ok", "down", "full", "half", "ghost"),
    )
    assert [o.node.name for o in found.offers] == ["ok"]
    assert found.absent == {
        "down": "it is down: fan",
        "full": "other jobs hold all its 2 CPUs",
        "ghost": "it is not known to Slurm",
        "half": "it has 1 idle core and the others have 2; every node of an allocation gets as many",
    }


def test_as_many_slots_on_each_as_make_most_of_them():
    found = pool(*(Node(name=name, cpus=cpus) for name, cpus in (("a", 4), ("b", 2), ("c", 2), ("d", 3))))
    assert [(o.node.name, o.slots) for o in found.offers] == [("a", 2), ("b", 2), ("c", 2), ("d", 2)]
    assert found.absent == {}


def test_node_that_must_be_ours_alone():
    half = Node(name="half", cpus=2, allocated_cpus=1)
    reason = {"half": "other jobs hold 1 of its 2 CPUs, and it must be ours alone"}
    assert pool(half, wishes=Wishes(exclusive=True)).absent == reason
    assert pool(half, exclusive=True).absent == reason


def test_cpus_that_are_given_away_twice_are_shared():
    found = pool(Node(name="a", cpus=2, allocated_cpus=2), shared=2).offers[0]
    assert (found.slots, found.share) == (2, 0.5)


@pytest.mark.parametrize(
    ("shared", "held", "slots", "share"), [(4, 2, 2, 0.5), (4, 6, 2, 0.25), (4, 7, 2, 2 / 9), (4, 8, 0, 0)]
)
def test_offer_of_shared_cpus_counts_every_job(shared, held, slots, share):
    found = pool(Node(name="a", cpus=2, allocated_cpus=held), shared=shared)
    assert [(one.slots, one.share) for one in found.offers] == [(slots, share)] * bool(slots)
    assert list(found.absent.values()) == ["other jobs hold all its 2 CPUs, 4 of them each"] * (not slots)


def test_offer_of_a_reservation_is_for_those_who_name_it():
    reserved = Node(name="a", states=("IDLE", "RESERVED", "MAINT"))
    assert pool(reserved).absent == {"a": "it is reserved"}
    assert pool(reserved, wishes=Wishes(reservation="r")).absent == {}
    down = Node(name="a", states=("DOWN", "RESERVED"))
    assert pool(down, wishes=Wishes(reservation="r")).absent == {"a": "it is down"}


def test_a_constraint():
    found = pool(Node(name="a", features=("big",)), Node(name="b"), wishes=Wishes(constraint="big"))
    assert found.absent == {"b": "it lacks the feature big; it has none"}


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
