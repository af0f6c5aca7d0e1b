"""Slabs of a run that leaves hosts: nothing stays there, memory is respected."""

import numpy as np
import pytest

from apples.planning.adapting.leaving import inputs_after, slabs_without
from apples.planning.adapting.policy import AdaptationInputs

INPUTS = AdaptationInputs(
    rows=(30, 30, 40),
    hosts=("a", "b", "a"),
    caps=(60.0, 80.0, 60.0),
    min_rows=2,
    row_s=(1e-3, 2e-3, 1e-3),
    share=(1.0, 0.5, 1.0),
)


@pytest.mark.parametrize(
    ("hosts", "stay", "rows"),
    [(["b"], False, (50, 0, 50)), (["b"], True, (49, 2, 49)), (["a"], False, None), (["a", "b"], True, None)],
)
def test_slabs_without_hosts(hosts, stay, rows):
    assert slabs_without(INPUTS, None, hosts, stay=stay) == rows


def test_slabs_without_hosts_follow_the_newest_speeds():
    rows = slabs_without(INPUTS, np.array([2e-3, 1e-3, 3e-3]), ["b"], stay=False)
    assert rows == (60, 0, 40)


def test_inputs_after_departure_are_of_the_ranks_left():
    after = inputs_after(INPUTS, (50, 0, 50), ["b"])
    assert (after.rows, after.hosts, after.caps) == ((50, 50), ("a", "a"), (60.0, 60.0))
    assert (after.row_s, after.share) == ((1e-3, 1e-3), (1.0, 1.0))


def test_inputs_after_departure_leave_idle_ranks_idle():
    after = inputs_after(INPUTS, (49, 2, 49), ["b"])
    assert (after.rows, after.caps) == ((49, 2, 49), (60.0, 2.0, 60.0))
