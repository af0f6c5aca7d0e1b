"""The planner: Figure 2 of the paper, then better.

For each desirability order and each host count a schedule is made; the cheapest by the performance model wins (`PAPER`
options do exactly this). By default the winners are then improved by `search`. With a quantile other than one half
the finalists are ranked by that quantile of their makespan.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from apples.errors import NoFeasiblePlan
from apples.model.grid import Host, Snapshot
from apples.model.limits import Limits
from apples.model.plan import Plan, RowAllocation
from apples.model.template import Costs, Workload
from apples.planning import (
    axes,
    bounds,
    desirability,
    exact,
    groups,
    heights,
    hostlimits,
    paths,
    placement,
    prices,
    rank_order,
    reasons,
)
from apples.planning.candidates import (
    CandidateSchedule,
    best_of,
    enumerate_orders,
    keeps_limits,
    seconds_per_rank,
)
from apples.planning.chains import Chains
from apples.planning.model import rank_lines
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import IntArray, Problem, build
from apples.planning.search import improve
from nws.base.wording import counted

#: Pools up to this many processors improve the winner of every order, larger ones begin with the cheapest `STARTS`.
MANY, STARTS = 16, 2
#: Larger pools improve only the cheapest.
VAST = 64
#: Moves after which only the best of several starts is improved further.
TRIAL = 2
#: Forecasts are over the length of the run within this factor, or of so many plans the last is taken.
_NEAR, _ROUNDS = 2.0, 3


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The winning schedule, and the number of schedules compared. cut : a sentence if the search of hosts was cut"""

    schedule: CandidateSchedule
    candidates: int
    cut: str = ""


def make_plan(
    snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions | None = None
) -> Plan:
    """Return the cheapest plan for the workload on the snapshot's hosts; raises `NoFeasiblePlan`."""
    options = options or PlanningOptions()
    problem, plan = _at_its_length(snapshot, workload, costs, options)
    if plan is None:
        raise NoFeasiblePlan(_refusal(problem, options))
    return plan


def find_plan(snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions) -> Plan | None:
    """Return the plan of `make_plan`; None instead of reasons if there is none."""
    return _at_its_length(snapshot, workload, costs, options)[1]


def _at_its_length(
    snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions
) -> tuple[Problem, Plan | None]:
    """Return the cheapest plan by forecasts over about its own length, and its problem."""
    axes.check(workload, options)
    problem = build(snapshot, workload, costs, options)
    if options.horizon == "next" or not snapshot.has_outlooks:
        return problem, _cheapest(problem, options)
    span_s = problem.shortest_s
    for last in range(_ROUNDS, 0, -1):
        problem = build(snapshot.over(span_s, span_s / workload.iterations), workload, costs, options)
        plan = _cheapest(problem, options)
        if plan is None:
            break
        makespan_s = plan.predicted_s - plan.lateness_s
        if last == 1 or span_s / _NEAR <= makespan_s <= span_s * _NEAR:
            return problem, replace(plan, horizon_s=span_s)
        span_s = makespan_s
    return problem, None


def _cheapest(problem: Problem, options: PlanningOptions) -> Plan | None:
    """Return the cheapest plan of a problem; None if none is feasible."""
    choice, slabs, seconds = search(problem, options), None, math.inf
    if choice is not None:
        choice, allocation = _settled(problem, choice, options)
        slabs = replace(_slab_plan(problem, choice, options), allocation=allocation)
        by_forecast = options.quantile == 0.5
        seconds = slabs.predicted_s if by_forecast else _rank(problem, choice.schedule, options)
    if problem.workload.axes is None or options.model == "paper":
        return slabs
    return axes.choose_cut(problem, problem.workload.axes, options, slabs, seconds)


def _settled(problem: Problem, choice: Choice, options: PlanningOptions) -> tuple[Choice, RowAllocation]:
    """Return the choice with the heights of the integer program, and the proof of them.

    The heights of the search stay if the program ends later, which rounding errors of a solver can make it do.
    """
    schedule = choice.schedule
    proven = options.allocation != "lp" and not problem.coupling
    by_search = RowAllocation(
        method="lp" if options.allocation == "lp" else "minimax",
        bound_s=schedule.makespan_s if proven else None,
        gap=0.0 if proven else None,
    )
    if options.allocation != "pulp" or len(schedule.chain) > heights.MOST:
        return choice, by_search
    lines = rank_lines(problem, Chains.of([schedule.chain]), options)
    program = heights.chain_program(problem, schedule.chain, lines)
    solution = heights.whole_heights(program, lines, schedule.rows)
    if solution is None:
        return choice, by_search
    rows, allocation = solution
    makespan_s = float(lines.seconds(rows.astype(np.float64)).max())
    if makespan_s > schedule.makespan_s * (1 + 1e-9):
        return choice, by_search
    return replace(choice, schedule=replace(schedule, rows=rows, makespan_s=makespan_s)), allocation


def _slab_plan(problem: Problem, choice: Choice, options: PlanningOptions) -> Plan:
    """Return the plan of a schedule."""
    schedule = choice.schedule
    ranks = bounds.uncertain_ranks(problem, schedule, options)
    prediction = bounds.predict(ranks, problem.overhead_error_s[len(ranks.work)], options.horizon)
    return Plan(
        scheduler="apples",
        application=problem.workload.application,
        size=problem.size,
        model=options.model,
        assignments=reasons.assignments(problem, schedule, ranks, options),
        **prediction,
        order=schedule.order,
        relaxed=schedule.relaxed,
        taken=reasons.taken(problem, schedule),
        left_out=reasons.left_out(problem, schedule, options),
        candidates=choice.candidates,
        search=choice.cut,
        communication=problem.communication,
        cost=_cost(problem, schedule),
        links=reasons.links(problem, schedule),
        prices=_prices(problem, schedule, options) if options.prices else (),
    )


def _prices(problem: Problem, schedule: CandidateSchedule, options: PlanningOptions) -> tuple[str, ...]:
    """Return the prices of the limits that bind the schedule, a sentence each."""

    def replan(limits: Limits) -> float:
        schedule = search(with_limits(problem, limits), options)
        return math.inf if schedule is None else schedule.schedule.makespan_s

    sentences = prices.row_prices(problem, schedule, options)
    if problem.limits is not None:
        sentences += prices.limit_prices(problem.limits.stated, schedule.makespan_s, replan)
    return tuple(sentences)


def _cost(problem: Problem, schedule: CandidateSchedule) -> float | None:
    """Return the cost of the run in the unit of its hosts' prices; None without prices."""
    if problem.limits is None or not problem.limits.price.any():
        return None
    return hostlimits.cost(problem.limits, problem.host_of[schedule.chain], schedule.makespan_s)


def check_room(snapshot: Snapshot, workload: Workload, options: PlanningOptions) -> None:
    """Raise `NoFeasiblePlan` if the hosts together cannot hold the work; runs before any benchmark."""
    anything = Costs(seconds_per_row={host.cpu_type: {1: 1.0} for host in snapshot.hosts})
    lacking = reasons.lacks_room(build(snapshot, workload, anything, options), options)
    if lacking is not None:
        raise NoFeasiblePlan(lacking)


def _refusal(problem: Problem, options: PlanningOptions) -> str:
    """Return why there is no plan, naming the limits that bind."""
    able = problem.workload.axes
    whole = "" if able is None or options.model == "paper" else axes.no_cut(problem, able)
    if options.cut not in ("auto", "slabs") and search(problem, options) is not None:
        return whole
    if problem.limits and problem.limits.stated and reasons.lacks_room(problem, options) is None:
        slabs = refused(problem, options)
    else:
        slabs = reasons.why_infeasible(problem, options)
    return f"{slabs}; {whole}" if whole and options.cut != "slabs" else slabs


def search(problem: Problem, options: PlanningOptions, *, effort: int = placement.EFFORT) -> Choice | None:
    """Return the cheapest schedule; None if none is feasible. effort : of `placement.soonest`"""
    uniform = rank_order.is_uniform(problem)
    by_tree = options.rank_order == "tree" and not uniform
    tree = rank_order.spanning_tree(problem) if by_tree else None
    position = rank_order.tree_positions(problem, tree) if tree is not None else None
    listed = enumerate_orders(problem, desirability.orders(problem).items(), position, options)
    if options.improve and tree is not None and position is not None:
        listed += groups.candidates(problem, tree, position, options)
        if problem.processors > exact.MOST:
            listed += paths.candidates(problem, options)
    finalists = _cheapest_of_each(problem, listed, options)
    candidates = sum(len(chains) for _, chains in listed)
    if exact.applies(problem, options):
        best = exact.best_chain(problem, options, min(finalists, key=lambda s: s.makespan_s, default=None))
        if best is None:
            return None
        return Choice(min([best, *finalists], key=lambda s: _rank(problem, s, options)), candidates)
    if not finalists:
        again, finalists = _rescued(problem, position, options)
        candidates += again
    stated = problem.limits is not None and bool(problem.limits.stated)
    improving = options.improve and (stated or not finalists)
    cut = ""
    if improving and (finalists or reasons.lacks_room(problem, options) is None):
        soonest_s = min((s.makespan_s for s in finalists), default=math.inf)
        placed, cut = _by_program(problem, options, soonest_s, effort)
        finalists += placed
        candidates += 1
    if not finalists:
        return None
    if options.improve:
        finalists = _improved(problem, _distinct(finalists), options, turn=by_tree)
    return Choice(min(finalists, key=lambda s: _rank(problem, s, options)), candidates, cut)


def refused(problem: Problem, options: PlanningOptions) -> str:
    """Return why no plan keeps people's limits: those without which, one at a time, there is a plan."""
    assert problem.limits is not None
    named = []
    for name in problem.limits.stated.names:
        lifted = with_limits(problem, problem.limits.stated.without(name))
        other = search(lifted, options, effort=placement.BRIEF)
        if other is not None:
            seconds = other.schedule.makespan_s
            cost = hostlimits.cost(problem.limits, problem.host_of[other.schedule.chain], seconds)
            money = f" and costs {cost:.4g}" if cost else ""
            named.append(f"without {name} the run takes {seconds:.4g} s{money}")
    row, size = problem.workload.row, problem.size
    listed = "; ".join(named) or "more than one has to give: " + ", ".join(problem.limits.stated.names)
    cut = placement.soonest(problem, options).sentence
    return (
        f"no choice of hosts places all {counted(size, row)} within the limits: {listed}{cut and '; ' + cut}"
    )


def with_limits(problem: Problem, limits: Limits) -> Problem:
    """Return the problem under other limits. Hosts that were left out stay unusable."""
    pool = (*problem.hosts, *(Host(name=name) for name, _ in problem.excluded))
    return replace(problem, limits=hostlimits.host_limits(limits, problem.hosts, pool))


def _improved(
    problem: Problem, starts: list[CandidateSchedule], options: PlanningOptions, *, turn: bool
) -> list[CandidateSchedule]:
    """Return the starts after local search, cheapest first given; of a larger pool only the most promising ones."""
    if problem.processors <= MANY:
        return [improve(problem, s, options, turn=turn) for s in starts]
    some = starts[: STARTS if problem.processors <= VAST else 1]
    if len(some) == 1:
        return [improve(problem, some[0], options, turn=turn)]
    tried = [improve(problem, s, options, turn=turn, rounds=TRIAL) for s in some]
    best = min(tried, key=lambda s: s.makespan_s)
    # A start without a better neighbour has none in a second search either.
    return [best if any(best is s for s in some) else improve(problem, best, options, turn=turn)]


def _rescued(
    problem: Problem, position: IntArray | None, options: PlanningOptions
) -> tuple[int, list[CandidateSchedule]]:
    """Return the number of candidates of other orders, and the feasible ones."""
    # Every count is tried: like the tolerance, "even only" gives way before the run does.
    wider = replace(options, counts="every")
    listed = enumerate_orders(problem, rank_order.orders_of_last_resort(problem), position, wider)
    return sum(len(chains) for _, chains in listed), _cheapest_of_each(problem, listed, options)


def _by_program(
    problem: Problem, options: PlanningOptions, below: float, effort: int
) -> tuple[list[CandidateSchedule], str]:
    """Return the schedule of the integer program of hosts, if it might end before `below`, with its own slabs or better
    ones; and a sentence if the search was cut.
    """
    if problem.limits:
        soonest = placement.soonest(problem, options, below, effort)
        placed, cut = soonest.placement, soonest.sentence
    else:
        placed, cut = placement.most_rows(problem, options), ""
    if placed is None or placed.rows.sum() < problem.size:
        return [], cut
    plain = CandidateSchedule(placed.chain, placed.rows, math.inf, "any that holds the work")
    plain = replace(plain, makespan_s=float(seconds_per_rank(problem, plain, options).max()))
    recut = _cheapest_of_each(problem, [(plain.order, Chains.of([placed.chain]))], options)
    return recut or ([plain] if keeps_limits(problem, plain) else []), cut


def _cheapest_of_each(
    problem: Problem, listed: list[tuple[str, Chains]], options: PlanningOptions
) -> list[CandidateSchedule]:
    """Return the cheapest schedule of every order; without `improve` only those that beat the orders before."""
    finalists: list[CandidateSchedule] = []
    for name, chains in listed:
        below = math.inf if options.improve else min((s.makespan_s for s in finalists), default=math.inf)
        best = best_of(problem, chains, options, below=below)
        if best is not None:
            s = best[1]
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
