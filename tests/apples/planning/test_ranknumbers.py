"""Numbers of ranks that a program takes: no planner makes a plan with another one."""

from dataclasses import replace

import pytest

from apples.errors import ConfigError, NoFeasiblePlan
from apples.model.cut import Axes
from apples.model.limits import Limits
from apples.model.wholenumbers import WholeNumbers
from apples.planning.advice import advice
from apples.planning.baselines import default_plan, even_plan, smart_user_plan
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PAPER, PlanningOptions

POWERS = WholeNumbers(rule="powers of two", base=2)
THREES = WholeNumbers(rule="multiples of 3", factor=3)


def planned(pool, planner, ranks, hosts, options=None, **demands):
    """The number of ranks of a plan for 400 rows on equal hosts."""
    work = replace(pool.workload(400), ranks=ranks, **demands)
    return len(planner(pool.snapshot([1.0] * hosts), work, pool.costs(), options).assignments)


@pytest.mark.parametrize("planner", [make_plan, even_plan, default_plan, smart_user_plan])
@pytest.mark.parametrize(
    ("ranks", "hosts", "used"),
    [(POWERS, 7, 4), (POWERS, 20, 16), (THREES, 8, 6), (THREES, 20, 18), (WholeNumbers(at_least=2), 2, 2)],
)
def test_plan_has_the_most_legal_ranks_of_equal_hosts(pool, planner, ranks, hosts, used):
    assert planned(pool, planner, ranks, hosts) == used


@pytest.mark.parametrize(
    ("options", "demands"),
    [
        (PAPER, {}),
        (PlanningOptions(max_ranks=15), {}),
        (PlanningOptions(limits=Limits(deadline=1e6)), {}),
        (PlanningOptions(improve=False), {}),
        (PlanningOptions(), {"axes": Axes(cut="rectilinear", width=400)}),
        (PlanningOptions(), {"axes": Axes(cut="columns", width=400)}),
        # The work fits on no fewer than seven hosts.
        (PlanningOptions(), {"max_rows": 60}),
    ],
)
def test_search_keeps_to_legal_ranks(pool, options, demands):
    assert planned(pool, make_plan, POWERS, 13, options, **demands) == 8


def test_advice_offers_legal_ranks_only(pool):
    work = replace(pool.workload(400), ranks=THREES)
    plans = advice(pool.snapshot([1.0] * 8), work, pool.costs())
    assert {len(plan.assignments) for plan in plans} <= {3, 6}


def test_other_number_of_ranks_is_refused_by_its_rule(pool):
    with pytest.raises(
        ConfigError, match=r"does not run on 3 ranks; legal: powers of two \(nearest 2 and 4\)"
    ):
        planned(pool, make_plan, POWERS, 7, PlanningOptions(ranks=3))


@pytest.mark.parametrize("planner", [make_plan, even_plan, default_plan])
def test_pool_with_too_few_slots_is_refused_by_the_rule(pool, planner):
    with pytest.raises(
        NoFeasiblePlan, match="these numbers of ranks only: multiples of 3; the pool has 2 usable"
    ):
        planned(pool, planner, THREES, 2)


def test_plan_says_why_a_host_is_left_out(pool):
    work = replace(pool.workload(400), ranks=POWERS)
    plan = make_plan(pool.snapshot([1.0] * 5), work, pool.costs())
    assert "does not run on 5 ranks, but on: powers of two" in plan.left_out[-1].reason
