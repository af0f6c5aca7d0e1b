"""Whole plans and refusals of small pools, with the reasons for each host, against recorded ones.

A row has the case, and whatever differs from the defaults of hosts, workload, costs and options.
"""

import pytest

from apples.errors import ConfigError, NoFeasiblePlan
from apples.model.limits import parse_limits
from apples.planning.baselines import default_plan, smart_user_plan
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions
from tests.transcripts import recorded

SCHEDULERS = {"apples": make_plan, "default": default_plan, "smart-user": smart_user_plan}


def lines_of(plan):
    """The plan as a reader of a table would want it."""
    order = f", by {plan.order}" if plan.order else ""
    yield f"{plan.scheduler}: {plan.predicted_s:.5g} s, {plan.low_s:.4g} to {plan.high_s:.4g}{order}"
    for a in plan.assignments:
        box = f", {a.box.width} by {a.box.height}" if a.box else ""
        parts = f"{a.compute_s:.5g} + {round(a.communicate_s, 4):g} + {a.overhead_s:.4g} s"
        yield f"{a.host} slot {a.slot}: {a.rows} rows{box}, {parts}"
    yield from (f"{host} is taken: {reason}" for host, reason in plan.taken)
    yield from (f"{left.host} is left: {left.reason}" for left in plan.left_out)
    yield from (*plan.relaxed, *plan.prices, *plan.links)
    if plan.cost is not None:
        yield f"cost {plan.cost:.5g}"
    if plan.cut is not None:
        times = f"{plan.cut.slabs_s:.5g} or {plan.cut.two_axes_s:.5g} s"
        yield f"{plan.cut.kind}, border {plan.cut.border} of {plan.cut.slabs_border}, {times}: {plan.cut.why}"
    if plan.allocation.bound_s is not None:
        yield f"heights by {plan.allocation.method}, none sooner than {plan.allocation.bound_s:.5g} s"


@recorded("apples/planning/plans.txt", "why", "hosts", "work", "costs", "options")
def test_plan_or_refusal_is_as_recorded(pool, answered, why, hosts, work, costs, options):
    scheduler = SCHEDULERS[options.pop("scheduler", "apples")]
    limits = parse_limits(options.pop("limits", {}))
    try:
        chosen = PlanningOptions(limits=limits, **options)
        plan = scheduler(pool.snapshot(**hosts), pool.workload(**work), pool.costs(**costs), chosen)
    except (NoFeasiblePlan, ConfigError) as refusal:
        answered([f"{type(refusal).__name__}, exit code {refusal.exit_code}: {refusal}"])
    else:
        answered(list(lines_of(plan)))


@pytest.mark.parametrize("shares", [[0.0], [-0.2], [0.004, 0.0]])
def test_plan_on_busy_hosts_alone_uses_them(pool, shares):
    plan = make_plan(pool.snapshot(shares), pool.workload(10), pool.costs())
    assert sum(a.work for a in plan.assignments) == 10
    idle = make_plan(pool.snapshot([1.0] * len(shares)), pool.workload(10), pool.costs())
    assert plan.predicted_s > 20 * idle.predicted_s
