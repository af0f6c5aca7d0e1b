"""The overhead of the paper's model, fitted to calibration runs; Wolski et al. 2000, §3.1, did it by hand.

`fit_overhead` fits Over = constant + per_row·size + per_rank·P + per_rank2·P² to the difference between observed and
predicted-without-overhead times, with no more terms than the runs can carry.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from apples.costs.runs import PRIOR_SPREAD, TrainingRun, without_overhead
from apples.model.grid import FloatArray
from apples.model.template import Costs, Overhead
from apples_experiments.regression import Fit, choose_terms, weighted_median
from nws.base.wording import counted

#: Runs after which a run counts half.
HALF_LIFE_RUNS = 30.0


def recency(count: int) -> FloatArray:
    """Return the weights of runs, oldest first, float64[count]; the newest counts 1."""
    weights: FloatArray = np.exp2(-np.arange(count - 1.0, -1.0, -1.0) / HALF_LIFE_RUNS)
    return weights


def fit_overhead(
    runs: Sequence[TrainingRun],
    costs: Costs | Callable[[TrainingRun], Costs] | None = None,
    *,
    prior: Overhead | None = None,
) -> Overhead:
    """Return the overhead of runs like these, oldest first.

    costs : benchmarks to price the runs' computation with, the same for all or those of each run; None takes the
        plans' own predictions
    prior : overhead without runs (default none): terms that the runs cannot carry are taken from it, and it is
        the result if a fit would have done worse on the (weighted) median of the runs.
    """
    prior = Overhead() if prior is None else prior
    priced = [(run, without_overhead(run, costs(run) if callable(costs) else costs)) for run in runs]
    usable = [(run, seconds) for run, seconds in priced if math.isfinite(seconds)]
    if not usable:
        return prior
    observed = np.array([run.observed_s for run, _ in usable])
    extra = observed - np.array([seconds for _, seconds in usable])
    inputs = [(run.size, len(run.ranks)) for run, _ in usable]
    prior_s = np.array([prior.seconds(size, ranks) for size, ranks in inputs])
    design = np.array([[1.0, ranks, ranks**2, size] for size, ranks in inputs])
    weights = recency(len(usable))

    def grows_with_ranks(c: FloatArray) -> bool:
        return bool(prior.per_rank_s + c[1] >= 0 and prior.per_rank2_s + c[2] >= 0)

    fit = choose_terms(design, extra - prior_s, weights, grows_with_ranks)
    shift = weighted_median(extra - prior_s, weights)
    candidates = [replace(prior, constant_s=prior.constant_s + shift, source=_source(len(usable)))]
    if fit is not None:
        candidates.insert(0, _plus(prior, fit, len(usable)))

    def miss(overhead: Overhead) -> float:
        return weighted_median(np.abs(_misses(overhead, inputs, extra)), weights)

    chosen = next((c for c in candidates if miss(c) <= miss(prior)), prior)
    trust = weights if fit is None else weights * fit.trust
    return replace(chosen, error_s=_spread(chosen, inputs, extra, (trust, observed)))


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
    return f"fitted to {counted(runs, 'run')}"


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
