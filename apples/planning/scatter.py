"""Waits of ranks for each other because the time that each needs between two messages varies.

Say the difference of two ranks' times is normally distributed, with standard deviation `scatter` around a `gap`. Then
the slower one waits scatter·φ(gap / scatter) − gap·Φ(−gap / scatter) in the mean: longest where both need equally long,
as plans intend, and hardly at all where one is clearly slower. All three may be sums over the same number of messages.
Source: C. E. Clark, The greatest of a finite set of random variables, Operations Research 9, 1961.
"""

import math
from statistics import NormalDist

_NORMAL = NormalDist()

#: Mean wait of ranks that need equally long, in units of the scatter.
BALANCED = _NORMAL.pdf(0.0)

#: A wait tells the scatter where the gap is at most half of it: there, equal ranks would wait at most twice as long.
_WIDEST_GAP = 0.5

_HALVINGS = 50


def mean_wait(scatter: float, gap: float) -> float:
    """Return the mean wait of the slower of two ranks, in the unit of both arguments (≥ 0)."""
    if scatter <= 0:
        return 0.0
    ratio = gap / scatter
    return max(scatter * _NORMAL.pdf(ratio) - gap * _NORMAL.cdf(-ratio), 0.0)


def scatter_of(wait: float, gap: float) -> float | None:
    """Return the scatter at which the slower of two ranks waits so long; None if the gap is too wide to tell."""
    if wait <= 0 or mean_wait(1.0, _WIDEST_GAP) * gap > _WIDEST_GAP * wait:
        return None
    # Equal ranks wait at least as long as these, and longer by at most half of the gap.
    low, high = wait / BALANCED, (wait + gap / 2) / BALANCED
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if mean_wait(middle, gap) < wait else (low, middle)
    return high
