"""The integer program of `placement`: unknowns, limits, and the rows that hosts place by a time, for HiGHS."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from apples.model.grid import FloatArray
from apples.planning.chains import Chains
from apples.planning.hostlimits import cost
from apples.planning.hostrange import Range, starts_s
from apples.planning.model import NO_BEND, RankLines
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import UNUSABLE_S, BoolArray, IntArray, Problem, restrictions
from apples.planning.solver import GAP, has_solution, no_banner

#: Names of limits that the program can lift, beside the names of constraints.
CAPACITY, LINKS, RANKS = "capacity", "links", "ranks"


class HostProgram:
    """The model of HiGHS and its variables.

    kinds : hosts that are equal in all that the program knows, int64[·] each, K in all
    ranks : whole numbers, [k][m-1] hosts of kind k with m ranks.  rows : of each kind
    arcs, first : the path between processors, if links are closed
    whole : the range of all choices.  nodes : examined by the last solution.  rows_placed : by the last solution
    """

    def __init__(self, problem: Problem, options: PlanningOptions, lift: str) -> None:
        import highspy

        no_banner()
        self.problem, self.nodes, self.rows_placed = problem, 0, 0
        closed = lift != LINKS and problem.has_closed_links
        self.cheapest = _cheapest_exchange(problem)
        self.slots = np.bincount(problem.host_of, minlength=len(problem.hosts))
        self.kinds = _kinds(problem, self.cheapest, self.slots, alone=closed)
        cap = np.full_like(problem.cap, math.inf) if lift == CAPACITY else problem.cap
        self.cap = np.minimum(cap, problem.size)
        budget = None if problem.limits is None else problem.limits.stated.budget
        self._budget = math.inf if budget is None else budget
        lifted = lift == RANKS
        most = problem.processors if lifted else options.most_ranks(problem.processors)
        fewest = 1 if lifted or options.ranks is None else options.ranks
        self.starts_s = starts_s(problem)
        latest = float(self.starts_s.max())
        # All rows on the slowest host after all overheads: no sensible run takes longer.
        longest = problem.overhead.max() + (self.starts_s + self._talks_s(2)).max()
        longest += problem.slope[:, 1:].max() * problem.size
        ends_s = (problem.shortest_s, float(longest))
        self.whole = Range(fewest, min(most, problem.size // problem.min_rows), (0.0, latest), ends_s)
        make: Any = highspy.Highs
        self._highs = make()
        self._set(output_flag=False, parallel="off", mip_rel_gap=GAP)
        self._integer = highspy.HighsVarType.kInteger
        self.ranks: list[list[Any]] = []
        self.rows: list[Any] = []
        self.arcs: dict[tuple[int, int], Any] = {}
        self.first: list[Any] = []
        self._add_hosts(tied=bool(problem.coupling))
        self._add_limits(lift)
        _add_numbers_of_ranks(self._highs, self._integer, self.ranks, problem.legal | lifted)
        if closed:
            self._add_path()
        else:
            # Heuristics take longer than the proof, which is nearly always at the root.
            self._set(mip_heuristic_effort=0.0, mip_heuristic_run_rins=False, mip_heuristic_run_rens=False)
            self._set(mip_heuristic_run_root_reduced_cost=False, mip_heuristic_run_feasibility_jump=False)

    def _set(self, **options: Any) -> None:
        for name, value in options.items():
            self._highs.setOptionValue(name, value)

    def _add_hosts(self, *, tied: bool) -> None:
        """Add ranks and rows of each kind, and the sums of both."""
        problem, highs = self.problem, self._highs
        for members in self.kinds:
            count, slots = len(members), int(self.slots[members[0]])
            ranks = [highs.addVariable(0, count, 0, self._integer) for _ in range(slots)]
            most = float(count * slots * problem.size)
            rows = highs.addVariable(0, most, 1.0, *([self._integer] if tied else []))
            if slots > 1:
                highs.addConstr(highs.qsum(ranks) <= count)
            self.ranks.append(ranks)
            self.rows.append(rows)
        sizes = [(m, z) for ranks in self.ranks for m, z in enumerate(ranks, 1)]
        self._placeable = [
            highs.addConstr(x - highs.qsum(m * problem.size * z for m, z in enumerate(ranks, 1)) <= 0)
            for x, ranks in zip(self.rows, self.ranks, strict=True)
        ]
        for x, ranks in zip(self.rows, self.ranks, strict=True):
            highs.addConstr(x - highs.qsum(m * problem.min_rows * z for m, z in enumerate(ranks, 1)) >= 0)
        self._number = highs.addConstr(highs.qsum(m * z for m, z in sizes) >= 1)
        self._size = highs.addConstr(highs.qsum(self.rows) >= 0)
        self._highs.setMaximize()

    def _add_limits(self, lift: str) -> None:
        """Add constraints on rows, and people's limits on hosts, ranks and prices."""
        problem, highs = self.problem, self._highs
        some = [int(members[0]) for members in self.kinds]
        for constraint in problem.coupling:
            if constraint.name != lift:
                parts = [constraint.coefficients.get(problem.hosts[h].name, 0.0) for h in some]
                used = highs.qsum(c * x for c, x in zip(parts, self.rows, strict=True))
                # A sum of nothing is no expression: a variable that counts for nothing makes it one.
                highs.addConstr(used + 0.0 * self.rows[0] <= constraint.bound)
        limits, self._paid = problem.limits, None
        if limits is None:
            return
        for uses, ranks, most in zip(limits.uses[:, some], limits.ranks[:, some], limits.most, strict=True):
            if parts := _weighted(uses, ranks, self.ranks):
                highs.addConstr(highs.qsum(parts) <= float(most))
        if math.isfinite(self._budget) and limits.price.any():
            self._unit = float(limits.price.max())
            prices = limits.price[some] / self._unit
            self._paid = highs.addConstr(
                highs.qsum(float(p) * z for p, of in zip(prices, self.ranks, strict=True) for z in of) >= 0
            )

    def _add_path(self) -> None:
        """Add a path through the used processors along links that work both ways."""
        highs, n, hosts = self._highs, self.problem.processors, self.problem.host_of
        pair = self.problem.side[hosts[:, None], hosts[None, :]]
        pairs = np.argwhere((np.maximum(pair, pair.T) < UNUSABLE_S) & ~np.eye(n, dtype=bool)).tolist()
        used = [highs.qsum(ranks[s:]) for ranks in self.ranks for s in range(len(ranks))]
        self.first = [highs.addVariable(0, 1, 0, self._integer) for _ in range(n)]
        into: list[list[Any]] = [[start] for start in self.first]
        out: list[list[Any]] = [[] for _ in range(n)]
        net: list[list[Any]] = [[highs.addVariable(0, n)] for _ in range(n)]
        for start, flow in zip(self.first, net, strict=True):
            highs.addConstr(flow[0] - n * start <= 0)
        for p, q in pairs:
            self.arcs[p, q] = arc = highs.addVariable(0, 1, 0, self._integer)
            flow = highs.addVariable(0, n)
            highs.addConstr(flow - (n - 1) * arc <= 0)
            out[p].append(arc)
            into[q].append(arc)
            net[p].append(-1.0 * flow)
            net[q].append(flow)
        highs.addConstr(highs.qsum(self.first) == 1)
        for p in range(n):
            highs.addConstr(highs.qsum(into[p]) - used[p] == 0)
            highs.addConstr(highs.qsum(out[p]) - used[p] <= 0)
            highs.addConstr(highs.qsum(net[p]) - used[p] == 0)

    def allow(self, part: Range, *, ends: bool = True) -> None:
        """Ask for a choice of a range. ends : by its latest end with all work; else for most of the work"""
        problem, highs = self.problem, self._highs
        rows = self.cap[:, 1:]
        if ends:
            overhead = problem.overhead[part.fewest : part.most + 1].min()
            fixed = overhead + np.maximum(self.starts_s, part.start_s[0]) + self._talks_s(part.fewest)
            rows = np.minimum(rows, (part.end_s[1] - fixed) / problem.slope[:, 1:])
        rows = np.floor(np.maximum(rows, 0) * (1 + 1e-12) + 1e-9)
        rows[(rows < problem.min_rows) | (self.starts_s > part.start_s[1])] = 0
        for members, ranks, row in zip(self.kinds, self.ranks, self._placeable, strict=True):
            for m, z in enumerate(ranks, 1):
                most = float(rows[members[0], m - 1])
                highs.changeCoeff(row.index, z.index, -m * most)
                highs.changeColBounds(z.index, 0, len(members) if most else 0)
        highs.changeRowBounds(self._number.index, part.fewest, part.most)
        least, most = (problem.size, math.inf) if ends else (0, problem.size)
        # Constraints across hosts may forbid that rows are taken away from a choice that places more than all.
        highs.changeRowBounds(self._size.index, least, problem.size if problem.coupling else most)
        if self._paid is not None and ends:
            highs.changeRowBounds(self._paid.index, 0, self._budget / part.end_s[0] / self._unit)
        self._set(objective_target=float(problem.size) if ends else math.inf)

    def solve(self, nodes: int) -> tuple[IntArray | None, float]:
        """Return a choice of processors in rank order, None if none was found, and the rows that none exceeds.

        nodes : most nodes to examine; with 0 only the relaxed program is solved
        """
        self._set(mip_max_nodes=nodes, solve_relaxation=nodes == 0)
        self._highs.run()
        info = self._highs.getInfo()
        if nodes == 0:
            self.nodes = 0
            return None, info.objective_function_value if has_solution(info) else 0.0
        self.nodes = int(info.mip_node_count)
        if not has_solution(info):
            import highspy

            infeasible = self._highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible
            return None, 0.0 if infeasible else float(info.mip_dual_bound)
        values = np.array(self._highs.getSolution().col_value)
        self.rows_placed = int(sum(math.floor(values[x.index] + 1e-6) for x in self.rows))
        if self.first:
            following = {p: q for (p, q), arc in self.arcs.items() if values[arc.index] > 0.5}
            start = next(p for p, start in enumerate(self.first) if values[start.index] > 0.5)
            return _walk(start, following, self.problem.processors), float(info.mip_dual_bound)
        used = [[round(values[z.index]) for z in ranks] for ranks in self.ranks]
        return _processors(self.kinds, self.slots, used), float(info.mip_dual_bound)

    def _talks_s(self, ranks: int) -> FloatArray:
        """Return the seconds of each host's messages and its cheapest exchange, float64[H, M]; 0 for one rank."""
        problem = self.problem
        talks_s: FloatArray = problem.messages_cpu_s / problem.priced_share[:, 1:] + self.cheapest[:, None]
        return talks_s * (ranks > 1)

    def lines(self, chain: IntArray) -> RankLines:
        """Return the costs of the ranks of a choice as the program knows them."""
        problem, n = self.problem, len(chain)
        hosts, sharing = problem.host_of[chain], Chains.of([chain]).ranks_on_host(problem)
        fixed = problem.overhead[n] + self.starts_s[hosts, sharing - 1].max()
        return RankLines(
            slope=problem.slope[hosts, sharing],
            fixed=fixed + self._talks_s(n)[hosts, sharing - 1],
            communicate=np.zeros(n),
            cap=self.cap[hosts, sharing],
            bend=np.full(n, NO_BEND),
            spill_factor=1.0,
        )

    def affordable_s(self, chain: IntArray) -> float:
        """Return the seconds for which the budget pays the hosts of a choice; inf without a budget."""
        limits = self.problem.limits
        price = 0.0 if limits is None else cost(limits, self.problem.host_of[chain], 1.0)
        return self._budget / price if self._paid is not None and price > 0 else math.inf


def _add_numbers_of_ranks(highs: Any, integer: Any, ranks: list[list[Any]], legal: BoolArray) -> None:
    """Add a choice of one of the legal numbers of ranks, unless all are."""
    if legal[1:].all():
        return
    numbers = np.flatnonzero(legal)
    taken = [highs.addVariable(0, 1, 0, integer) for _ in numbers]
    used = highs.qsum(m * z for of in ranks for m, z in enumerate(of, 1))
    highs.addConstr(highs.qsum(taken) == 1)
    highs.addConstr(used - highs.qsum(int(n) * y for n, y in zip(numbers, taken, strict=True)) == 0)


def _cheapest_exchange(problem: Problem) -> FloatArray:
    """Return the seconds of each host's cheapest exchange with any neighbour, float64[H]; 0 if it works with none."""
    several = np.bincount(problem.host_of, minlength=len(problem.hosts)) > 1
    cheapest = np.minimum(problem.side.least(), np.where(several, problem.side.within_hosts(), np.inf))
    return np.where(cheapest < UNUSABLE_S, cheapest, 0.0)


def _kinds(problem: Problem, cheapest: FloatArray, slots: IntArray, *, alone: bool) -> list[IntArray]:
    """Return hosts that cost, hold and are limited the same, in order.

    Args:
        problem: the hosts.
        cheapest: seconds of each host's cheapest exchange, float64[H].
        slots: of each host, int64[H].
        alone: each host is one kind.
    """
    hosts = np.arange(len(problem.hosts))
    if alone:
        return list(hosts[:, None])
    tables = (problem.slope[:, 1:], problem.cap[:, 1:], problem.priced_share[:, 1:])
    limits = restrictions(problem.hosts, problem.coupling, problem.limits)
    table = np.column_stack((*tables, cheapest, slots, limits))
    _, first, kind = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return [np.flatnonzero(kind.ravel() == k) for k in np.argsort(first)]


def _weighted(uses: FloatArray, ranks: FloatArray, variables: list[list[Any]]) -> list[Any]:
    """Return the terms of hosts that use an amount each, and one for each of their ranks."""
    return [
        float(u + m * r) * z
        for u, r, of in zip(uses, ranks, variables, strict=True)
        for m, z in enumerate(of, 1)
        if u or r
    ]


def _processors(kinds: list[IntArray], slots: IntArray, used: list[list[int]]) -> IntArray:
    """Return the processors of so many hosts of each kind with 1, 2, … ranks."""
    starts = np.cumsum(slots) - slots
    chosen = []
    for members, counts in zip(kinds, used, strict=True):
        sharing = np.repeat(np.arange(1, len(counts) + 1), counts)
        chosen += [starts[h] + np.arange(m) for h, m in zip(members, sharing, strict=False)]
    return np.sort(np.concatenate(chosen)) if chosen else np.empty(0, dtype=np.int64)


def _walk(start: int, following: dict[int, int], most: int) -> IntArray:
    """Return the processors from the start on, each followed by the next along its arc; at most so many."""
    walk = [start]
    while walk[-1] in following and len(walk) < most:
        walk.append(following[walk[-1]])
    return np.array(walk)
