"""The overhead of the performance model, fitted to finished runs.

`fit_overhead` fits Over = constant + per_row·size + per_rank·P + per_rank2·P² to the difference between observed and
predicted-without-overhead times, as Wolski et al. 2000 did by hand over 106 runs (§3.1), and fits no more terms than
the runs can carry.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from apples.learning.regression import Fit, choose_terms, weighted_median
from apples.learning.runs import PRIOR_SPREAD, finished, observed_s, recency, without_overhead
from apples.model.grid import FloatArray
from apples.model.plan import Record
from apples.model.template import Benchmark, Costs, Overhead


def fit_overhead(
    records: Sequence[Record],
    costs: Costs | Callable[[Record], Costs] | None = None,
    *,
    prior: Overhead | None = None,
) -> Overhead:
    """Return the overhead of runs like these, oldest first; unfinished runs are ignored.

    costs : benchmarks to price the runs' computation with, the same for all or those of each run; None takes the
        plans' own predictions
    prior : overhead without records (default none): terms that the records cannot carry are taken from it, and it is
        the result if a fit would have done worse on the (weighted) median of the records.
    """
    prior = Overhead() if prior is None else prior
    ended = [r for r in records if finished(r)]
    rest = [without_overhead(r, costs(r) if callable(costs) else costs) for r in ended]
    usable = [r for r, seconds in zip(ended, rest, strict=True) if math.isfinite(seconds)]
    if not usable:
        return prior
    observed = np.array([observed_s(r) for r in usable])
    extra = observed - np.array([seconds for seconds in rest if math.isfinite(seconds)])
    inputs = [(r.plan.size, len(r.plan.assignments)) for r in usable]
    believed = np.array([prior.seconds(size, ranks) for size, ranks in inputs])
    design = np.array([[1.0, ranks, ranks**2, size] for size, ranks in inputs])
    weights = recency(len(usable))

    def grows_with_ranks(c: FloatArray) -> bool:
        return bool(prior.per_rank_s + c[1] >= 0 and prior.per_rank2_s + c[2] >= 0)

    fit = choose_terms(design, extra - believed, weights, grows_with_ranks)
    shift = weighted_median(extra - believed, weights)
    candidates = [replace(prior, constant_s=prior.constant_s + shift, source=_source(len(usable)))]
    if fit is not None:
        candidates.insert(0, _plus(prior, fit, len(usable)))

    def miss(overhead: Overhead) -> float:
        return weighted_median(np.abs(_misses(overhead, inputs, extra)), weights)

    chosen = next((c for c in candidates if miss(c) <= miss(prior)), prior)
    trust = weights if fit is None else weights * fit.trust
    return replace(chosen, error_s=_spread(chosen, inputs, extra, (trust, observed)))


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


def _plus(prior: Overhead, fit: Fit, runs: int) -> Overhead:
    constant, per_rank, per_rank2, per_row = (float(c) for c in fit.coefficients)
    return Overhead(
        constant_s=prior.constant_s + constant,
        per_row_s=prior.per_row_s + per_row,
        per_rank_s=prior.per_rank_s + per_rank,
        per_rank2_s=prior.per_rank2_s + per_rank2,
        source=_source(runs),
    )


def _source(runs: int) -> str:
    return f"fitted to {runs} run{'s' * (runs != 1)}"


def _misses(overhead: Overhead, inputs: Sequence[tuple[int, int]], extra: FloatArray) -> FloatArray:
    misses: FloatArray = extra - np.array([overhead.seconds(size, ranks) for size, ranks in inputs])
    return misses


def _spread(
    overhead: Overhead,
    inputs: Sequence[tuple[int, int]],
    extra: FloatArray,
    runs: tuple[FloatArray, FloatArray],
) -> float:
    """Return the standard deviation of the residuals, with one run's worth of prior. runs .

    (weights, observed seconds).
    """
    weights, observed = runs
    terms = (overhead.constant_s, overhead.per_row_s, overhead.per_rank_s, overhead.per_rank2_s)
    fitted = sum(term != 0 for term in terms)
    squares = float(weights @ _misses(overhead, inputs, extra) ** 2)
    prior = (PRIOR_SPREAD * float(np.median(observed))) ** 2
    return math.sqrt((squares + prior) / max(float(weights.sum()) + 1 - fitted, 1.0))
