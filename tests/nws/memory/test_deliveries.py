"""Deliveries: many in one step, repeated without harm, and what is refused."""

import numpy as np
import pytest

from nws.base.errors import UsageError
from nws.memory import Delivery, Memory, Receipt
from nws.series import Resource, Series

A, B = Series(Resource.CPU_NEW, "a"), Series(Resource.CPU_NEW, "b")
NAMES = [str(A), str(B)]


def values(memory, series=A):
    return list(memory.samples(series).values)


def test_batch_of_nobody_in_particular(memory, batch, kept):
    delivery = batch(memory, NAMES, [(0, 1.0, 0.1), (1, 1.0, 0.2), (0, 2.0, 0.3)])
    assert memory.deliver([delivery]) == [Receipt(kept=3, next=3)]
    assert kept(memory) == {A: [(1.0, 0.1), (2.0, 0.3)], B: [(1.0, 0.2)]}


def test_none_at_all(memory):
    assert memory.deliver([]) == []


def test_what_was_delivered_already_is_left_out(memory, batch):
    def deliver(first, *numbers):
        samples = [(0, float(n), float(n)) for n in numbers]
        (receipt,) = memory.deliver([batch(memory, NAMES, samples, source="a/1", first=first)])
        return receipt

    assert deliver(0, 0, 1, 2) == Receipt(kept=3, next=3)
    assert deliver(0, 0, 1, 2) == Receipt(kept=0, next=3)
    assert deliver(1, 1, 2, 3, 4) == Receipt(kept=2, next=5)
    assert deliver(5) == Receipt(kept=0, next=5)
    # the sender had to throw some away; what it skips is not waited for
    assert deliver(8, 8) == Receipt(kept=1, next=9)
    assert deliver(6, 6, 7) == Receipt(kept=0, next=9)
    assert values(memory) == [0, 1, 2, 3, 4, 8]


def test_several_of_one_source_in_one_step(memory, batch):
    def one(first, source="a/1"):
        return batch(
            memory,
            NAMES,
            [(0, float(first + i), float(first + i)) for i in range(3)],
            source=source,
            first=first,
        )

    receipts = memory.deliver([one(0), one(0), one(2), one(0, "b/1")])
    assert receipts == [
        Receipt(kept=3, next=3),
        Receipt(kept=0, next=3),
        Receipt(kept=2, next=5),
        Receipt(kept=3, next=3),
    ]


def test_streams_go_on_in_another_process(path, memory, batch):
    samples = [(0, 1.0, 1.0), (0, 2.0, 2.0)]
    memory.deliver([batch(memory, NAMES, samples, source="a/1")])
    with Memory(path) as other:
        again = batch(other, NAMES, [*samples, (0, 3.0, 3.0)], source="a/1")
        assert other.deliver([again]) == [Receipt(kept=1, next=3)]
    assert values(memory) == [1, 2, 3]


def test_what_nobody_wants_counts_as_delivered(memory, batch):
    samples = [(0, 1.0, 1.0), (0, 2.0, float("nan")), (0, 3.0, 3.0)]
    wanted = np.array([True, False, True])
    delivery = batch(memory, NAMES, samples, source="a/1", first=10, wanted=wanted)
    assert memory.deliver([delivery]) == [Receipt(kept=2, next=13)]
    assert memory.deliver([delivery]) == [Receipt(kept=0, next=13)]
    assert values(memory) == [1, 3]


def test_fault_in_one_delivery_keeps_nothing_of_any(memory, batch):
    good = batch(memory, NAMES, [(0, 1.0, 1.0)], source="a/1")
    bad = batch(memory, NAMES, [(1, 1.0, float("inf"))])
    with pytest.raises(UsageError, match=r"cpu\.new@b: inf at 1\.0 is not a measurement"):
        memory.deliver([good, bad])
    assert values(memory) == []
    assert memory.deliver([good]) == [Receipt(kept=1, next=1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"times": np.zeros(2)}, r"\(1,\) series, \(2,\) times, \(1,\) values, \(1,\) marks: expected four"),
        ({"wanted": np.ones(3, bool)}, r"\(3,\) marks: expected four columns of one length"),
        ({"ids": np.array([7], np.int32)}, "no series 7 in a memory of 2; `series_ids` makes one"),
        ({"ids": np.array([-1], np.int32)}, "no series -1 in a memory of 2"),
        ({"first": -1}, "begins with sample -1: expected a number from 0 to"),
        ({"received": float("nan")}, "received at nan: expected seconds since the epoch"),
        ({"times": np.array([float("nan")])}, r"cpu\.new@a: 1\.0 at nan is not a measurement"),
    ],
)
def test_deliveries_that_make_no_sense(memory, batch, change, message):
    memory.series_ids(NAMES)
    fields = {"ids": np.zeros(1, np.int32), "times": np.ones(1), "values": np.ones(1), "received": 1.0}
    with pytest.raises(UsageError, match=message):
        memory.deliver([Delivery(**(fields | change))])


def test_series_that_another_process_has_made(path, memory, batch):
    with Memory(path) as other:
        delivery = batch(other, NAMES, [(1, 1.0, 1.0)])
    assert memory.deliver([delivery]) == [Receipt(kept=1, next=1)]
    assert values(memory, B) == [1]
