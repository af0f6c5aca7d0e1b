"""Advice: the plans of which none is both slower and dearer, against all plans of a small pool."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.errors import NoFeasiblePlan
from apples.model.cut import Axes
from apples.model.limits import Limits
from apples.planning.advice import advice, cheapest_by
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions
from nws.series import Outlook


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
    assert {len(o.assignments) for o in offers} == {2}


def test_advice_refuses_like_a_plan(pool):
    with pytest.raises(NoFeasiblePlan, match="without a deadline of 5 s the run takes 30 s"):
        advice(
            pool.snapshot([1.0] * 2),
            pool.workload(60),
            pool.costs(),
            PlanningOptions(limits=Limits(deadline=5.0)),
        )


def test_each_plan_is_forecast_over_its_own_length(pool):
    """Hosts are free for the next seconds and busy over an hour."""
    at = pool.snapshot([0.9] * 4)
    outlooks = tuple(
        Outlook(over_s=s, mean=share, quantiles=(share,) * 7) for s, share in ((1.0, 0.9), (4000.0, 0.3))
    )
    conditions = tuple(
        replace(c, availability=replace(c.availability, outlooks=outlooks)) for c in at.conditions
    )
    at, work, costs = replace(at, conditions=conditions), pool.workload(600), pool.costs(per_rank_s=120.0)
    plans = advice(at, work, costs)
    assert len(plans) > 1
    for plan in plans:
        assert plan.horizon_s / 2 <= plan.predicted_s <= plan.horizon_s * 2
        alone = make_plan(at, work, costs, PlanningOptions(ranks=len(plan.assignments)))
        assert plan.predicted_s == pytest.approx(alone.predicted_s, rel=0.1)


def test_advice_cuts_on_two_axes_where_that_ends_sooner(pool):
    at = pool.snapshot([1.0] * 4, latency=np.full((4, 4), 1e-3), bandwidth=np.full((4, 4), 1e5))
    work = pool.workload(
        40,
        iterations=100,
        messages=100,
        bytes_exchanged=64000.0,
        axes=Axes(cut="rectilinear", width=40, min_width=1),
    )
    fastest = advice(at, work, pool.costs(0.01))[0]
    assert fastest.cut is not None
    assert fastest.cut.kind == "rectilinear"
    assert fastest.predicted_s == make_plan(at, work, pool.costs(0.01)).predicted_s
