"""Three orders of desirability: for computing power, for connectivity, and for both (§3.2, Figure 2 line 4).

Power is the time to compute one row; connectivity the time to exchange one byte to and from every other host; the
third order weighs both equally. The paper averages the two. They have different scales, so each is first divided by
its mean over the pool.
"""

import numpy as np

from apples.model.grid import FloatArray
from apples.model.pairs import PairValues, combined
from apples.planning.problem import UNUSABLE_S, IntArray, Problem

#: Weight of power against connectivity, by the name of the order.
BALANCES = {"power": 1.0, "connectivity": 0.0, "both": 0.5}

#: The cost of a broken link, in multiples of the worst working link.
_BROKEN = 10.0
#: Hosts whose links are added up at once.
_BLOCK = 256


def power(problem: Problem) -> FloatArray:
    """Return seconds for one row on each processor, float64[N]. A host's next slot is slower if slots share a CPU."""
    return problem.slope[problem.host_of, problem.slot_of + 1]


def connectivity(problem: Problem) -> FloatArray:
    """Return seconds to exchange one byte with every other host, both ways, for each processor, float64[N]."""
    one_way = combined(lambda s, b: s + 1 / b, problem.latency_s, problem.bandwidth_Bps)
    if problem.side.most() >= UNUSABLE_S:
        # Expensive, but finite: hosts with one broken link each must stay distinguishable.
        worst = _BROKEN * one_way.most()
        one_way = combined(lambda t, s: np.where(s < UNUSABLE_S, t, worst), one_way, problem.side)
    return _to_all_others(one_way)[problem.host_of]


def _to_all_others(one_way: PairValues) -> FloatArray:
    """Return the sum over all other hosts, both ways, float64[H]; equal hosts have exactly equal sums."""
    classes, table = one_way.classes, one_way.table
    n = len(table)
    # In blocks, for the memory of many classes.
    blocks = [slice(i, i + _BLOCK) for i in range(0, n, _BLOCK)]
    each = [(table[rows] + table[:, rows].T) * classes.size for rows in blocks]
    per_class = np.concatenate([both_ways.sum(axis=1) for both_ways in each]) - 2 * np.diag(table)
    per_host: FloatArray = per_class[classes.of_hosts()]
    start, end = classes.ends
    kind = classes.of_hosts()
    more = np.where(start == end, 0.0, one_way.single - table[kind[start], kind[end]])
    np.add.at(per_host, start, more)
    np.add.at(per_host, end, more)
    return per_host


def orders(problem: Problem) -> dict[str, IntArray]:
    """Return the processors of each order by its name, most desirable first, int64[N]; ties keep the grid's order."""
    compute, connect = _relative(power(problem)), _relative(connectivity(problem))
    return {
        name: np.argsort(balance * compute + (1 - balance) * connect, kind="stable")
        for name, balance in BALANCES.items()
    }


def _relative(values: FloatArray) -> FloatArray:
    """Return the values divided by their mean; zeros stay zeros."""
    mean = float(values.mean())
    return values / mean if mean > 0 else values
