"""Costs from benchmarks: how rows and setups grow with the rows of a slab, and the start with the ranks.

Caches hold a part of a slab, so a row of a larger one costs more. Between two sizes that were measured, the logarithm
of the cost is taken as linear in that of the rows. The setup of a rank is linear in its rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from apples.costs.runs import PRIOR_SPREAD
from apples.model.template import Benchmark, Costs, Overhead


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
    smaller = max((n for n in others if n < rows), default=rows)
    larger = min((n for n in others if n > rows), default=rows)
    growth = {
        cpu_type: {
            ranks: (
                _exponent(cpu_type, ranks, (rows, costs), (smaller, others.get(smaller))),
                _exponent(cpu_type, ranks, (rows, costs), (larger, others.get(larger))),
            )
            for ranks in table
        }
        for cpu_type, table in costs.seconds_per_row.items()
    }
    return replace(costs, slab_rows=float(rows), slab_limits=(smaller, larger), growth=growth)


def _exponent(
    cpu_type: str, ranks: int, measured: tuple[int, Costs], other: tuple[int, Costs | None]
) -> float:
    """Return the exponent of the growth from one size to another for so many ranks on a host, or for the next count.

    0 if the other size was not measured. own, other : rows of a slab and their costs
    """
    (rows, costs), (other_rows, other_costs) = measured, other
    theirs = {} if other_costs is None else other_costs.seconds_per_row.get(cpu_type, {})
    common = [n for n in costs.seconds_per_row[cpu_type] if n in theirs]
    if not common:
        return 0.0
    near = min(common, key=lambda n: abs(n - ranks))
    return significant(math.log(theirs[near] / costs.seconds_per_row[cpu_type][near])) / math.log(
        other_rows / rows
    )


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


def startup_overhead(benchmarks: Sequence[Benchmark]) -> Overhead:
    """Return the overhead seen in launches of benchmarks: a constant, and a part per rank if several counts ran."""
    if not benchmarks:
        return Overhead()
    ranks = np.array([float(b.ranks) for b in benchmarks])
    startup = np.array([b.startup_s for b in benchmarks])
    centred = ranks - ranks.mean()
    slope = float(centred @ startup / (centred @ centred)) if np.ptp(ranks) else 0.0
    slope = max(slope, 0.0)
    constant = max(float(startup.mean() - slope * ranks.mean()), 0.0)
    missed = startup - constant - slope * ranks
    error = math.hypot(float(missed.std()), PRIOR_SPREAD * float(startup.mean()))
    return Overhead(constant_s=constant, per_rank_s=slope, error_s=error, source="start-up of the benchmark")
