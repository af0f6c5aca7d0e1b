"""How many hosts, which, until when and at what cost: the plans of a pool of which none is both slower and dearer.

For every number of ranks the fastest plan is found. So is the fastest plan that costs a tenth less than each before,
three tenths less in pools that are not searched completely. Plans that another one beats in time and cost are dropped.
Cost is money if hosts have prices, host-hours otherwise. Pure; goes beyond the paper.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from apples.model.grid import Snapshot
from apples.model.plan import Plan
from apples.model.template import Costs, Workload
from apples.planning import exact
from apples.planning.candidates import most_legal
from apples.planning.planner import find_plan, make_plan
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import build

#: Each further plan costs at most this part of the one before: of a small pool, and of a larger one.
CHEAPER, MUCH_CHEAPER = 0.9, 0.7
_MOST_STEPS, _LARGE_STEPS = 24, 6
#: Every number of ranks is tried up to this one, then only those a fifth apart.
_EVERY = 12

_Find = Callable[[PlanningOptions], Plan | None]


def advice(
    snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions | None = None
) -> tuple[Plan, ...]:
    """Return the plans that no other plan beats in time and cost, fastest first; raises `NoFeasiblePlan`.

    Limits of the options and the workload are kept by all of them. CPU shares are forecast over the length of each.
    """
    options = options or PlanningOptions()
    priced = bool((workload.limits | options.limits).prices)
    if not priced:
        hourly = {host.name: 1.0 for host in snapshot.hosts}
        options = replace(options, limits=replace(options.limits, prices=hourly))
    problem = build(snapshot, workload, costs, options)
    find = partial(find_plan, snapshot, workload, costs)
    plans = [make_plan(snapshot, workload, costs, options)]
    plans += _by_budget(find, options, plans[0], small=exact.applies(problem, options))
    most = options.most_ranks(min(problem.processors, problem.size // problem.min_rows))
    plans += _by_ranks(find, options, most, partial(most_legal, problem))
    front: list[Plan] = []
    for plan in sorted(plans, key=lambda p: (p.predicted_s, _cost(p))):
        if not front or _cost(plan) < _cost(front[-1]) * (1 - 1e-9):
            front.append(plan)
    return tuple(front if priced else [replace(plan, cost=None) for plan in front])


def cheapest_by(plans: tuple[Plan, ...], seconds: float) -> Plan | None:
    """Return the cheapest plan that probably ends within `seconds`; None if none does. plans : fastest first"""
    in_time = [plan for plan in plans if plan.high_s <= seconds]
    return in_time[-1] if in_time else None


def _cost(plan: Plan) -> float:
    return plan.cost or 0.0


def _by_ranks(
    find: _Find, options: PlanningOptions, most: int, legal: Callable[[int], int]
) -> Iterator[Plan]:
    """Yield the fastest plan of each number of ranks that the options allow.

    legal : number of ranks → the largest up to it that the program takes
    """
    ranks, last = options.ranks or 1, 0
    while ranks <= most:
        plan = find(replace(options, ranks=legal(ranks), max_ranks=None)) if legal(ranks) > last else None
        last = legal(ranks)
        if plan is not None:
            yield plan
        ranks = ranks + 1 if ranks < _EVERY else min(ranks + ranks // 5, most) if ranks < most else most + 1


def _by_budget(find: _Find, options: PlanningOptions, plan: Plan | None, *, small: bool) -> Iterator[Plan]:
    """Yield ever cheaper plans than one, each the fastest that costs at most `CHEAPER` of the one before."""
    part, steps = (CHEAPER, _MOST_STEPS) if small else (MUCH_CHEAPER, _LARGE_STEPS)
    while plan is not None and steps:
        plan = find(replace(options, limits=replace(options.limits, budget=_cost(plan) * part)))
        if plan is not None:
            yield plan
        steps -= 1
