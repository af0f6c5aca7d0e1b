"""Plans with equal slabs, priced by the same model: `default` and `smart-user` (§4.3), and the best of them.

*default* takes every host of the pool in the grid's order with equal slabs. *smart user* knows the right number of
hosts (the planner's own, on idle machines) but no loads: the first hosts, equal slabs. Neither considers memory; where
a slab exceeds it, the exchange model's prediction shows the price.
"""

import math
from dataclasses import replace

import numpy as np

from apples.errors import NoFeasiblePlan
from apples.model.grid import Conditions, Estimate, Snapshot
from apples.model.plan import LeftOut, Plan
from apples.model.template import Costs, Workload
from apples.planning import bounds, reasons
from apples.planning.candidates import CandidateSchedule, most_legal, seconds_per_rank
from apples.planning.chains import Chains
from apples.planning.model import rank_lines
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import UNUSABLE_S, IntArray, Problem, build
from nws.base.wording import counted


def default_plan(
    snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions | None = None
) -> Plan:
    """Return the plan with all hosts, equal slabs and the grid's order.

    Raises `NoFeasiblePlan` when a slab exceeds the array limit.
    """
    chosen = replace(options or PlanningOptions(), allow_spill=True, quantile=0.5)
    problem = build(snapshot, workload, costs, chosen)
    possible = min(problem.processors, workload.size // problem.min_rows)
    most = chosen.most_ranks(possible)
    reason = (
        "beyond the ranks that have a row" if most == possible else f"the run may use {most} ranks at most"
    )
    return _equal_plan("default", problem, most_legal(problem, most), chosen, reason=reason)


def even_pieces(
    plan: Plan, snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions
) -> Plan | None:
    """Return the plan with equal pieces on all hosts that the run may use; None if there is none, or `plan` is that."""
    slots = sum(host.slots for host in snapshot.hosts)
    if plan.cut is None and len(plan.rows) == slots and max(plan.rows) - min(plan.rows) <= 1:
        return None
    try:
        even = default_plan(snapshot, replace(workload, axes=None), costs, options)
    except NoFeasiblePlan:
        return None
    same = plan.cut is None and sorted(plan.pieces) == sorted(even.pieces)
    return None if same or not math.isfinite(even.predicted_s) else even


def smart_user_plan(
    snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions | None = None
) -> Plan:
    """Return the plan with the right number of hosts for idle machines, the first of the pool, and equal slabs."""
    chosen = replace(options or PlanningOptions(), allow_spill=True, quantile=0.5)
    right = make_plan(_as_if_idle(snapshot), replace(workload, axes=None), costs, chosen)
    problem = build(snapshot, workload, costs, chosen)
    ranks = most_legal(problem, min(len(right.assignments), problem.processors))
    return _equal_plan("smart-user", problem, ranks, chosen, reason="the right number of hosts is reached")


def even_plan(
    snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions | None = None
) -> Plan:
    """Return the cheapest plan with equal slabs, for a program that cannot take others.

    The slowest processor sets the pace, so a plan takes all processors up to some price; each price is tried. Raises
    `NoFeasiblePlan` if no number of equal slabs fits.
    """
    chosen = options or PlanningOptions()
    problem = build(snapshot, workload, costs, chosen)
    best: tuple[float, IntArray] | None = None
    for price in np.unique(problem.slope[np.isfinite(problem.slope)]):
        chain = _up_to(problem, float(price), chosen)
        if chain is None:
            continue
        rows = _equal_rows(problem.size, len(chain))
        sharing = np.bincount(problem.host_of[chain], minlength=len(problem.hosts))[problem.host_of[chain]]
        if (rows > problem.cap[problem.host_of[chain], sharing]).any() or rows.min() < problem.min_rows:
            continue
        seconds = float(seconds_per_rank(problem, CandidateSchedule(chain, rows, 0.0, ""), chosen).max())
        if best is None or seconds < best[0]:
            best = seconds, chain
    if best is None:
        raise NoFeasiblePlan(reasons.why_infeasible(problem, chosen))
    return _priced_plan("apples", problem, best[1], chosen, reason="equal slabs end sooner without it")


def _up_to(problem: Problem, price: float, options: PlanningOptions) -> IntArray | None:
    """Return the processors of at most a price for a row, as many of each host as keep to it; None if too few.

    The dearest are left out first where the options allow fewer ranks.
    """
    affordable = (problem.slope <= price) & np.isfinite(problem.slope)
    most = (affordable * np.arange(affordable.shape[1])).max(axis=1)
    chain = np.flatnonzero(problem.slot_of < most[problem.host_of])
    ranks = most_legal(problem, options.most_ranks(min(len(chain), problem.size // problem.min_rows)))
    if ranks < (options.ranks or 1):
        return None
    slope = problem.slope[problem.host_of[chain], problem.slot_of[chain] + 1]
    return np.sort(chain[np.argsort(slope, kind="stable")[:ranks]])


def _equal_rows(size: int, ranks: int) -> IntArray:
    """Return heights that differ by at most one row, the larger ones first."""
    rows = np.full(ranks, size // ranks, dtype=np.int64)
    rows[: size % ranks] += 1
    return rows


def _as_if_idle(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without any load, as a back-of-the-envelope calculation assumes."""
    idle = tuple(
        Conditions(
            availability=Estimate(value=1.0),
            memory_bytes=c.memory_bytes,
            capacity=Estimate(value=float(h.slots)),
        )
        for h, c in zip(snapshot.hosts, snapshot.conditions, strict=True)
    )
    return replace(snapshot, conditions=idle)


def _equal_plan(name: str, problem: Problem, ranks: int, options: PlanningOptions, *, reason: str) -> Plan:
    """Return the plan of the first `ranks` processors, first slots of hosts before second ones.

    Heights differ by at most one row.
    """
    if ranks < (options.ranks or 1):
        raise NoFeasiblePlan(reasons.why_infeasible(problem, options))
    spread = np.lexsort((problem.host_of, problem.slot_of))[:ranks]
    chain = np.sort(spread)
    rows = _equal_rows(problem.size, ranks)
    limit = problem.workload.max_rows
    if limit is not None and rows[0] > limit:
        raise NoFeasiblePlan(
            f"equal slabs of {counted(int(rows[0]), problem.workload.row)} on {ranks} ranks exceed the array "
            f"limit of {limit}; use more hosts"
        )
    return _priced_plan(name, problem, chain, options, reason=reason)


def _priced_plan(
    name: str, problem: Problem, chain: IntArray, options: PlanningOptions, *, reason: str
) -> Plan:
    """Return the plan of a chain with equal slabs. reason : why other hosts are left out"""
    ranks, rows = len(chain), _equal_rows(problem.size, len(chain))
    if rank_lines(problem, Chains.of([chain]), options).communicate.max() >= UNUSABLE_S:
        raise NoFeasiblePlan(
            f"equal slabs on {ranks} ranks in the grid's order would exchange over a link that does not work; "
            "leave out one of its hosts, or let the planner choose"
        )
    unpriced = CandidateSchedule(chain, rows, 0.0, "grid order")
    finish = float(seconds_per_rank(problem, unpriced, options).max())
    schedule = CandidateSchedule(chain, rows, finish, "grid order")
    uncertain = bounds.uncertain_ranks(problem, schedule, options)
    prediction = bounds.predict(uncertain, problem.overhead_error_s[len(uncertain.work)], options.horizon)
    used = set(problem.host_of[chain].tolist())
    left = tuple(LeftOut(host=h.name, reason=reason) for i, h in enumerate(problem.hosts) if i not in used)
    return Plan(
        scheduler=name,
        application=problem.workload.application,
        size=problem.size,
        model=options.model,
        assignments=reasons.assignments(problem, schedule, uncertain, options),
        **prediction,
        order="grid order",
        taken=reasons.taken(problem, schedule),
        left_out=(*(LeftOut(host=h, reason=r) for h, r in problem.excluded), *left),
        communication=problem.communication,
    )
