"""Slab heights of one chain as a program of PuLP and HiGHS: in whole rows for a plan, in real ones for prices.

Unknowns are the heights x_i and the finish T, which is minimised. T_i ≤ T for every rank, memory and array limits bound
each x_i, further constraints may tie hosts together, and Σ x_i is the size. The paper's program (§3.3) also keeps every
T_i within a tolerance of T; if that cannot be, the tolerance is widened step by step and the final one is reported.

A plan takes whole rows. The program is first solved in real rows, for a bound that no heights undercut. Then heights
are whole, every rank has at least the rows that it ends by that bound, and T is at most the finish of known heights.
With these bounds HiGHS mostly needs no branching. It is limited by nodes, never by time, so equal inputs have equal
plans.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from apples.model.grid import FloatArray
from apples.model.plan import RowAllocation
from apples.planning.minimax import Allowed
from apples.planning.model import RankLines
from apples.planning.problem import IntArray, Problem
from apples.planning.solver import GAP, solved

#: Balance tolerances tried after the user's; inf leaves only T_i ≤ T.
RELAXED_TOLERANCES = (0.02, 0.05, 0.1, 0.2, 0.5, math.inf)
#: Longest chain whose heights are whole by the program.
MOST = 500


@dataclass(frozen=True, slots=True, eq=False)
class SlabHeights:
    """Real slab heights, float64[n], and the balance tolerance they needed."""

    rows: FloatArray
    tolerance: float


class HeightProgram:
    """The program of one chain of ranks, whose bounds may be changed between two solutions.

    finish_s : of the last solution.  bound_s : that no heights undercut.  tied : whether constraints tie heights
    """

    def __init__(
        self,
        lines: RankLines,
        size: int,
        min_rows: int,
        *,
        ties: tuple[FloatArray, FloatArray] | None = None,
        band: IntArray | None = None,
        tolerance: float = math.inf,
    ) -> None:
        """Build the program.

        Args:
            lines: costs of the ranks.
            ties: float64[C, n] and float64[C], further constraints Σ coefficient · x_i ≤ bound.
            band: int64[n], the height of each rank, where ranks share one; None for a height of its own each.
            tolerance: largest distance of T_i from T, a fraction of T; inf leaves T_i ≤ T.
        """
        import pulp

        self.finish_s = self.bound_s = math.inf
        self._size = size
        band = np.arange(len(lines.slope)) if band is None else band
        cap = np.full(int(band.max()) + 1, float(size))
        np.minimum.at(cap, band, lines.cap)
        # The unit of time is a row of the slowest rank: a solver's tolerances are absolute, a run's length is not.
        self._unit_s = float(lines.slope.max())
        self._program = pulp.LpProblem("heights", pulp.LpMinimize)
        self.finish = self._program.add_variable("T", 0)
        self._program += self.finish
        self.heights = [
            self._program.add_variable(f"x{i}", min_rows, max(float(most), min_rows), pulp.LpInteger)
            for i, most in enumerate(np.floor(cap + 1e-9))
        ]
        self._feasible = bool((cap >= min_rows).all())
        self._program += pulp.lpSum(self.heights) == size
        for i, rows in enumerate(self.heights[k] for k in band):
            self._add_rank(lines, i, rows, tolerance)
        self.tied = ties is not None
        for coefficients, bound in zip(*ties, strict=True) if ties is not None else ():
            used = pulp.lpSum(float(c) * x for c, x in zip(coefficients, self.heights, strict=True))
            self._program += used <= float(bound)

    def _add_rank(self, lines: RankLines, i: int, rows: Any, tolerance: float) -> None:
        """Add T_i ≤ T, or T_i within the tolerance of T."""
        slope, fixed = float(lines.slope[i] / self._unit_s), float(lines.fixed[i] / self._unit_s)
        late = 1 + tolerance if math.isfinite(tolerance) else 1.0
        self._program += slope * rows - late * self.finish <= -fixed
        if math.isfinite(tolerance):
            self._program += slope * rows - (1 - tolerance) * self.finish >= -fixed
        if lines.bend[i] < lines.cap[i]:
            spilled = slope * lines.spill_factor
            self._program += spilled * rows - late * self.finish <= -fixed + float(lines.bend[i]) * (
                spilled - slope
            )

    def solve(self, *, whole: bool) -> FloatArray | None:
        """Return the heights that end soonest, float64[heights], in whole or real rows; None if there are none."""
        if not self._feasible:
            return None
        info = solved(self._program, whole=whole)
        if info is None:
            return None
        self.finish_s = float(self.finish.value()) * self._unit_s
        self.bound_s = float(info.mip_dual_bound) * self._unit_s if whole else self.finish_s
        return np.array([float(x.value()) for x in self.heights])

    def end_by(self, seconds: float) -> None:
        """Require a finish within so many seconds."""
        self.finish.upBound = seconds / self._unit_s * (1 + 1e-9)

    def raise_to(self, least: FloatArray) -> None:
        """Require at least so many rows of each height, if all of them together are not too many."""
        least = np.array([max(x.lowBound, rows) for x, rows in zip(self.heights, least, strict=True)])
        if least.sum() <= self._size:
            for x, rows in zip(self.heights, least, strict=True):
                x.lowBound = float(rows)

    def if_higher(self, most: dict[int, float]) -> float:
        """Return the finish in real rows if some heights, by index, might be so many rows, seconds."""
        before = {i: self.heights[i].upBound for i in most}
        self._bound(most)
        self.solve(whole=False)
        self._bound(before)
        return self.finish_s

    def _bound(self, most: dict[int, float]) -> None:
        for i, rows in most.items():
            self.heights[i].upBound = rows

    def seconds_a_row(self, i: int) -> float:
        """Return the seconds that one row more of room for height i saves, at the last solution in real rows."""
        return abs(float(self.heights[i].dj)) * self._unit_s


def allocate(problem: Problem, chain: IntArray, lines: RankLines, tolerance: float) -> SlabHeights | None:
    """Return real heights for one chain with the tightest workable tolerance; None if none places all work.

    tolerance : first one tried, a fraction of the finish; math.inf requests the smallest finish at once
    """
    for width in (tolerance, *(t for t in RELAXED_TOLERANCES if t > tolerance)):
        rows = chain_program(problem, chain, lines, tolerance=width).solve(whole=False)
        if rows is not None:
            return SlabHeights(rows, width)
    return None


def chain_program(
    problem: Problem, chain: IntArray, lines: RankLines, *, tolerance: float = math.inf
) -> HeightProgram:
    """Return the program of the slabs of one chain."""
    ties = coupling(problem, chain)
    return HeightProgram(lines, problem.size, problem.min_rows, ties=ties, tolerance=tolerance)


def whole_heights(
    program: HeightProgram, lines: RankLines, known: IntArray, *, band: IntArray | None = None
) -> tuple[IntArray, RowAllocation] | None:
    """Return whole heights that end no later than known ones, and their proof; None if the program has none.

    known : int64[heights].  band : as in `HeightProgram`
    """
    if program.solve(whole=False) is None:
        return None
    band = np.arange(len(known)) if band is None else band
    if not program.tied:
        least = np.full(len(known), np.inf)
        np.minimum.at(least, band, lines.rows_by(np.full(len(band), program.finish_s)))
        program.raise_to(np.floor(least + 1e-9))
    program.end_by(float(lines.seconds(known[band].astype(np.float64)).max()))
    solution = program.solve(whole=True)
    if solution is None:
        return None
    rows: IntArray = np.rint(solution).astype(np.int64)
    finish_s = float(lines.seconds(rows[band].astype(np.float64)).max())
    gap = max(1 - program.bound_s / finish_s, 0.0)
    return rows, RowAllocation(method="pulp", bound_s=program.bound_s, gap=gap if gap > GAP else 0.0)


def coupling(problem: Problem, chain: IntArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the coefficients of the constraints that tie ranks of a chain together, float64[C, n], and their bounds.

    None if no constraint does.
    """
    if not problem.coupling:
        return None
    names = [problem.hosts[h].name for h in problem.host_of[chain]]
    matrix = np.array([[c.coefficients.get(n, 0.0) for n in names] for c in problem.coupling])
    return matrix, np.array([c.bound for c in problem.coupling])


def coupling_check(problem: Problem, chain: IntArray) -> Allowed | None:
    """Return the check that rounding applies before it adds a row to a rank; None if no constraint ties hosts."""
    ties = coupling(problem, chain)
    if ties is None:
        return None
    matrix, bound = ties

    def allowed(heights: IntArray, i: int) -> bool:
        return bool((matrix @ heights + matrix[:, i] <= bound + 1e-9).all())

    return allowed
