"""Orders of last resort: tried only when no candidate of the three desirability orders can hold the work.

A prefix of a desirability order may be infeasible where a subset of its hosts is not: the slots of one host compete
for its memory, a link in the middle is broken, a constraint binds the most desirable hosts. These orders put the cause
of the failure last, or leave it out. Goes beyond the paper, whose relaxation widens tolerances only. A feasible plan
is not guaranteed.
"""

from __future__ import annotations

import numpy as np

from apples.planning.desirability import power
from apples.planning.problem import UNUSABLE_S, IntArray, Problem


def orders(problem: Problem) -> list[tuple[str, IntArray]]:
    """Return (name, processors) of every order worth another try, int64[≤ N] each."""
    speed = power(problem)
    listed = [("most room", np.lexsort((-problem.cap[problem.host_of, 1], problem.slot_of)))]
    if problem.coupling:
        named = {name for c in problem.coupling for name, value in c.coefficients.items() if value}
        tied = np.array([host.name in named for host in problem.hosts])[problem.host_of]
        order = np.lexsort((speed, tied))
        listed.append(("least constrained", order))
        listed.append(("unconstrained", order[: int((~tied).sum())]))
    if (problem.side >= UNUSABLE_S).any():
        for island in islands(problem):
            members = np.flatnonzero(island[problem.host_of])
            listed.append(("hosts that reach each other", members[np.argsort(speed[members], kind="stable")]))
    return [(name, order) for name, order in listed if len(order)]


def islands(problem: Problem) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return groups of hosts connected by links that work both ways, bool[H] each."""
    works = (problem.side < UNUSABLE_S) & (problem.side.T < UNUSABLE_S)
    left = np.ones(len(works), dtype=bool)
    found = []
    while left.any():
        group = np.zeros(len(works), dtype=bool)
        frontier = group.copy()
        frontier[int(np.argmax(left))] = True
        while frontier.any():
            group |= frontier
            frontier = works[frontier].any(axis=0) & ~group
        found.append(group)
        left &= ~group
    return found
