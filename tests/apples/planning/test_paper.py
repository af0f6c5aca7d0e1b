"""The paper's scheduler on the paper's pool: 34 equal hosts, overhead and array limit as printed (§3.1, §4.2)."""

import pytest

from apples.model.template import PAPER_OVERHEAD, Costs
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PAPER

#: s for one row of the mesh over the whole run; the paper does not print it, this one is assumed.
BENCHMARK_S = 0.195
COSTS = Costs(seconds_per_row={"default": {1: BENCHMARK_S}}, overhead=PAPER_OVERHEAD)


@pytest.fixture
def centurion(pool):
    return pool.snapshot([1.0] * 34)


@pytest.mark.parametrize(
    ("size", "hosts"), [(1000, 10), (2000, 12), (3000, 14), (4000, 16), (5000, 18), (6000, 18)]
)
def test_number_of_hosts_targeted_on_unloaded_equal_hosts(pool, centurion, size, hosts):
    plan = make_plan(centurion, pool.workload(size, max_rows=507), COSTS, PAPER)
    assert len(plan.hosts) == hosts
    assert sum(plan.rows) == size
    assert max(plan.rows) - min(plan.rows) <= 1 + 0.02 * size / hosts


@pytest.mark.parametrize(("available", "used"), [(10, 10), (14, 14), (18, 18), (22, 18), (26, 18)])
def test_larger_pools_are_taken_whole_up_to_the_right_number(pool, available, used):
    plan = make_plan(pool.snapshot([1.0] * available), pool.workload(5000, max_rows=507), COSTS, PAPER)
    assert len(plan.hosts) == used


def test_one_plan_takes_every_term_of_the_model_from_the_paper(pool, centurion):
    plan = make_plan(centurion, pool.workload(1000, max_rows=507), COSTS, PAPER)
    assert plan.predicted_s == pytest.approx(100 * BENCHMARK_S + 16 - 1.5 + 0.094 * 10**2)


def test_array_limit_alone_may_set_the_number_of_hosts(pool, centurion):
    plan = make_plan(centurion, pool.workload(6000, max_rows=250), COSTS, PAPER)
    assert len(plan.hosts) == 24


def test_even_counts_give_way_where_only_an_odd_one_holds_the_work(pool):
    plan = make_plan(pool.snapshot([1.0] * 3), pool.workload(1500, max_rows=507), COSTS, PAPER)
    assert plan.rows == (500, 500, 500)
    assert plan.relaxed == ("odd numbers of ranks allowed",)
