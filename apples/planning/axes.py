"""The choice between slabs and a cut on two axes, and the plan of the latter.

Slabs remain the choice unless a cut on two axes ends sooner. Either plan states the times and borders of both.
"""

import math
from dataclasses import replace

import numpy as np

from apples.errors import ConfigError
from apples.model.cut import Axes, Cut
from apples.model.plan import Assignment, LeftOut, Plan, RowAllocation
from apples.model.template import Workload
from apples.planning import bounds, hostlimits
from apples.planning.bounds import UncertainRanks
from apples.planning.boxcosts import Boxes, with_whole_heights
from apples.planning.boxsearch import BoxSearch
from apples.planning.chains import Chains
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import IntArray, Problem
from nws.base.wording import counted


def check(workload: Workload, options: PlanningOptions) -> None:
    """Raise `ConfigError` if the user asks for a cut, or a number of ranks, that the program cannot take."""
    if options.ranks is not None and options.ranks not in workload.ranks:
        number, legal = counted(options.ranks, "rank"), workload.ranks.refusal(options.ranks)
        raise ConfigError(f"{workload.application} does not run on {number}; {legal}")
    able = None if workload.axes is None else workload.axes.cut
    if options.cut in ("auto", "slabs", able):
        return
    takes = "slabs only" if able is None else f"slabs and {able} cuts"
    remedy = "" if able else "name its second axis under `axes` in its application file, or "
    raise ConfigError(
        f"cut {options.cut}: {workload.application} takes {takes}; {remedy}leave the cut to the planner"
    )


def choose_cut(
    problem: Problem, axes: Axes, options: PlanningOptions, slabs: Plan | None, slabs_s: float
) -> Plan | None:
    """Return the plan of slabs, or of the best cut on two axes if that ends sooner, with the reason.

    None if there is neither, or not the one that the user asked for.  slabs_s : by which slabs are compared
    """
    boxes = None
    if options.cut != "slabs" and not problem.coupling:
        members = [] if slabs is None else [_processors(problem, slabs)]
        boxes = BoxSearch(problem, axes, options, members).best()
    allocation = RowAllocation(method="minimax")
    if boxes is not None and options.allocation == "pulp":
        boxes, allocation = with_whole_heights(problem, boxes, options) or (boxes, allocation)
    forced = options.cut == axes.cut
    if boxes is not None and (slabs is None or forced or _seconds(problem, boxes, options) < slabs_s):
        return replace(_plan(problem, axes, boxes, options, slabs), allocation=allocation)
    if slabs is None or forced:
        return None
    return replace(slabs, cut=_cut(problem, axes, boxes, slabs, options, taken=False))


def no_cut(problem: Problem, axes: Axes) -> str:
    """Return the sentence about a problem without a cut on two axes."""
    return f"no {axes.cut} cut places all cells of {counted(problem.size, problem.workload.row)}"


def _processors(problem: Problem, plan: Plan) -> IntArray:
    """Return the processors of a plan in rank order."""
    places = zip(problem.host_of.tolist(), problem.slot_of.tolist(), strict=True)
    number = {(problem.hosts[h].name, slot): i for i, (h, slot) in enumerate(places)}
    return np.array([number[a.host, a.slot] for a in plan.assignments], dtype=np.int64)


def _cut(
    problem: Problem,
    axes: Axes,
    boxes: Boxes | None,
    slabs: Plan | None,
    options: PlanningOptions,
    *,
    taken: bool,
) -> Cut:
    """Return the record of the choice. taken : whether the boxes are the plan"""
    border = 0 if boxes is None else boxes.layout.border()
    of_slabs = 0 if slabs is None else (len(slabs.assignments) - 1) * axes.width
    both_s = math.inf if boxes is None else _expected_s(problem, boxes, options)
    slabs_s = math.inf if slabs is None else slabs.predicted_s
    listed = []
    if boxes is not None:
        columns = boxes.layout.counts
        shape = f"{columns[0]} × {len(columns)}" if axes.cut == "rectilinear" else "+".join(map(str, columns))
        listed.append(f"{axes.cut} cut {shape}: {both_s:.4g} s, borders of {border} cells")
    if slabs is not None:
        ranks = len(slabs.assignments)
        listed.append(f"slabs on {counted(ranks, 'rank')}: {slabs_s:.4g} s, borders of {of_slabs} cells")
    chosen = listed if taken else listed[::-1]
    if options.cut != "auto":
        chosen = [f"{chosen[0]} (asked for)", *chosen[1:]]
    elif problem.coupling:
        chosen.append("constraints that tie hosts together are kept by slabs only")
    elif boxes is None:
        chosen.append(f"no {axes.cut} cut places the work")
    return Cut(
        kind=axes.cut if taken else "slabs",
        width=axes.width,
        border=border if taken else of_slabs,
        slabs_s=slabs_s,
        two_axes_s=both_s,
        slabs_border=of_slabs,
        why="; ".join(chosen),
    )


def _uncertain(problem: Problem, boxes: Boxes) -> UncertainRanks:
    hosts = problem.host_of[boxes.chain]
    sharing = Chains.of([boxes.chain]).ranks_on_host(problem)
    return UncertainRanks(
        work=(boxes.seconds - boxes.lines.fixed) * problem.priced_share[hosts, sharing],
        share=problem.share[hosts, sharing],
        quantiles=problem.share_quantiles[:, hosts, sharing],
        variation=problem.variation[hosts, sharing],
        guessed=problem.guessed[hosts, sharing],
        fixed=boxes.lines.fixed,
        fixed_error=boxes.error_s,
        host=hosts,
    )


def _seconds(problem: Problem, boxes: Boxes, options: PlanningOptions) -> float:
    """Return the seconds by which a cut is compared."""
    if options.quantile == 0.5:
        return _expected_s(problem, boxes, options)
    return _uncertain(problem, boxes).quantile(options.quantile)


def _expected_s(problem: Problem, boxes: Boxes, options: PlanningOptions) -> float:
    """Return the seconds that a plan of the boxes predicts."""
    ranks = _uncertain(problem, boxes)
    return bounds.predict(ranks, problem.overhead_error_s[len(ranks.work)], options.horizon)["predicted_s"]


def _plan(problem: Problem, axes: Axes, boxes: Boxes, options: PlanningOptions, slabs: Plan | None) -> Plan:
    """Return the plan of the boxes."""
    uncertain = _uncertain(problem, boxes)
    prediction = bounds.predict(uncertain, problem.overhead_error_s[len(uncertain.work)], options.horizon)
    used = {problem.hosts[h].name for h in problem.host_of[boxes.chain]}
    left = [LeftOut(host=name, reason=reason) for name, reason in problem.excluded]
    left += [
        LeftOut(host=host.name, reason="no cut on two axes with it ends sooner")
        for host in problem.hosts
        if host.name not in used
    ]
    limits = problem.limits
    costly = limits is not None and limits.price.any()
    return Plan(
        scheduler="apples",
        application=problem.workload.application,
        size=problem.size,
        model=options.model,
        assignments=_assignments(problem, axes, boxes, uncertain, options),
        **prediction,
        order=f"{axes.cut} cut",
        taken=_taken(problem, axes, boxes),
        left_out=tuple(left),
        candidates=1 if slabs is None else slabs.candidates,
        communication=problem.communication,
        cost=hostlimits.cost(limits, problem.host_of[boxes.chain], boxes.makespan_s)
        if limits and costly
        else None,
        cut=_cut(problem, axes, boxes, slabs, options, taken=True),
    )


def _in_rank_order(axes: Axes, boxes: Boxes) -> list[int]:
    """Return the ranks of the layout in rank order: along x first in a grid, else column by column."""
    n, columns = len(boxes.chain), len(boxes.layout.counts)
    if axes.cut == "columns":
        return list(range(n))
    return np.arange(n).reshape(columns, -1).T.ravel().tolist()


def _assignments(
    problem: Problem, axes: Axes, boxes: Boxes, ranks: UncertainRanks, options: PlanningOptions
) -> tuple[Assignment, ...]:
    """Return the ranks with their boxes and predicted seconds by part; waits for CPUs count as communication."""
    busy = ranks.compute()
    compute = busy / boxes.lines.coupling
    communicate = boxes.lines.communicate + busy - compute
    overhead = boxes.lines.fixed - boxes.lines.communicate
    used: dict[int, int] = {}
    assignments, owned = [], boxes.layout.boxes()
    for rank, i in enumerate(_in_rank_order(axes, boxes)):
        h, box = int(problem.host_of[boxes.chain[i]]), owned[i]
        slot = used.get(h, 0)
        used[h] = slot + 1
        assignments.append(
            Assignment(
                rank=rank,
                host=problem.hosts[h].name,
                slot=slot,
                rows=box.height,
                compute_s=float(compute[i]),
                communicate_s=float(communicate[i]),
                overhead_s=float(overhead[i]),
                box=box,
                part_of_row=box.width / axes.width,
            )
        )
    return tuple(assignments)


def _taken(problem: Problem, axes: Axes, boxes: Boxes) -> tuple[tuple[str, str], ...]:
    """Return (host, reason) for every host, in rank order."""
    hosts, reasons = problem.host_of[boxes.chain], {}
    cells = boxes.layout.cells / (axes.width * problem.size)
    for i in _in_rank_order(axes, boxes):
        h = int(hosts[i])
        mine = hosts == h
        m = int(mine.sum())
        part, ranks = f"{cells[mine].sum():.1%} of the cells", counted(m, "rank")
        reasons[problem.hosts[h].name] = f"{part} in {ranks} at {problem.share[h, m]:.2f} of a CPU each"
    return tuple(reasons.items())
