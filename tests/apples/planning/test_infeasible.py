"""When there is no plan: the message names the limit that binds, with the numbers a user needs."""

import math

import numpy as np
import pytest

from apples.errors import ConfigError, NoFeasiblePlan
from apples.model.template import Costs, LinearConstraint
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions
from tests.transcripts import recorded


def refusal(pool, snapshot, workload, costs=None, **options):
    with pytest.raises(NoFeasiblePlan) as caught:
        make_plan(snapshot, workload, costs or pool.costs(), PlanningOptions(**options))
    assert caught.value.exit_code == 3
    return str(caught.value)


def test_more_work_than_all_memory_together(pool):
    snapshot = pool.snapshot([1.0, 0.5], memory=[10e6, 20e6])
    assert refusal(pool, snapshot, pool.workload(31, bytes_per_row=1e6)) == (
        "31 rows do not fit: 2 hosts can hold 30 rows (memory at 1 MB a row); use a smaller size or more hosts"
    )


def test_more_work_than_the_array_limit_allows(pool):
    assert refusal(pool, pool.snapshot([1.0] * 3), pool.workload(1522, max_rows=507)) == (
        "1522 rows do not fit: 3 hosts can hold 1521 rows (array limit 507 rows a rank); "
        "use a smaller size or more hosts"
    )


def test_more_work_than_limits_on_single_hosts_allow(pool):
    limits = tuple(
        LinearConstraint(name=f"quota h{i}", coefficients={f"h{i}": 1.0}, bound=10) for i in range(2)
    )
    message = refusal(pool, pool.snapshot([1.0] * 2), pool.workload(21, constraints=limits))
    assert "hold 20 rows (quota h0, quota h1)" in message


def test_too_few_ranks_allowed(pool):
    snapshot, work = pool.snapshot([1.0, 0.5], slots=2), pool.workload(100, max_rows=30)
    assert "1 host can hold 30 rows" in refusal(pool, snapshot, work, max_ranks=1)


@pytest.mark.parametrize("size", [-3, 0, 3])
def test_less_work_than_one_rank_needs(pool, size):
    message = refusal(pool, pool.snapshot([1.0]), pool.workload(size, min_rows=4))
    assert message == f"size {size} is too small: a rank needs at least 4 rows"


def test_smallest_slab_of_nothing_means_one_row(pool):
    assert "at least 1 row" in refusal(pool, pool.snapshot([1.0]), pool.workload(0, min_rows=0))


def test_more_ranks_than_slots_or_rows(pool):
    message = refusal(pool, pool.snapshot([1.0] * 3), pool.workload(100), ranks=4)
    assert message == (
        "4 ranks were asked for, but the pool has 3 usable slots and 100 rows make at most 100 ranks"
    )
    assert "2 rows make at most 2 ranks" in refusal(pool, pool.snapshot([1.0] * 3), pool.workload(2), ranks=3)


def test_unknown_cpu_type(pool):
    costs = Costs(seconds_per_row={"alpha": {1: 1.0}, "p2": {1: 2.0}})
    message = refusal(pool, pool.snapshot([1.0], cpu_type=["p3"]), pool.workload(10), costs)
    assert message == (
        "no host can take part in a run of 10 rows: h0: no benchmark for CPU type 'p3' (known: alpha, p2); "
        "run apples calibrate on such a host, or state its seconds_per_row in the grid file"
    )


@pytest.mark.parametrize(
    ("table", "words"), [({}, "no benchmark"), ({1: 0.0}, "0.0 s a row"), ({1: math.nan}, "nan")]
)
def test_benchmarks_that_say_nothing(pool, table, words):
    costs = Costs(seconds_per_row={"default": table})
    assert words in refusal(pool, pool.snapshot([1.0]), pool.workload(10), costs)


@recorded("apples/planning/unfit_hosts.txt", "host")
def test_hosts_that_cannot_take_part_say_why(pool, answered, host):
    answered(refusal(pool, pool.snapshot(**host), pool.workload(10, bytes_per_row=1e6, min_rows=3)))


@pytest.mark.parametrize("shares", [[0.0], [-0.2], [0.004, 0.0]])
def test_plan_on_busy_hosts_alone_uses_them(pool, shares):
    plan = make_plan(pool.snapshot(shares), pool.workload(10), pool.costs(), PlanningOptions())
    assert sum(a.work for a in plan.assignments) == 10
    idle = make_plan(pool.snapshot([1.0] * len(shares)), pool.workload(10), pool.costs(), PlanningOptions())
    assert plan.predicted_s > 20 * idle.predicted_s


def test_plan_with_an_idle_host_leaves_a_busy_one_out(pool):
    plan = make_plan(pool.snapshot([1.0, 0.0]), pool.workload(10), pool.costs(), PlanningOptions())
    assert plan.hosts == ("h0",)
    assert plan.left_out[0].reason == "a new process would get 0.000 of a CPU, less than 0.01"


def test_limits_below_the_smallest_slab_are_named(pool):
    message = refusal(pool, pool.snapshot([1.0]), pool.workload(10, min_rows=3, max_rows=2))
    assert "the array limit allows 2 rows a rank, fewer than 3" in message


def test_empty_pool(pool):
    assert "the pool is empty" in refusal(pool, pool.snapshot([]), pool.workload(10))


def test_constraints_that_contradict_each_other_are_named(pool):
    limits = (
        LinearConstraint(name="at most", coefficients={"h0": 1.0, "h1": 1.0}, bound=10),
        LinearConstraint(name="below zero", coefficients={"h0": 1.0}, bound=-1),
    )
    message = refusal(pool, pool.snapshot([1.0] * 2), pool.workload(100, constraints=limits))
    assert message == (
        "no choice of hosts places all 100 rows: the constraint at most; the constraint below zero"
    )


def test_links_that_do_not_work_are_named(pool):
    snapshot = pool.snapshot([1.0] * 2, bandwidth=np.zeros((2, 2)))
    message = refusal(pool, snapshot, pool.workload(100, messages=1, max_rows=60))
    assert message == (
        "no choice of hosts places all 100 rows, 60 at most: array limit 60 rows a rank; some links do not work"
    )


def test_run_of_no_iterations(pool):
    with pytest.raises(ConfigError, match="test: got 0 iterations; use 1 or more"):
        make_plan(pool.snapshot([1.0]), pool.workload(10, iterations=0), pool.costs())


def test_options_out_of_range_are_named_all_at_once():
    with pytest.raises(ConfigError) as caught:
        PlanningOptions(quantile=1.0, tolerance=-0.1, spill_factor=0.5, max_ranks=0, ranks=0)
    assert caught.value.problems == (
        "quantile 1.0 is not between 0 and 1 (both excluded)",
        "tolerance -0.1 is not a fraction of the finish; use 0 or more",
        "spill factor 0.5 is not a slow-down; use 1 or more",
        "max_ranks 0 leaves nobody to do the work; use 1 or more",
        "ranks 0 leaves nobody to do the work; use 1 or more",
    )
    with pytest.raises(ConfigError, match="ranks 5 is more than max_ranks 4"):
        PlanningOptions(ranks=5, max_ranks=4)
