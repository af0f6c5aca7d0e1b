"""What people do without an agent: the default scheduler and the smart user (§4.3)."""

import numpy as np
import pytest

from apples.errors import NoFeasiblePlan
from apples.planning.baselines import default_plan, smart_user_plan
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions


def test_default_takes_every_host_in_the_grid_s_order_with_equal_slabs(pool):
    snapshot = pool.snapshot([0.5, 1.0, 0.25])
    plan = default_plan(snapshot, pool.workload(32), pool.costs(), PlanningOptions(model="paper"))
    assert plan.scheduler == "default"
    assert [(a.host, a.rows) for a in plan.assignments] == [("h0", 11), ("h1", 11), ("h2", 10)]
    assert plan.predicted_s == pytest.approx(40)


def test_default_is_priced_by_the_load_it_ignores(pool):
    snapshot, work = pool.snapshot([1.0, 1.0, 0.1]), pool.workload(60)
    assert default_plan(snapshot, work, pool.costs()).predicted_s == pytest.approx(200)
    assert make_plan(snapshot, work, pool.costs()).predicted_s < 30


def test_smart_user_knows_the_number_but_not_the_load(pool):
    snapshot = pool.snapshot([0.2, 1.0, 1.0, 1.0, 1.0, 1.0])
    plan = smart_user_plan(snapshot, pool.workload(64), pool.costs(per_rank2_s=1.0))
    assert plan.scheduler == "smart-user"
    assert plan.hosts == ("h0", "h1", "h2")
    assert {left.reason for left in plan.left_out} == {"the right number of hosts is reached"}


def test_more_hosts_than_rows_leaves_the_last_out(pool):
    plan = default_plan(pool.snapshot([1.0] * 4), pool.workload(3), pool.costs())
    assert plan.rows == (1, 1, 1)
    assert plan.left_out[0].host == "h3"
    assert plan.left_out[0].reason == "beyond the ranks that have a row"


def test_hosts_come_before_second_slots(pool):
    plan = default_plan(
        pool.snapshot([1.0] * 3, slots=2), pool.workload(30), pool.costs(), PlanningOptions(ranks=4)
    )
    assert [(a.host, a.slot) for a in plan.assignments] == [("h0", 0), ("h0", 1), ("h1", 0), ("h2", 0)]


def test_limit_on_ranks_is_the_reason_given(pool):
    plan = default_plan(
        pool.snapshot([1.0] * 3), pool.workload(30), pool.costs(), PlanningOptions(max_ranks=2)
    )
    assert plan.rows == (15, 15)
    assert plan.left_out[0].reason == "the run may use 2 ranks at most"


def test_slab_that_outgrows_memory_shows_its_price(pool):
    snapshot = pool.snapshot([1.0, 1.0], memory=[4e6, 1e9])
    plan = default_plan(snapshot, pool.workload(12, bytes_per_row=1e6), pool.costs())
    assert plan.predicted_s == pytest.approx(4 + 2 * 100)
    assert "more than fits in memory" in dict(plan.taken)["h0"]


@pytest.mark.parametrize("baseline", [default_plan, smart_user_plan])
def test_equal_slabs_beyond_the_array_limit_are_refused(pool, baseline):
    with pytest.raises(NoFeasiblePlan, match="40"):
        baseline(pool.snapshot([1.0] * 2), pool.workload(100, max_rows=40), pool.costs())


def test_equal_slabs_over_a_dead_link_are_refused(pool):
    snapshot = pool.snapshot([1.0] * 2, bandwidth=np.zeros((2, 2)))
    with pytest.raises(NoFeasiblePlan, match="a link that does not work; leave out one of its hosts"):
        default_plan(snapshot, pool.workload(10, messages=1), pool.costs())


def test_asking_for_more_ranks_than_there_are_is_refused(pool):
    with pytest.raises(NoFeasiblePlan, match="5 ranks were asked for"):
        default_plan(pool.snapshot([1.0] * 2), pool.workload(10), pool.costs(), PlanningOptions(ranks=5))


def test_unusable_hosts_keep_their_own_reason(pool):
    plan = default_plan(pool.snapshot([1.0, 0.0, 1.0]), pool.workload(10), pool.costs())
    assert [(left.host, left.reason[:13]) for left in plan.left_out] == [("h1", "a new process")]
