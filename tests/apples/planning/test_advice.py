"""Advice: the plans of which none is both slower and dearer, against all plans of a small pool."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apples.errors import NoFeasiblePlan
from apples.model.limits import Limits
from apples.planning.advice import advice, cheapest_by
from apples.planning.options import PlanningOptions
from apples.planning.planner import make_plan


@settings(max_examples=15, deadline=None)
@given(
    shares=st.lists(st.floats(0.2, 1), min_size=1, max_size=4),
    prices=st.lists(st.floats(0.1, 9), min_size=4, max_size=4),
    size=st.integers(8, 60),
)
def test_offers_are_no_worse_than_any_set_of_hosts(pool, shares, prices, size):
    at, work, costs = pool.snapshot(shares), pool.workload(size), pool.costs(per_rank_s=1.0)
    named = {f"h{i}": price for i, price in enumerate(prices[: len(shares)])}
    offers = advice(at, work, costs, PlanningOptions(limits=Limits(prices=named)))
    for fast, slow in itertools.pairwise(offers):
        assert fast.predicted_s <= slow.predicted_s
        assert fast.cost > slow.cost
    for n in range(1, len(shares) + 1):
        for hosts in itertools.combinations(named, n):
            plan = make_plan(
                at.restrict(hosts), work, costs, PlanningOptions(ranks=n, limits=Limits(prices=named))
            )
            # The next cheaper plan costs at most a tenth less: an offer is at least that near.
            assert any(
                o.predicted_s <= plan.predicted_s + 1e-9 and o.cost * 0.9 <= plan.cost + 1e-9 for o in offers
            )


def test_offers_without_prices_count_host_hours(pool):
    offers = advice(pool.snapshot([1.0] * 4), pool.workload(3600), pool.costs(per_rank_s=60.0))
    assert [len(o.hosts) for o in offers] == [4, 3, 2, 1]
    assert offers[-1].cost is None
    assert offers[-1].host_hours == pytest.approx(3660 / 3600)
    assert cheapest_by(offers, 2000.0) == offers[2]
    assert cheapest_by(offers, 100.0) is None


def test_advice_with_a_number_of_ranks_offers_no_other(pool):
    at, options = pool.snapshot([1.0, 0.5, 0.4]), PlanningOptions(ranks=2)
    offers = advice(at, pool.workload(600), pool.costs(per_rank_s=500.0), options)
    assert {o.ranks for o in offers} == {2}


def test_advice_refuses_like_a_plan(pool):
    with pytest.raises(NoFeasiblePlan, match="without a deadline of 5 s the run takes 30 s"):
        advice(
            pool.snapshot([1.0] * 2),
            pool.workload(60),
            pool.costs(),
            PlanningOptions(limits=Limits(deadline=5.0)),
        )
