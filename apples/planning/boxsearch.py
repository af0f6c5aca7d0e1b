"""The search for a cut on two axes: sets of processors, their sequence, and the boxes that end soonest.

Candidates are the fastest hosts of each desirability order and those of the best slabs, in every grid (rectilinear
cuts) or in the columns with the shortest borders. The best few sets are then tried in the order of speed and in that of
the chain, and with one column more or less. At last ranks of the winner change places.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from apples.model.cut import Axes
from apples.planning import desirability, rank_order
from apples.planning.boxcosts import Boxes, in_columns, in_grid
from apples.planning.candidates import CandidateSchedule, keeps_limits, most_legal
from apples.planning.chains import Chains
from apples.planning.cuts import column_groups
from apples.planning.model import unordered_lines
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import IntArray, Problem

#: Most ranks that are cut on two axes, the number up to which every number of ranks is tried, and the relative
#: distance of larger ones.
MOST, EVERY, APART = 256, 12, 0.15
#: Sets that are tried in all ways, and exchanges of places.
_SETS, _EXCHANGES = 3, 60


class BoxSearch:
    """Candidates of one problem whose program takes two axes.

    members : further sets of processors to try
    """

    def __init__(
        self, problem: Problem, axes: Axes, options: PlanningOptions, members: Sequence[IntArray] = ()
    ) -> None:
        self._problem, self._axes, self._options, self._members = problem, axes, options, members

    def best(self) -> Boxes | None:
        """Return the boxes that end soonest; None if no cut on two axes keeps all limits."""
        quick = []
        for members in self._sets():
            soonest = self._soonest(self._all_ways(self._by_speed(members), few=True))
            if soonest is not None:
                quick.append((soonest.makespan_s, soonest))
        position, tried = rank_order.tree_positions(self._problem), [soonest for _, soonest in quick]
        for _, soonest in sorted(quick, key=lambda each: each[0])[:_SETS]:
            members = soonest.chain
            for sequence in (self._by_speed(members), members[np.argsort(position[members])]):
                tried += self._all_ways(sequence, few=False)
        best = self._soonest(tried)
        return None if best is None else self._exchanged(best)

    def _sets(self) -> Iterator[IntArray]:
        """Yield sets of two or more processors, each once."""
        problem, axes, options = self._problem, self._axes, self._options
        room = (problem.size // problem.min_rows) * (axes.width // axes.min_width)
        most = min(options.most_ranks(min(problem.processors, room)), MOST)
        counts = [*range(2, min(most, EVERY) + 1)]
        while counts and counts[-1] < most:
            counts.append(min(math.ceil(counts[-1] * (1 + APART)), most))
        if options.ranks is not None:
            counts = [options.ranks] if options.ranks == most > 1 else []
        counts = sorted({most_legal(problem, n) for n in counts} - {0, 1})
        orders = desirability.orders(problem).values()
        prefixes = [order[:n] for order in orders for n in counts if n <= len(order)]
        given = [members for members in self._members if 1 < len(members) <= MOST]
        seen = set()
        for members in [*given, *prefixes]:
            key = frozenset(members.tolist())
            if key not in seen:
                seen.add(key)
                yield members

    def _by_speed(self, members: IntArray) -> IntArray:
        """Return processors, fastest first; those of one host beside each other."""
        hosts = self._problem.host_of[members]
        sharing = Chains.of([members]).ranks_on_host(self._problem)
        return members[np.lexsort((members, hosts, self._problem.slope[hosts, sharing]))]

    def _all_ways(self, sequence: IntArray, *, few: bool) -> list[Boxes]:
        """Return cuts for processors in this sequence. few : only the most promising columns"""
        problem, axes, options, n = self._problem, self._axes, self._options, len(sequence)
        if axes.cut == "rectilinear":
            bands = [
                r
                for r in range(1, n)
                if n % r == 0
                and r * problem.min_rows <= problem.size
                and n // r * axes.min_width <= axes.width
            ]
            tried = [in_grid(problem, sequence.reshape(r, n // r), options) for r in bands]
            return [boxes for boxes in tried if boxes is not None]
        speed = 1 / unordered_lines(problem, Chains.of([sequence]), options).slope
        groups = column_groups(speed / speed.sum(), problem.size, axes.width)[1:]
        shortest = min(range(len(groups)), key=lambda i: groups[i][0])
        some = groups[shortest : shortest + 1] if few else groups[max(shortest - 1, 0) : shortest + 2]
        tried = [in_columns(problem, sequence, counts, options) for _, counts in some]
        return [boxes for boxes in tried if boxes is not None]

    def _soonest(self, candidates: Sequence[Boxes]) -> Boxes | None:
        """Return the shortest run among those that keep people's limits."""
        legal = (boxes for boxes in sorted(candidates, key=lambda b: b.makespan_s) if self._allowed(boxes))
        return next(legal, None)

    def _allowed(self, boxes: Boxes) -> bool:
        schedule = CandidateSchedule(boxes.chain, boxes.layout.heights, boxes.makespan_s)
        return keeps_limits(self._problem, schedule)

    def _exchanged(self, boxes: Boxes) -> Boxes:
        """Return the boxes after ranks have changed places while the run ends sooner, the latest rank first."""
        left, improved = _EXCHANGES, True
        while improved:
            improved, latest = False, int(boxes.seconds.argmax())
            pairs = sorted(combinations(range(len(boxes.chain)), 2), key=lambda pair: latest not in pair)
            for pair in pairs[: max(left, 0)]:
                left -= 1
                chain = boxes.chain.copy()
                chain[list(pair)] = chain[list(pair[::-1])]
                better = self._again(chain, boxes.layout.counts)
                if better is None or not self._allowed(better):
                    continue
                if better.makespan_s < boxes.makespan_s * (1 - 1e-9):
                    boxes, improved = better, True
                    break
        return boxes

    def _again(self, chain: IntArray, counts: tuple[int, ...]) -> Boxes | None:
        """Return the boxes of a chain in columns of so many ranks."""
        if self._axes.cut == "rectilinear":
            return in_grid(self._problem, chain.reshape(len(counts), -1).T, self._options)
        return in_columns(self._problem, chain, counts, self._options)
