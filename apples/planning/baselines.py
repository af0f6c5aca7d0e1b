"""Plans made without an agent: `default` and `smart-user`, priced by the same model (§4.3).

*default* takes every host of the pool in the grid's order with equal slabs. *smart user* knows the right number of
hosts (the planner's own, on idle machines) but no loads: the first hosts, equal slabs. Neither considers memory; where
a slab exceeds it, the exchange model's prediction shows the price.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apples.errors import NoFeasiblePlan
from apples.model.grid import Conditions, Estimate, Snapshot
from apples.model.plan import LeftOut, Plan
from apples.model.template import Costs, Workload
from apples.planning import bounds, reasons
from apples.planning.candidates import CandidateSchedule, seconds_per_rank
from apples.planning.chains import Chains
from apples.planning.model import rank_lines
from apples.planning.options import PlanningOptions
from apples.planning.planner import make_plan
from apples.planning.problem import UNUSABLE_S, Problem, build


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
    return _equal_plan("default", problem, most, chosen, reason=reason)


def smart_user_plan(
    snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions | None = None
) -> Plan:
    """Return the plan with the right number of hosts for idle machines, the first of the pool, and equal slabs."""
    chosen = replace(options or PlanningOptions(), allow_spill=True, quantile=0.5)
    right = make_plan(_as_if_idle(snapshot), workload, costs, chosen)
    problem = build(snapshot, workload, costs, chosen)
    ranks = min(len(right.assignments), problem.processors)
    return _equal_plan("smart-user", problem, ranks, chosen, reason="the right number of hosts is reached")


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
    rows = np.full(ranks, problem.size // ranks, dtype=np.int64)
    rows[: problem.size % ranks] += 1
    limit = problem.workload.max_rows
    if limit is not None and rows[0] > limit:
        raise NoFeasiblePlan(
            f"equal slabs of {rows[0]} {problem.workload.row}s on {ranks} ranks exceed the array limit of {limit}; "
            "use more hosts"
        )
    schedule = CandidateSchedule(chain, rows, 0.0, "grid order")
    if rank_lines(problem, Chains.of([chain]), options).communicate.max() >= UNUSABLE_S:
        raise NoFeasiblePlan(
            f"equal slabs on {ranks} ranks in the grid's order would exchange over a link that does not work; "
            "leave out one of its hosts, or let the planner choose"
        )
    finish = float(seconds_per_rank(problem, schedule, options).max())
    schedule = CandidateSchedule(chain, rows, finish, "grid order")
    uncertain = bounds.uncertain_ranks(problem, schedule, options)
    low, expected, high = bounds.low_expected_high(uncertain, problem.overhead_error_s)
    used = set(problem.host_of[chain].tolist())
    left = tuple(LeftOut(host=h.name, reason=reason) for i, h in enumerate(problem.hosts) if i not in used)
    return Plan(
        scheduler=name,
        application=problem.workload.application,
        size=problem.size,
        model=options.model,
        assignments=reasons.assignments(problem, schedule, uncertain, options),
        predicted_s=expected,
        low_s=low,
        high_s=high,
        order="grid order",
        taken=reasons.taken(problem, schedule),
        left_out=(*(LeftOut(host=h, reason=r) for h, r in problem.excluded), *left),
        communication=problem.communication,
    )
