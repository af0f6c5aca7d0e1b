"""When other hosts are worth a restart, and what the pool looks like to a run that is part of it."""

import math

import pytest

from apples.model.grid import Conditions, Estimate, Grid, Host, Snapshot
from apples.model.template import Costs
from apples.planning.adapting.hosts import HostPolicy, PoolSample, as_ranks_see_it
from apples.planning.adapting.settings import HostSettings


def look(rest_s=100.0, fresh_s=50.0, change_s=10.0):
    return PoolSample(rest_s=rest_s, fresh_s=fresh_s, change_s=change_s, hosts=("a", "b"))


def test_one_look_is_not_enough():
    policy = HostPolicy()
    assert [policy.judge(look()) for _ in range(2)] == [False, True]
    assert policy.changes == 1


def test_look_that_disagrees_begins_anew():
    policy = HostPolicy()
    answers = [policy.judge(one) for one in (look(), look(fresh_s=90.0), look(), look())]
    assert answers == [False, False, False, True]


@pytest.mark.parametrize("parts", [{"fresh_s": 75.0}, {"change_s": 40.0}, {"rest_s": 12.0, "fresh_s": 6.0}])
def test_what_the_change_costs_counts(parts):
    policy = HostPolicy()
    assert not any(policy.judge(look(**parts)) for _ in range(5))


def test_looks_are_taken_now_and_then_and_not_after_too_many_changes():
    policy = HostPolicy(HostSettings(look_every_s=30, wait_s=20, looks=1, most_changes=1))
    assert not policy.wants_sample(19.0, 100.0)
    assert not policy.wants_sample(100.0, 29.0)
    assert policy.wants_sample(20.0, 30.0)
    assert policy.judge(look())
    assert not policy.wants_sample(1000.0, 1000.0)


def snapshot(availability):
    hosts = tuple(Host(name=name, slots=2, cpu_type="x") for name in "abc")
    conditions = Conditions(
        availability=Estimate(value=availability),
        memory_bytes=Estimate(value=1e9),
        capacity=Estimate(value=0.9),
    )
    nominal = Snapshot.nominal(Grid(name="g", hosts=hosts))
    return Snapshot(
        hosts=hosts,
        conditions=(conditions,) * 3,
        latency_s=nominal.latency_s,
        bandwidth_Bps=nominal.bandwidth_Bps,
        latency_error_s=nominal.latency_error_s,
        bandwidth_error_Bps=nominal.bandwidth_error_Bps,
    )


def test_ranks_say_what_their_own_host_gives_and_others_are_left_as_they_were():
    costs = Costs(seconds_per_row={"x": {1: 1e-3, 2: 2e-3}})
    found = as_ranks_see_it(snapshot(0.5), [("a", 1.25e-3), ("b", 2e-3), ("b", 4e-3)], costs, [1e8, 2e8, 3e8])
    a, b, c = found.conditions
    assert a.share(1, 2) == pytest.approx(0.8)
    assert b.share(2, 2) == pytest.approx((1.0 + 0.5) / 2)
    assert (a.memory_bytes.value, b.memory_bytes.value) == (1.1e9, 1.5e9)
    assert c == snapshot(0.5).conditions[2]


def test_host_of_which_no_price_is_known_is_left_as_it_was():
    found = as_ranks_see_it(snapshot(0.5), [("a", 1e-3)], Costs(seconds_per_row={}), [1e8])
    assert found.conditions == snapshot(0.5).conditions
    assert not math.isnan(found.conditions[0].availability.value)
