"""Orders of last resort: tried only when no candidate of the three desirability orders can hold the work.

A prefix of a desirability order may be infeasible where a subset of its hosts is not: the slots of one host compete
for its memory, a link in the middle is broken, a constraint binds the most desirable hosts. These orders put the cause
of the failure last, or leave it out. Goes beyond the paper, whose relaxation widens tolerances only. A feasible plan
is not guaranteed.
"""

import numpy as np
from numpy.typing import NDArray

from apples.planning.desirability import power
from apples.planning.problem import UNUSABLE_S, IntArray, Problem
from apples.planning.rank_order import spanning_tree


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
    if problem.side.most() >= UNUSABLE_S:
        for island in islands(problem):
            members = np.flatnonzero(island[problem.host_of])
            listed.append(("hosts that reach each other", members[np.argsort(speed[members], kind="stable")]))
    return [(name, order) for name, order in listed if len(order)]


def islands(problem: Problem) -> list[NDArray[np.bool_]]:
    """Return groups of hosts connected by links that work both ways, bool[H] each."""
    import networkx as nx

    tree = spanning_tree(problem)
    broken = [(a, b) for a, b in tree.edges if tree[a][b]["weight"] >= UNUSABLE_S]
    tree.remove_edges_from(broken)
    hosts = np.arange(len(problem.hosts))
    return [np.isin(hosts, sorted(group)) for group in nx.connected_components(tree)]
