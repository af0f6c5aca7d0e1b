"""Waits of ranks for each other because the time that each needs between two messages varies.

Let the difference of two ranks' times be normally distributed, with a standard deviation (`jitter`) around a `gap`.
The slower rank then waits jitter·φ(gap / jitter) − gap·Φ(−gap / jitter) in the mean. It waits longest where both need
equally long, as plans intend, and hardly at all where it is clearly slower. All three may be multiplied by a number of
messages. With more than two ranks, the jitter is that of two ranks which would wait as long.
Source: C. E. Clark, The greatest of a finite set of random variables, Operations Research 9, 1961.
"""

from statistics import NormalDist

_NORMAL = NormalDist()

#: Mean wait of ranks that need equally long, in units of the jitter.
BALANCED = _NORMAL.pdf(0.0)

#: A wait shows the jitter if the gap is at most half of it: equal ranks would wait about twice as long at most.
_WIDEST_GAP = 0.5

#: Steps of Newton's method, of which some five are needed, and the relative change that ends it.
_STEPS, _EXACT = 50, 1e-12


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
    # Equal ranks wait longer than these by at most half of the gap. The wait is convex in the jitter, with the slope
    # φ(gap / jitter), so Newton's method approaches its root from above.
    jitter = (wait + gap / 2) / BALANCED
    for _ in range(_STEPS):
        change = (mean_wait(jitter, gap) - wait) / _NORMAL.pdf(gap / jitter)
        jitter -= change
        if abs(change) < _EXACT * jitter:
            break
    return jitter
