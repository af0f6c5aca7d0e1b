"""The planner: Figure 2 of the paper, then better.

For each desirability order and each host count a schedule is made; the cheapest by the performance model wins (`PAPER`
options do exactly this). By default the winners are then improved by `search`. With a quantile other than one half
the finalists are ranked by that quantile of their makespan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from apples.errors import NoFeasiblePlan
from apples.model.grid import Snapshot
from apples.model.plan import Plan
from apples.model.template import Costs, Workload
from apples.planning import bounds, desirability, exact, groups, rank_order, reasons, rescue
from apples.planning.candidates import CandidateSchedule, best_of, enumerate_orders
from apples.planning.chains import Chains
from apples.planning.options import PlanningOptions
from apples.planning.problem import Problem, build
from apples.planning.search import improve

#: Pools up to this many processors improve the winner of every order, larger ones only the cheapest.
MANY = 16


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The winning schedule, and the number of schedules compared."""

    schedule: CandidateSchedule
    candidates: int


def make_plan(
    snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions | None = None
) -> Plan:
    """Return the cheapest plan for the workload on the snapshot's hosts; raises `NoFeasiblePlan`."""
    options = options or PlanningOptions()
    problem = build(snapshot, workload, costs, options)
    choice = choose(problem, options)
    schedule = choice.schedule
    ranks = bounds.uncertain_ranks(problem, schedule, options)
    low, expected, high = bounds.low_expected_high(ranks, problem.overhead_error_s)
    return Plan(
        scheduler="apples",
        application=workload.application,
        size=workload.size,
        model=options.model,
        assignments=reasons.assignments(problem, schedule, ranks, options),
        predicted_s=expected,
        low_s=low,
        high_s=high,
        order=schedule.order,
        relaxed=schedule.relaxed,
        taken=reasons.taken(problem, schedule),
        left_out=reasons.left_out(problem, schedule, options),
        candidates=choice.candidates,
        communication=problem.communication,
    )


def check_room(snapshot: Snapshot, workload: Workload, options: PlanningOptions) -> None:
    """Raise `NoFeasiblePlan` if the hosts together cannot hold the work; runs before any benchmark."""
    anything = Costs(seconds_per_row={host.cpu_type: {1: 1.0} for host in snapshot.hosts})
    lacking = reasons.lacks_room(build(snapshot, workload, anything, options), options)
    if lacking is not None:
        raise NoFeasiblePlan(lacking)


def choose(problem: Problem, options: PlanningOptions) -> Choice:
    """Return the cheapest schedule; raises `NoFeasiblePlan` naming the limit that binds."""
    uniform = rank_order.is_uniform(problem)
    by_tree = options.rank_order == "tree" and not uniform
    tree = rank_order.spanning_tree(problem) if by_tree else None
    position = rank_order.tree_positions(problem, tree) if tree is not None else None
    listed = enumerate_orders(problem, desirability.orders(problem).items(), position, options)
    if options.improve and tree is not None and position is not None:
        listed += groups.candidates(problem, tree, position, options)
    finalists = _cheapest_of_each(problem, listed, options)
    if exact.applies(problem, options):
        best = exact.best_chain(problem, options, min(finalists, key=lambda s: s.makespan_s, default=None))
        if best is None:
            raise NoFeasiblePlan(reasons.why_infeasible(problem, options))
        candidates = sum(len(chains) for _, chains in listed)
        return Choice(min([best, *finalists], key=lambda s: _rank(problem, s, options)), candidates)
    if not finalists:
        # A last resort tries every count: like the tolerance, "even only" gives way before the run does.
        wider = replace(options, counts="every")
        again = enumerate_orders(problem, rescue.orders(problem), position, wider)
        finalists = _cheapest_of_each(problem, again, options)
        listed += again
    if not finalists:
        raise NoFeasiblePlan(reasons.why_infeasible(problem, options))
    candidates = sum(len(chains) for _, chains in listed)
    if options.improve:
        starts = _distinct(finalists)
        if problem.processors > MANY:
            starts = starts[:1]
        finalists = [improve(problem, s, options, turn=by_tree) for s in starts]
    return Choice(min(finalists, key=lambda s: _rank(problem, s, options)), candidates)


def _cheapest_of_each(
    problem: Problem, listed: list[tuple[str, Chains]], options: PlanningOptions
) -> list[CandidateSchedule]:
    """Return the cheapest schedule of every order; without `improve` only those that beat the orders before."""
    finalists: list[CandidateSchedule] = []
    for name, chains in listed:
        below = math.inf if options.improve else min((s.makespan_s for s in finalists), default=math.inf)
        found = best_of(problem, chains, options, below=below)
        if found is not None:
            s = found[1]
            odd = options.counts == "even" and options.ranks is None and len(s.chain) > 1 and len(s.chain) % 2
            relaxed = (*s.relaxed, "odd numbers of ranks allowed") if odd else s.relaxed
            finalists.append(CandidateSchedule(s.chain, s.rows, s.makespan_s, name, relaxed))
    return finalists


def _distinct(schedules: list[CandidateSchedule]) -> list[CandidateSchedule]:
    """Return the schedules with different hosts, cheapest first."""
    seen: dict[frozenset[int], CandidateSchedule] = {}
    for schedule in sorted(schedules, key=lambda s: s.makespan_s):
        seen.setdefault(frozenset(schedule.chain.tolist()), schedule)
    return list(seen.values())


def _rank(problem: Problem, schedule: CandidateSchedule, options: PlanningOptions) -> float:
    if options.quantile == 0.5:
        return schedule.makespan_s
    return bounds.uncertain_ranks(problem, schedule, options).quantile(options.quantile)
