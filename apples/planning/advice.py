"""How many hosts, which, until when and at what cost: the plans of a pool of which none is both slower and dearer.

For every number of ranks the fastest plan is found. So is the fastest plan that costs a tenth less than each before,
three tenths less in pools that are not searched completely. Plans that another one beats in time and cost are dropped.
Cost is money if hosts have prices, host-hours otherwise. Pure; goes beyond the paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from apples.errors import NoFeasiblePlan
from apples.model.grid import Snapshot
from apples.model.template import Costs, Workload
from apples.planning import bounds, exact, hostlimits
from apples.planning.options import PlanningOptions
from apples.planning.planner import choose, search, with_limits
from apples.planning.problem import Problem, build

#: Each further plan costs at most this part of the one before: of a small pool, and of a larger one.
CHEAPER, MUCH_CHEAPER = 0.9, 0.7
_MOST_STEPS, _LARGE_STEPS = 24, 6
#: Every number of ranks is tried up to this one, then only those a fifth apart.
_EVERY = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One plan of the table. hosts : distinct, in rank order.  cost : None without prices

    predicted_s, low_s, high_s : as in `apples.model.plan.Plan`
    """

    hosts: tuple[str, ...]
    ranks: int
    predicted_s: float
    low_s: float
    high_s: float
    cost: float | None

    @property
    def host_hours(self) -> float:
        """Return hosts · predicted hours."""
        return len(self.hosts) * self.predicted_s / 3600


def advice(
    snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions | None = None
) -> tuple[Offer, ...]:
    """Return the plans that no other plan beats in time and cost, fastest first; raises `NoFeasiblePlan`.

    Limits of the options and the workload are kept by all of them.
    """
    options = options or PlanningOptions()
    priced = bool((workload.limits | options.limits).prices)
    if not priced:
        options = replace(
            options, limits=replace(options.limits, prices={h.name: 1.0 for h in snapshot.hosts})
        )
    problem = build(snapshot, workload, costs, options)
    if options.horizon == "run" and snapshot.has_outlooks:
        problem = build(snapshot.over(problem.shortest_s), workload, costs, options)
    choose(problem, options)
    found = [*_by_ranks(problem, options, priced), *_by_budget(problem, options, priced)]
    front: list[Offer] = []
    for offer in sorted(found, key=lambda o: (o.predicted_s, _price(o))):
        if not front or _price(offer) < _price(front[-1]) * (1 - 1e-9):
            front.append(offer)
    if not front:
        raise NoFeasiblePlan("no number of ranks has a plan within the limits")
    return tuple(front)


def cheapest_by(offers: tuple[Offer, ...], seconds: float) -> Offer | None:
    """Return the cheapest plan that probably ends within `seconds`; None if none does. offers : fastest first"""
    in_time = [offer for offer in offers if offer.high_s <= seconds]
    return in_time[-1] if in_time else None


def _price(offer: Offer) -> float:
    return offer.host_hours if offer.cost is None else offer.cost


def _by_ranks(problem: Problem, options: PlanningOptions, priced: bool) -> Iterator[Offer]:
    """Yield the fastest plan of each number of ranks that the options allow."""
    most = options.most_ranks(min(problem.processors, problem.size // problem.min_rows))
    ranks = options.ranks or 1
    while ranks <= most:
        offer = _offer(problem, replace(options, ranks=ranks, max_ranks=None), priced)
        if offer is not None:
            yield offer
        ranks = ranks + 1 if ranks < _EVERY else min(ranks + ranks // 5, most) if ranks < most else most + 1


def _by_budget(problem: Problem, options: PlanningOptions, priced: bool) -> Iterator[Offer]:
    """Yield ever cheaper plans, each the fastest that costs at most `CHEAPER` of the one before."""
    small = exact.applies(problem, options)
    for _ in range(_MOST_STEPS if small else _LARGE_STEPS):
        offer = _offer(problem, options, priced)
        if offer is None or problem.limits is None:
            return
        yield offer
        cheaper = replace(problem.limits.stated, budget=_price(offer) * (CHEAPER if small else MUCH_CHEAPER))
        problem = with_limits(problem, cheaper)


def _offer(problem: Problem, options: PlanningOptions, priced: bool) -> Offer | None:
    """Return the fastest plan of a problem; None if there is none."""
    found = search(problem, options)
    if found is None:
        return None
    schedule = found.schedule
    ranks = bounds.uncertain_ranks(problem, schedule, options)
    low, expected, high = bounds.low_expected_high(ranks, problem.overhead_error_s, options.horizon)
    hosts = problem.host_of[schedule.chain]
    return Offer(
        hosts=tuple(dict.fromkeys(problem.hosts[h].name for h in hosts.tolist())),
        ranks=len(hosts),
        predicted_s=expected,
        low_s=low,
        high_s=high,
        cost=hostlimits.cost(problem.limits, hosts, expected) if priced else None,
    )
