"""Hosts and slabs chosen together by a mixed-integer program: for refusals, people's limits and the last resort.

Unknowns are the number of ranks of every host, its rows, and, where links are closed, the path that joins the ranks
(arcs, with one unit of flow for every rank). The limits are those of every plan: capacity, smallest slab, number of
ranks, links, constraints. A refusal is true if this program cannot place the work, and the limits it names are those
without which it could. PuLP models the program and HiGHS solves it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apples.model.grid import FloatArray
from apples.planning.options import PlanningOptions
from apples.planning.problem import UNUSABLE_S, IntArray, Problem
from apples.planning.solver import solved

#: Names of limits that `most_rows` can lift, beside the names of constraints.
CAPACITY, LINKS, RANKS = "capacity", "links", "ranks"
#: Largest pool, in processors, whose closed links are searched for a path; the program grows with its square.
MOST = 64


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Processors in rank order and their rows, int64[n] each. seconds : length of the run, a lower bound."""

    chain: IntArray
    rows: IntArray
    seconds: float = 0.0


def most_rows(problem: Problem, options: PlanningOptions, lift: str = "") -> Placement | None:
    """Return the choice of hosts that places most of the work, whatever its length.

    None if no rank fits at all, or the program is too large to solve.

    Args:
        lift: a limit to leave out: `CAPACITY`, `LINKS`, `RANKS` or the name of a constraint.
    """
    model = _model(problem, options, lift)
    return None if model is None else model.most_rows()


def soonest(problem: Problem, options: PlanningOptions) -> Placement | None:
    """Return the choice of hosts and whole rows that ends soonest, within budget and deadline; None if there is none.

    Each host pays for its cheapest exchange only, and waiting for ranks without a CPU costs nothing. So `seconds` is
    a lower bound of every plan, and the makespan itself where ranks neither exchange nor wait.
    """
    model = _model(problem, options, "")
    return None if model is None else model.soonest()


def _model(problem: Problem, options: PlanningOptions, lift: str) -> _Model | None:
    import pulp

    closed = lift != LINKS and has_closed_links(problem)
    if closed and problem.processors > MOST:
        return None
    model = _Model(problem, pulp.LpProblem("placement", pulp.LpMaximize))
    model.hold(problem.size if lift == CAPACITY else None)
    most = len(problem.host_of) if lift == RANKS else options.most_ranks(len(problem.host_of))
    model.program += pulp.lpSum(model.used) <= most
    model.program += pulp.lpSum(model.used) >= (
        1 if options.ranks is None or lift == RANKS else options.ranks
    )
    for constraint in problem.coupling:
        if constraint.name != lift:
            shares = (constraint.coefficients.get(host.name, 0.0) for host in problem.hosts)
            model.program += (
                pulp.lpSum(c * x for c, x in zip(shares, model.rows, strict=True) if c) <= constraint.bound
            )
    model.choose()
    if closed:
        model.join()
    return model


def has_closed_links(problem: Problem) -> bool:
    """Return whether any link of the pool works in no more than one direction."""
    return problem.side.most() >= UNUSABLE_S


def binding(problem: Problem, options: PlanningOptions) -> list[str]:
    """Return the limits each of which alone keeps the work from being placed, or all that are present."""
    present = [CAPACITY, *(c.name for c in problem.coupling)]
    present += [LINKS] if has_closed_links(problem) else []
    present += [RANKS] if options.ranks is not None or options.max_ranks is not None else []
    found = []
    for limit in present:
        placed = most_rows(problem, options, limit)
        if placed is not None and placed.rows.sum() >= problem.size:
            found.append(limit)
    return found or [limit for limit in present if limit != CAPACITY]


class _Model:
    """The program and its variables. used : 0 or 1 for each processor.  rows : of each host.

    count : for each host, 0 or 1 for each number of ranks.  arcs, first : the path, if links are closed
    """

    def __init__(self, problem: Problem, program: Any) -> None:
        self.problem, self.program = problem, program
        self.used: list[Any] = []
        self.rows: list[Any] = []
        self.count: list[list[Any]] = []
        self.arcs: dict[tuple[int, int], Any] = {}
        self.first: list[Any] = []

    def hold(self, cap: int | None) -> None:
        """Add ranks and rows within each host's capacity, or within `cap` rows a rank."""
        import pulp

        problem, program = self.problem, self.program
        kind = pulp.LpInteger if problem.coupling or problem.limits else pulp.LpContinuous
        for h in range(len(problem.hosts)):
            slots = int((problem.host_of == h).sum())
            # count[m-1]: the host has m ranks.
            count = [program.add_variable(f"z{h}_{m}", cat=pulp.LpBinary) for m in range(1, slots + 1)]
            rows = program.add_variable(f"x{h}", 0, problem.size, kind)
            each = [
                problem.size if cap else min(float(problem.cap[h, m]), problem.size)
                for m in range(1, slots + 1)
            ]
            program += pulp.lpSum(count) <= 1
            program += rows <= pulp.lpSum(
                m * c * z for m, (c, z) in enumerate(zip(each, count, strict=True), 1)
            )
            program += rows >= pulp.lpSum(m * problem.min_rows * z for m, z in enumerate(count, 1))
            self.rows.append(rows)
            self.count.append(count)
            self.used += [pulp.lpSum(count[s:]) for s in range(slots)]

    def choose(self) -> None:
        """Add people's limits on hosts and ranks."""
        import pulp

        limits = self.problem.limits
        if limits is None:
            return
        for uses, ranks, most in zip(limits.uses, limits.ranks, limits.most, strict=True):
            hosts = pulp.lpSum(float(uses[h]) * pulp.lpSum(self.count[h]) for h in np.flatnonzero(uses))
            slots = pulp.lpSum(float(ranks[h]) * self._ranks(int(h)) for h in np.flatnonzero(ranks))
            self.program += hosts + slots <= float(most)

    def _ranks(self, h: int) -> Any:
        import pulp

        return pulp.lpSum(m * z for m, z in enumerate(self.count[h], 1))

    def most_rows(self) -> Placement | None:
        """Solve for most rows."""
        import pulp

        self.program += pulp.lpSum(self.rows) <= self.problem.size
        self.program.setObjective(pulp.lpSum(self.rows))
        return self.solve()

    def soonest(self) -> Placement | None:
        """Solve for the earliest finish of all work."""
        import pulp

        problem, program = self.problem, self.program
        unit_s = float(problem.slope[:, 1].max())
        finish = program.add_variable("T", 0)
        ranks = [program.add_variable(f"n{n}", cat=pulp.LpBinary) for n in range(1, problem.processors + 1)]
        program += pulp.lpSum(ranks) == 1
        program += pulp.lpSum(n * e for n, e in enumerate(ranks, 1)) == pulp.lpSum(self.used)
        over = pulp.lpSum(float(problem.overhead[n] / unit_s) * e for n, e in enumerate(ranks, 1))
        start = program.add_variable("start", 0)
        cheapest = _cheapest_exchange(problem)
        for h, count in enumerate(self.count):
            parts = self._rows_by_ranks(h)
            for m, (z, rows) in enumerate(zip(count, parts, strict=True), 1):
                slowness = 1 / problem.priced_share[h, m]
                program += start >= float(problem.start_cpu_s * slowness / unit_s) * z
                talks = float((problem.messages_cpu_s * slowness + cheapest[h]) / unit_s)
                work = float(problem.slope[h, m] / m / unit_s) * rows
                program += finish >= over + start + work + talks * (z - ranks[0])
        program += pulp.lpSum(self.rows) == problem.size
        self._pay(finish, unit_s)
        program.sense = pulp.LpMinimize
        program.setObjective(finish)
        return self.solve(lambda: float(finish.value()) * unit_s)

    def _rows_by_ranks(self, h: int) -> list[Any]:
        """Return the rows of a host for each number of its ranks; all but one of them are 0."""
        import pulp

        if len(self.count[h]) == 1:
            return [self.rows[h]]
        parts = [self.program.add_variable(f"x{h}_{m}", 0) for m in range(1, len(self.count[h]) + 1)]
        self.program += pulp.lpSum(parts) == self.rows[h]
        for part, z in zip(parts, self.count[h], strict=True):
            self.program += part <= self.problem.size * z
        return parts

    def _pay(self, finish: Any, unit_s: float) -> None:
        """Add deadline and budget: each used host is paid until the finish."""
        import pulp

        limits = self.problem.limits
        if limits is None:
            return
        if limits.stated.deadline is not None:
            self.program += finish <= limits.stated.deadline / unit_s
        budget = limits.stated.budget
        if budget is None:
            return
        paid = []
        for h in np.flatnonzero(limits.price):
            # The budget pays a used host for `most` at the longest, so the product finish · used is linear.
            price = float(limits.price[h]) * unit_s
            hours = self.program.add_variable(f"w{h}", 0)
            longest = self._longest() / unit_s
            self.program += hours >= finish - longest * (1 - pulp.lpSum(self.count[h]))
            paid.append(price * hours)
        self.program += pulp.lpSum(paid) <= budget
        self.program += finish <= self._longest() / unit_s

    def _longest(self) -> float:
        """Return seconds that no sensible run exceeds: all rows on the slowest host after all fixed costs."""
        problem = self.problem
        slowness = float((1 / problem.priced_share[:, 1:]).max())
        fixed = float(problem.overhead.max()) + (problem.start_cpu_s + problem.messages_cpu_s) * slowness
        return (
            fixed
            + float(_cheapest_exchange(problem).max())
            + float(problem.slope[:, 1:].max()) * problem.size
        )

    def join(self) -> None:
        """Add a path through the used processors along links that work both ways."""
        import pulp

        program, n = self.program, self.problem.processors
        hosts = self.problem.host_of
        pair = self.problem.side[hosts[:, None], hosts[None, :]]
        pairs = np.argwhere((np.maximum(pair, pair.T) < UNUSABLE_S) & ~np.eye(n, dtype=bool)).tolist()
        self.first = [program.add_variable(f"s{p}", cat=pulp.LpBinary) for p in range(n)]
        flow: dict[tuple[int, int], Any] = {}
        into: list[list[Any]] = [[start] for start in self.first]
        out: list[list[Any]] = [[] for _ in range(n)]
        net: list[list[Any]] = [[program.add_variable(f"f{p}", 0, n)] for p in range(n)]
        for p, start in enumerate(self.first):
            program += net[p][0] <= n * start
        for p, q in pairs:
            self.arcs[p, q] = arc = program.add_variable(f"a{p}_{q}", cat=pulp.LpBinary)
            flow[p, q] = program.add_variable(f"f{p}_{q}", 0, n)
            program += flow[p, q] <= (n - 1) * arc
            out[p].append(arc)
            into[q].append(arc)
            net[p].append(-flow[p, q])
            net[q].append(flow[p, q])
        program += pulp.lpSum(self.first) == 1
        for p in range(n):
            program += pulp.lpSum(into[p]) == self.used[p]
            program += pulp.lpSum(out[p]) <= self.used[p]
            program += pulp.lpSum(net[p]) == self.used[p]

    def solve(self, seconds: Callable[[], float] = lambda: 0.0) -> Placement | None:
        """Return the chain, its rows and its length; None without a solution."""
        info = solved(self.program, whole=True)
        used = np.flatnonzero([x.value() is not None and x.value() > 0.5 for x in self.used])
        if info is None or not len(used):
            return None
        chain: IntArray = self._walk(used) if self.first else used
        totals = np.floor(np.array([x.value() for x in self.rows], dtype=np.float64) + 1e-6)
        return Placement(chain, _split(self.problem, chain, totals), seconds())

    def _walk(self, used: IntArray) -> IntArray:
        """Return the used processors along the arcs."""
        following = {p: q for (p, q), arc in self.arcs.items() if arc.value() > 0.5}
        walk = [next(p for p, start in enumerate(self.first) if start.value() > 0.5)]
        while walk[-1] in following and len(walk) < len(used):
            walk.append(following[walk[-1]])
        return np.array(walk)


def _cheapest_exchange(problem: Problem) -> FloatArray:
    """Return the seconds of each host's cheapest exchange with any neighbour, float64[H]; 0 if it works with none."""
    several = np.bincount(problem.host_of, minlength=len(problem.hosts)) > 1
    cheapest = np.minimum(problem.side.least(), np.where(several, problem.side.within_hosts(), np.inf))
    return np.where(cheapest < UNUSABLE_S, cheapest, 0.0)


def _split(problem: Problem, chain: IntArray, totals: FloatArray) -> IntArray:
    """Return each rank's rows, its host's rows in parts that differ by one at most."""
    rows = np.zeros(len(chain), dtype=np.int64)
    for h in np.unique(problem.host_of[chain]):
        ranks = np.flatnonzero(problem.host_of[chain] == h)
        whole, more = divmod(int(totals[h]), len(ranks))
        rows[ranks] = whole + (np.arange(len(ranks)) < more)
    return rows
