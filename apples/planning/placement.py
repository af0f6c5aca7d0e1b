"""Hosts chosen by an integer program: for refusals, people's limits and the last resort.

The program asks how many rows any choice of hosts can place by a time T. Unknowns are the hosts of each kind with 1, 2,
… ranks (equal hosts are one number), the rows of each kind, and, where links are closed, the path that joins the ranks
(arcs, with one unit of flow for every rank). The limits are those of every plan: capacity, smallest slab, number of
ranks, links, constraints, people's limits. With T fixed, the most rows of a host are a number, so that relaxations are
nearly whole.

Without a T it says how many rows can be placed at all: a refusal is true if that is too few, and the limits it names
are those without which it would be enough. For the soonest end, T falls to the end of the last choice until no choice
places the work (`soonest`). One model of HiGHS serves all of this: only its coefficients and bounds change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from apples.planning.chains import Chains
from apples.planning.heights import HeightProgram, coupling
from apples.planning.hostprogram import CAPACITY, LINKS, RANKS, HostProgram
from apples.planning.hostrange import split
from apples.planning.minimax import makespans, minimax_rows
from apples.planning.model import RankLines
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import IntArray, Problem
from apples.planning.solver import GAP, NODES

#: Largest pool, in processors, whose closed links are searched for a path; the program grows with its square.
MOST = 64
#: Nodes of all programs of one search; a program counts for `_LEAST_NODES` or more, a relaxed one for one.
#: `BRIEF` is for searches of which only the length of some plan counts.
EFFORT, BRIEF, _LEAST_NODES = 1500, 300, 20


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Processors in rank order and their rows, int64[n] each.

    seconds : length of the run, a lower bound.  most : rows that no choice of hosts exceeds, as far as it is proven
    """

    chain: IntArray
    rows: IntArray
    seconds: float = 0.0
    most: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """The soonest choice of hosts; None if none ends in time.

    gap : part of the work that an unexamined choice might place beyond all of it in that time; 0 for an optimum
    """

    placement: Placement | None
    gap: float = 0.0

    @property
    def sentence(self) -> str:
        """Return a sentence about a search that was cut, empty for an optimum."""
        if self.gap <= 0:
            return ""
        return (
            f"the search of hosts was cut; other hosts might place {self.gap:.1%} more work in the same time"
        )


def most_rows(problem: Problem, options: PlanningOptions, lift: str = "") -> Placement | None:
    """Return the choice of hosts that places most of the work, whatever its length.

    None if no rank fits at all, or the program is too large to solve.

    Args:
        lift: a limit to leave out: `CAPACITY`, `LINKS`, `RANKS` or the name of a constraint.
    """
    if lift != LINKS and _is_too_sparse(problem):
        return None
    program = HostProgram(problem, options, lift)
    program.allow(program.whole, ends=False)
    chain, most = program.solve(NODES)
    if chain is None or not len(chain):
        return None
    ones, nothing = np.ones(len(chain)), np.zeros(len(chain))
    flat = replace(program.lines(chain), slope=ones, fixed=nothing)
    rows = _heights(problem, chain, flat, program.rows_placed)
    return None if rows is None else Placement(chain, rows, most=most)


def soonest(
    problem: Problem, options: PlanningOptions, below: float = math.inf, effort: int = EFFORT
) -> Search:
    """Return the choice of hosts and whole rows that ends soonest and before `below`, within budget and deadline.

    Each host pays for its cheapest exchange only, and waiting for ranks without a CPU costs nothing. So its time is a
    lower bound of every plan, and the makespan itself where ranks neither exchange nor wait. Within a range of choices
    (`hostrange`) the program takes the least overhead and the longest time that the budget allows. If its choice does
    not keep them, the range is split there. Ranges that even the relaxed program excludes need no search.
    """
    if _is_too_sparse(problem):
        return Search(None)
    program = HostProgram(problem, options, "")
    limits, below = problem.limits, min(below, program.whole.end_s[1])
    if limits is not None and limits.stated.deadline is not None:
        below = min(below, limits.stated.deadline * (1 + 1e-9))
    best, gap, left = None, 0.0, effort
    several = replace(program.whole, fewest=max(program.whole.fewest, 2))
    ranges = [several, replace(program.whole, most=1)] if program.whole.fewest == 1 else [several]
    while ranges:
        part = ranges.pop()
        part = replace(part, end_s=(part.end_s[0], min(part.end_s[1], below)))
        if part.is_empty:
            continue
        program.allow(part)
        most, left = program.solve(0)[1], max(left - 1, 0)
        if most < problem.size * (1 - GAP):
            continue
        halves = part.halves()
        if halves and left:
            ranges += halves
            continue
        chain = None
        if left:
            chain, most = program.solve(min(left, NODES))
            left = max(left - max(program.nodes, _LEAST_NODES), 0)
        if chain is None:
            gap = max(gap, most / problem.size - 1)
            continue
        lines, affordable_s = program.lines(chain), program.affordable_s(chain)
        rows = _heights(problem, chain, lines, problem.size)
        seconds = math.inf if rows is None else float(lines.seconds(rows.astype(np.float64)).max())
        if rows is not None and seconds <= min(below, affordable_s):
            best, below = Placement(chain, rows, seconds, problem.size), seconds * (1 - GAP)
            ranges.append(part)
        else:
            ranges += split(problem, part, chain, seconds, affordable_s)
    return Search(best, gap)


def _is_too_sparse(problem: Problem) -> bool:
    return problem.has_closed_links and problem.processors > MOST


def binding(problem: Problem, options: PlanningOptions) -> list[str]:
    """Return the limits each of which alone keeps the work from being placed, or all that are present."""
    present = [CAPACITY, *(c.name for c in problem.coupling)]
    present += [LINKS] if problem.has_closed_links else []
    chosen = options.ranks is not None or options.max_ranks is not None or not problem.legal[1:].all()
    present += [RANKS] if chosen else []
    names = []
    for limit in present:
        placed = most_rows(problem, options, limit)
        if placed is not None and placed.rows.sum() >= problem.size:
            names.append(limit)
    return names or [limit for limit in present if limit != CAPACITY]


def _heights(problem: Problem, chain: IntArray, lines: RankLines, size: int) -> IntArray | None:
    """Return the whole rows of a chain that end soonest, int64[n]; None if it does not hold them."""
    ties = coupling(problem, chain)
    if ties is not None:
        real = HeightProgram(lines, size, problem.min_rows, ties=ties).solve(whole=True)
        return None if real is None else np.rint(real).astype(np.int64)
    finish_s = float(makespans(lines, Chains.of([chain]), size, problem.min_rows)[0])
    return minimax_rows(lines, size, problem.min_rows, finish_s) if math.isfinite(finish_s) else None
