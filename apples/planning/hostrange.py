"""Ranges of choices of hosts: by the number of ranks, the slowest start, and the price of the hosts.

Within a range the program of `placement` takes the cheapest case: the least overhead of its numbers of ranks, its
earliest start, and the longest time that a budget allows at its least price. So it never misses a choice of the range
that ends by a time, but its own choice may end later. Then `split` makes two ranges, in which it is priced closer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from apples.model.grid import FloatArray
from apples.planning.problem import IntArray, Problem

#: Prices are split no closer than by this fraction.
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Range:
    """Choices of `fewest` to `most` ranks. start_s : of the rank that starts last.  price : of the hosts, a second"""

    fewest: int
    most: int
    start_s: tuple[float, float]
    price: tuple[float, float] = (0.0, math.inf)

    @property
    def is_empty(self) -> bool:
        """Return whether no choice is in the range."""
        return self.fewest > self.most or self.start_s[0] > self.start_s[1] or self.price[0] > self.price[1]


def starts_s(problem: Problem) -> FloatArray:
    """Return the seconds that one of m ranks on a host takes to start, float64[H, M]."""
    seconds: FloatArray = problem.start_cpu_s / problem.priced_share[:, 1:]
    return seconds


def split(problem: Problem, part: Range, chain: IntArray, price: float, seconds: float) -> list[Range]:
    """Return two parts of a range in which a choice that was priced too low is priced closer, or none if there is none.

    chain : the choice, which takes `seconds` at `price` for each
    """
    n = len(chain)
    hosts, sharing = np.unique(problem.host_of[chain], return_counts=True)
    start_s = float(starts_s(problem)[hosts, sharing - 1].max())
    over_s = float(problem.overhead[n] - problem.overhead[part.fewest : part.most + 1].min())
    late_s = start_s - part.start_s[0]
    budget = None if problem.limits is None else problem.limits.stated.budget
    if budget is not None and price * seconds > budget * (1 + _CLOSE) and max(over_s, late_s) <= 0:
        # Cheaper choices of less than this price have more time; dearer ones than it have less than the choice takes.
        middle = (max(budget / seconds, part.price[0]) + price) / 2
        if middle <= part.price[0] * (1 + _CLOSE):
            return []
        return [
            replace(part, price=(middle, part.price[1])),
            replace(part, price=(part.price[0], middle * (1 - _CLOSE))),
        ]
    if max(over_s, late_s) <= 0:
        return []
    if over_s >= late_s and part.fewest < part.most:
        middle_n = max((part.fewest + n + 1) // 2, part.fewest + 1)
        return [replace(part, fewest=middle_n), replace(part, most=middle_n - 1)]
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
