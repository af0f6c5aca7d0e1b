"""Ranges of choices of hosts: by the number of ranks, the slowest start, and the end of the run.

Within a range the program of `placement` takes the cheapest case: the least overhead of its numbers of ranks, its
earliest start, and the money that a budget leaves for each second if the run ends early. So it never misses a choice of
the range, but its own choice may end later or cost more. Then `split` makes two ranges, in which it is priced closer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from apples.model.grid import FloatArray
from apples.planning.problem import IntArray, Problem

#: Ends are split no closer than by this fraction; ranges of a larger ratio than this are halved before a search.
_CLOSE, _WIDE = 1e-9, 1.02


@dataclass(frozen=True, slots=True)
class Range:
    """Choices of `fewest` to `most` ranks. start_s : of the rank that starts last.  end_s : of the run"""

    fewest: int
    most: int
    start_s: tuple[float, float]
    end_s: tuple[float, float]
    halved: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether no choice is in the range."""
        return self.fewest > self.most or self.start_s[0] > self.start_s[1] or self.end_s[0] >= self.end_s[1]

    def halves(self) -> list[Range]:
        """Return two halves, the sooner one last, of a range that a budget makes too wide to be searched, else none."""
        soonest_s, latest_s = self.end_s
        wide = self.halved and latest_s > soonest_s * _WIDE
        return self.split_end(math.sqrt(soonest_s * latest_s)) if wide else []

    def split_end(self, middle_s: float) -> list[Range]:
        """Return the later and the sooner part of a range."""
        soonest_s, latest_s = self.end_s
        later = replace(self, end_s=(middle_s, latest_s), halved=True)
        return [later, replace(self, end_s=(soonest_s, middle_s), halved=True)]


def starts_s(problem: Problem) -> FloatArray:
    """Return the seconds that one of m ranks on a host takes to start, float64[H, M]."""
    return problem.start_cpu_s / problem.priced_share[:, 1:]


def split(problem: Problem, part: Range, chain: IntArray, seconds: float, affordable_s: float) -> list[Range]:
    """Return two parts of a range in which a choice that was priced too low is priced closer, or none if there is none.

    chain : the choice, which takes `seconds`; the budget pays for `affordable_s`
    """
    n = len(chain)
    hosts, sharing = np.unique(problem.host_of[chain], return_counts=True)
    start_s = float(starts_s(problem)[hosts, sharing - 1].max())
    over_s = float(problem.overhead[n] - problem.overhead[part.fewest : part.most + 1].min())
    late_s = start_s - part.start_s[0]
    if seconds > affordable_s and max(over_s, late_s) <= 0:
        halves = replace(part, halved=True).halves()
        # Sooner choices do not include this one, and later ones cannot pay for it.
        return halves or part.split_end((max(affordable_s, part.end_s[0]) + min(seconds, part.end_s[1])) / 2)
    if max(over_s, late_s) <= 0:
        return []
    if over_s >= late_s and part.fewest < part.most:
        middle = max((part.fewest + n + 1) // 2, part.fewest + 1)
        return [replace(part, fewest=middle), replace(part, most=middle - 1)]
    levels = np.unique(starts_s(problem))
    inside = levels[(levels > part.start_s[0] * (1 + _CLOSE)) & (levels <= start_s)]
    if not len(inside):
        return []
    middle_s = float(inside[len(inside) // 2])
    below = float(levels[levels < middle_s].max(initial=0.0))
    return [
        replace(part, start_s=(middle_s, part.start_s[1])),
        replace(part, start_s=(part.start_s[0], below)),
    ]
