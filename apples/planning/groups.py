"""Candidates within one group of near hosts: the sites found from the links, whatever their names in the grid file.

A desirability order mixes sites, so its prefixes cross slow links even where one site would do. A search by single
moves does not return from there, because every chain between two sites is worse. So the fastest hosts of every group
are candidates too, and every host alone. A group is a branch of the spanning tree whose link to the rest costs `GAP`
times as much as any link inside. Goes beyond the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apples.planning.candidates import host_counts
from apples.planning.chains import Chains
from apples.planning.desirability import power
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import IntArray, Problem

if TYPE_CHECKING:
    import networkx as nx

#: More groups than this offer their candidates together: only the best of all groups counts.
SEVERAL = 64
#: Least ratio between the cost of the link to the rest and the most expensive link inside.
GAP = 2.0


def candidates(
    problem: Problem, tree: nx.Graph[int], position: IntArray, options: PlanningOptions
) -> list[tuple[str, Chains]]:
    """Return chains of the n fastest processors of every group, for every n, and of every host alone."""
    speed = power(problem)
    # The processors of host h are starts[h] to starts[h+1].
    starts = np.searchsorted(problem.host_of, np.arange(len(problem.hosts) + 1))
    listed = []
    for group in groups(tree):
        members = np.concatenate([np.arange(starts[h], starts[h + 1]) for h in group])
        order = members[np.argsort(speed[members], kind="stable")]
        counts = host_counts(problem, options, len(order))
        if len(counts):
            listed.append(("power within a group", Chains.prefixes(order, counts, position)))
    if len(listed) > SEVERAL:
        listed = [("power within a group", Chains.joined([chains for _, chains in listed]))]
    if (
        problem.legal[1]
        and options.most_ranks(problem.size // problem.min_rows) >= 1
        and options.ranks in (None, 1)
    ):
        first = np.flatnonzero(problem.slot_of == 0)
        listed.append(("one host alone", Chains(first, np.arange(len(first) + 1))))
    return listed


def groups(tree: nx.Graph[int]) -> list[list[int]]:
    """Return the hosts of every group of two or more that is not the whole tree, small groups before their
    enclosing ones.
    """
    group = {node: [node] for node in tree}
    dearest = dict.fromkeys(tree, 0.0)
    parts = []
    edges: list[tuple[int, int, float]] = sorted(tree.edges(data="weight"), key=lambda edge: edge[2])
    for a, b, weight in edges:
        one, other = group[a], group[b]
        for part in (one, other):
            if len(part) > 1 and weight >= GAP * dearest[part[0]]:
                parts.append(sorted(part))
        if len(one) < len(other):
            one, other = other, one
        one.extend(other)
        group.update(dict.fromkeys(other, one))
        dearest[one[0]] = weight
    return parts
