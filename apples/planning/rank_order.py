"""Rank order: one chain through all hosts that crosses slow links as seldom as possible.

Neighbours in rank order exchange halos every iteration, so the chain should leave a well-connected group of hosts only
once. The minimum spanning tree over exchange times holds every group together by its cheapest links. A depth-first
walk from one end of its longest path, near branches before far ones, visits a whole group before the next. A subset of
hosts keeps the sequence of the full chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from apples.model.grid import FloatArray
from apples.model.pairs import PairValues
from apples.planning.desirability import power
from apples.planning.problem import UNUSABLE_S, IntArray, Problem

# networkx is imported where a graph is built: plans on one host need none.
if TYPE_CHECKING:
    import networkx as nx


def is_uniform(problem: Problem) -> bool:
    """Return whether all links between distinct hosts cost the same, so that rank order cannot matter."""
    n = len(problem.hosts)
    if n == 1:
        return True
    if n > 2 and not np.isclose(problem.side[0, 1], problem.side[0, 2], rtol=1e-9, atol=0.0):
        # Saves a copy of all links.
        return False
    off = problem.side.occurring()
    flat = len(off) == 0 or float(off.max() - off.min()) <= 1e-12 * float(off.max())
    return flat and problem.single_slots


def spanning_tree(problem: Problem) -> nx.Graph[int]:
    """Return the hosts joined by the cheapest links that reach them all.

    `weight` in seconds to exchange, all iterations.
    """
    if problem.side.classes.kind is None:
        return _spanning_tree(problem.side.table)
    return _tree_of_classes(problem.side)


def tree_positions(problem: Problem, tree: nx.Graph[int] | None = None) -> IntArray:
    """Return the place of every processor in the one chain through all of them, int64[N].

    tree : the problem's spanning tree if it is known already
    """
    if len(problem.hosts) == 1:
        return problem.slot_of.astype(np.int64)
    walk = _walk(spanning_tree(problem) if tree is None else tree)
    order = np.empty(len(walk), dtype=np.int64)
    order[walk] = np.arange(len(walk))
    along = np.lexsort((problem.slot_of, order[problem.host_of]))
    position = np.empty(problem.processors, dtype=np.int64)
    position[along] = np.arange(problem.processors)
    return position


def _spanning_tree(cost: FloatArray) -> nx.Graph[int]:
    """Return the minimum spanning tree of a dense cost matrix (Prim); the dearer direction of a link counts.

    A thousand hosts have half a million links, too many for a graph library's sweep over edges within a plan's second.
    """
    import networkx as nx

    n = len(cost)
    tree: nx.Graph[int] = nx.Graph()
    tree.add_node(0)
    nearest, distance = np.zeros(n, dtype=np.int64), np.maximum(cost[0], cost[:, 0])
    distance[0] = np.inf
    outside = np.ones(n, dtype=bool)
    outside[0] = False
    for _ in range(n - 1):
        node = int(np.argmin(distance))
        tree.add_edge(int(nearest[node]), node, weight=float(distance[node]))
        outside[node] = False
        distance[node] = np.inf
        links = np.maximum(cost[node], cost[:, node])
        closer = outside & (links < distance)
        distance[closer] = links[closer]
        nearest[closer] = node
    return tree


def _tree_of_classes(side: PairValues) -> nx.Graph[int]:
    """Return the spanning tree of hosts in classes, from a few links of each host and all single pairs.

    Each host may join the first or the next host of its own class, or the first one of its nearest other class. First
    is a host with the fewest single pairs, so that one bad link does not count for its class.
    """
    classes, kind = side.classes, side.classes.of_hosts()
    hosts = np.arange(classes.hosts)
    singles = np.bincount(np.concatenate(classes.ends), minlength=classes.hosts)
    ordered = np.lexsort((singles, kind))
    first = ordered[np.unique(kind[ordered], return_index=True)[1]]
    cost = np.where(classes.occurs(), side.both_ways(), np.inf)
    among = _spanning_tree(np.where(np.eye(len(cost), dtype=bool), np.inf, cost))
    joints = np.array(list(among.edges), dtype=np.int64).reshape(-1, 2)
    nearest = first[cost.argmin(axis=1)][kind]
    along = np.argsort(kind, kind="stable")
    following = np.flatnonzero(np.diff(kind[along]) == 0)
    start, end = classes.ends
    a = np.concatenate((first[joints[:, 0]], hosts, hosts, along[following], start))
    b = np.concatenate((first[joints[:, 1]], first[kind], nearest, along[following + 1], end))
    a, b = a[a != b], b[a != b]
    weight = np.maximum(side[a, b], side[b, a])
    import networkx as nx

    tree: nx.Graph[int] = nx.Graph()
    tree.add_nodes_from(range(classes.hosts))
    chosen = _cheapest_forest(classes.hosts, a, b, weight)
    edges = zip(a[chosen].tolist(), b[chosen].tolist(), weight[chosen].tolist(), strict=True)
    tree.add_weighted_edges_from(edges)
    return tree


def _cheapest_forest(nodes: int, a: IntArray, b: IntArray, weight: FloatArray) -> IntArray:
    """Return the edges of the minimum spanning forest (Borůvka 1926): each part takes its cheapest edge, in rounds."""
    order = np.argsort(weight, kind="stable")
    a, b = a[order], b[order]
    part = np.arange(nodes)
    chosen = np.zeros(len(order), dtype=bool)
    while True:
        outside = np.flatnonzero(part[a] != part[b])
        if not len(outside):
            return order[chosen]
        ends = np.concatenate((part[a[outside]], part[b[outside]]))
        others = np.concatenate((part[b[outside]], part[a[outside]]))
        # Edges are in order of weight, and equal ones in one fixed order, so that no circle closes.
        cheapest = np.full(nodes, len(order))
        np.minimum.at(cheapest, ends, np.concatenate((outside, outside)))
        first = np.concatenate((outside, outside)) == cheapest[ends]
        chosen[cheapest[ends[first]]] = True
        joined = np.arange(nodes)
        joined[ends[first]] = others[first]
        mutual = (joined[joined] == np.arange(nodes)) & (np.arange(nodes) < joined)
        joined[mutual] = np.flatnonzero(mutual)
        while (joined[joined] != joined).any():
            joined = joined[joined]
        part = joined[part]


def _walk(tree: nx.Graph[int]) -> list[int]:
    """Return the nodes depth first from an end of the longest path.

    At every fork the branch that reaches farthest last.

    Only the last branch is not walked back from, so of all depth-first walks this one crosses least.
    """
    import networkx as nx

    lengths = nx.single_source_dijkstra_path_length(tree, 0)
    start = max(lengths, key=lambda node: (lengths[node], -node))
    parents = dict(nx.bfs_predecessors(tree, start))
    reach = dict.fromkeys(tree, 0.0)
    for node in reversed(parents):
        parent = parents[node]
        reach[parent] = max(reach[parent], reach[node] + tree[node][parent]["weight"])
    walk, stack = [], [start]
    while stack:
        node = stack.pop()
        walk.append(node)
        children = [c for c in tree[node] if parents.get(c) == node]
        stack.extend(sorted(children, key=lambda c: (-reach[c] - tree[node][c]["weight"], -c)))
    return walk


def orders_of_last_resort(problem: Problem) -> list[tuple[str, IntArray]]:
    """Return (name, processors) of every order worth another try, int64[≤ N] each.

    They are tried only when no candidate of the three desirability orders can hold the work. A prefix of such an order
    may be infeasible where a subset of its hosts is not: the slots of one host compete for its memory, a link in the
    middle is broken, a constraint binds the most desirable hosts. These orders put the cause of the failure last, or
    leave it out. Goes beyond the paper, whose relaxation widens tolerances only. A feasible plan is not guaranteed.
    """
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
