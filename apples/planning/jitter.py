"""Waits of ranks for each other because the time that each needs between two messages varies.

Let the difference of two ranks' times be normally distributed, with a standard deviation (`jitter`) around a `gap`.
The slower rank then waits jitter·φ(gap / jitter) − gap·Φ(−gap / jitter) in the mean. It waits longest where both need
equally long, as plans intend, and hardly at all where it is clearly slower. All three may be multiplied by a number of
messages. With more than two ranks, the jitter is that of two ranks which would wait as long.
Source: C. E. Clark, The greatest of a finite set of random variables, Operations Research 9, 1961.
"""

import math
from statistics import NormalDist

_NORMAL = NormalDist()

#: Mean wait of ranks that need equally long, in units of the jitter.
BALANCED = _NORMAL.pdf(0.0)

#: A wait shows the jitter if the gap is at most half of it: equal ranks would wait about twice as long at most.
_WIDEST_GAP = 0.5

_HALVINGS = 50


def mean_wait(jitter: float, gap: float) -> float:
    """Return the mean wait of the slower of two ranks, in the unit of both arguments (≥ 0)."""
    if jitter <= 0:
        return 0.0
    ratio = gap / jitter
    return max(jitter * _NORMAL.pdf(ratio) - gap * _NORMAL.cdf(-ratio), 0.0)


def jitter_of(wait: float, gap: float) -> float | None:
    """Return the jitter at which the slower of two ranks waits so long; None if the gap is too wide to show it."""
    if wait <= 0 or mean_wait(1.0, _WIDEST_GAP) * gap > _WIDEST_GAP * wait:
        return None
    # Equal ranks wait at least as long as these, and longer by at most half of the gap.
    low, high = wait / BALANCED, (wait + gap / 2) / BALANCED
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if mean_wait(middle, gap) < wait else (low, middle)
    return high
