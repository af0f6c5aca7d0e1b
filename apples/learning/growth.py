"""How costs grow with the rows of a slab, from benchmarks of slabs of several sizes.

Caches hold a part of a slab, so a row of a larger one costs more. Between two sizes that were measured, the logarithm
of the cost is taken as linear in that of the rows. The setup of a rank is linear in its rows.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from apples.learning.runs import PRIOR_SPREAD
from apples.model.template import Costs


def significant(difference: float) -> float:
    """Return the significant part of a difference of two benchmarks' logarithms.

    It is near 0 for a tenth, as two short runs differ by chance, and all of a difference well beyond that.
    """
    both_stray = 2 * PRIOR_SPREAD**2
    return difference / (1 + (both_stray / difference**2) ** 2) if difference else 0.0


def with_growth(costs: Costs, rows: int, others: Mapping[int, Costs]) -> Costs:
    """Return costs with the growth between their slabs and those of the nearest sizes.

    On a side where no other size was measured, rows cost the same.

    Args:
        costs: of slabs of `rows` rows
        others: rows of other slabs → their costs
    """
    smaller = max((n for n in others if n < rows), default=None)
    larger = min((n for n in others if n > rows), default=None)
    sides = [{} if n is None else _exponents(costs, others[n], n / rows) for n in (smaller, larger)]
    growth = {
        cpu_type: (sides[0].get(cpu_type, 0.0), sides[1].get(cpu_type, 0.0))
        for cpu_type in {*sides[0], *sides[1]}
    }
    return replace(costs, slab_rows=float(rows), growth=growth)


def setup_of(setups: Mapping[int, float], rows: float) -> tuple[float, float]:
    """Return the CPU seconds of a rank beside its iterations: the fixed part, and that of each of its rows.

    From the two sizes nearest to `rows`; a single one shows a fixed part only. (0, 0) without any.

    Args:
        setups: rows of a slab → CPU seconds of its rank
        rows: of the slabs in question
    """
    few, *more = sorted(sorted(setups, key=lambda n: abs(math.log(n / rows)))[:2]) or (0,)
    if not more:
        return setups.get(few, 0.0), 0.0
    row_s = min(max((setups[more[0]] - setups[few]) / (more[0] - few), 0.0), setups[few] / few)
    return setups[few] - row_s * few, row_s


def _exponents(costs: Costs, other: Costs, ratio: float) -> dict[str, float]:
    """Return CPU type → exponent of the growth to slabs of `ratio` times as many rows."""
    found = {}
    for cpu_type, ours in costs.seconds_per_row.items():
        theirs = other.seconds_per_row.get(cpu_type, {})
        logs: Sequence[float] = [math.log(theirs[n] / ours[n]) for n in ours if n in theirs]
        if logs:
            found[cpu_type] = significant(statistics.fmean(logs)) / math.log(ratio)
    return found
