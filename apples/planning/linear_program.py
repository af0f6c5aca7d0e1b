"""Slab heights by linear programming, as in the paper (§3.3), for any set of linear constraints.

Unknowns are the heights x_i and the expected finish T. All T_i must be within a tolerance of T, memory and array
limits bound each x_i, further constraints may tie hosts together, and Σ x_i is driven up to the size. When the work
cannot all be placed, the balance tolerance is widened step by step and the final one is reported. PuLP models the
problem and HiGHS solves it; any PuLP solver may be passed as an argument.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from apples.model.grid import FloatArray
from apples.planning.minimax import Allowed
from apples.planning.model import RankLines
from apples.planning.problem import IntArray, Problem

#: Balance tolerances tried after the user's; inf leaves only T_i ≤ T.
RELAXED_TOLERANCES = (0.02, 0.05, 0.1, 0.2, 0.5, math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class SlabHeights:
    """Real slab heights, float64[n], and the balance tolerance they needed."""

    rows: FloatArray
    tolerance: float


#: Mixed-integer programs are solved to this fraction of the optimum.
GAP = 1e-6


@cache
def highs(limit_s: float | None = None) -> Any:
    """Return the solver HiGHS for PuLP. limit_s : longest solution time in seconds, None for no limit."""
    import pulp

    return pulp.HiGHS(msg=False, timeLimit=limit_s, gapRel=GAP)


def allocate(
    problem: Problem, chain: IntArray, lines: RankLines, tolerance: float, solver: Any = None
) -> SlabHeights | None:
    """Return heights for one chain with the tightest workable tolerance; None if no tolerance places all work.

    tolerance : first one tried, a fraction of the finish; math.inf requests the smallest finish at once
    solver : a PuLP solver; None for HiGHS
    """
    for width in (tolerance, *(t for t in RELAXED_TOLERANCES if t > tolerance)):
        rows = _solve(problem, chain, lines, width, solver if solver is not None else highs())
        if rows is not None:
            return SlabHeights(rows, width)
    return None


def _solve(
    problem: Problem, chain: IntArray, lines: RankLines, tolerance: float, solver: Any
) -> FloatArray | None:
    import pulp

    from nws.base.native_output import native_output_to_stderr

    if any(cap < problem.min_rows for cap in lines.cap):
        return None
    program = pulp.LpProblem("slabs", pulp.LpMaximize)
    size = problem.size
    # The unit of time is a row of the slowest rank: a solver's tolerances are absolute, a run's length is not.
    unit_s = float(lines.slope.max())
    heights = [
        program.add_variable(f"x{i}", problem.min_rows, min(float(lines.cap[i]), size))
        for i in range(len(chain))
    ]
    finish = program.add_variable("T", 0)
    # One row outweighs any delay it causes, so work is placed first and then T made small.
    program += pulp.lpSum(heights) - 1e-3 * finish
    program += pulp.lpSum(heights) <= size
    for x, slope, fixed in zip(heights, lines.slope, lines.fixed, strict=True):
        taken = float(slope / unit_s) * x + float(fixed / unit_s)
        if math.isfinite(tolerance):
            program += taken <= (1 + tolerance) * finish
            program += taken >= (1 - tolerance) * finish
        else:
            program += taken <= finish
    for c in problem.coupling:
        names = [problem.hosts[h].name for h in problem.host_of[chain]]
        program += (
            pulp.lpSum(c.coefficients.get(n, 0.0) * x for n, x in zip(names, heights, strict=True)) <= c.bound
        )
    with native_output_to_stderr():
        result = program.solve(solver)
    if int(getattr(result, "status", result)) != 1:
        return None
    rows = np.array([float(x.value()) for x in heights])
    return rows if rows.sum() >= size * (1 - 1e-6) - 1e-6 else None


def coupling_check(problem: Problem, chain: IntArray) -> Allowed | None:
    """Return the check that rounding applies before it adds a row to a rank.

    None if no constraint ties hosts together.
    """
    if not problem.coupling:
        return None
    names = [problem.hosts[h].name for h in problem.host_of[chain]]
    matrix = np.array([[c.coefficients.get(n, 0.0) for n in names] for c in problem.coupling])
    bound = np.array([c.bound for c in problem.coupling])

    def allowed(heights: IntArray, i: int) -> bool:
        return bool((matrix @ heights + matrix[:, i] <= bound + 1e-9).all())

    return allowed
