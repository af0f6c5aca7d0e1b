"""The costs beside rows, fitted to finished runs: starts, messages, and the overhead of the performance model.

`fit_overhead` fits Over = constant + per_row·size + per_rank·P + per_rank2·P² to the difference between observed and
predicted-without-overhead times, as Wolski et al. 2000 did by hand over 106 runs (§3.1), and fits no more terms than
the runs can carry.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from apples.costs.regression import Fit, choose_terms, weighted_median
from apples.costs.runs import PRIOR_SPREAD, TrainingRun, recency, waiting_for_cpus, without_overhead
from apples.model.grid import FloatArray
from apples.model.template import Benchmark, Costs, Overhead
from apples.planning.jitter import jitter_of, mean_wait
from nws.base.wording import counted

#: CPU seconds per byte in which ranks fill their memory at the slowest (assumed): further growth with rows is chance.
SLOWEST_FILL_S = 2e-9

#: Jitter must bring the error of a fit down to this part of it.
_BETTER = 0.95

#: Jitter differs from a cost of messages only where some run would wait less than this part of the longest wait.
_DIFFERENT = 0.8


class MessageCosts(NamedTuple):
    """Costs of each message to a rank; the fields are those of `Costs`."""

    message_cpu_s: float
    reduction_hops: float
    jitter_s: float


def start_costs(runs: Sequence[TrainingRun], row_s: float = 0.0) -> tuple[float, float]:
    """Return CPU seconds of ranks until their first iteration, and those for each row, robustly; oldest run first.

    row_s : those for each row if benchmarks have shown them, else fitted

    All ranks wait for the last, so a run shows its busiest CPU. Time before ranks look at the clock (interpreters), and
    after, counts as far as it grows with how busy that CPU is. (0, 0) if no run shows it.
    """
    samples = []
    for run, weight in zip(runs, recency(len(runs)).tolist(), strict=True):
        last = max(run.observed_ranks, key=lambda one: one[1].setup_s, default=None)
        if last is not None and last[1].setup_s > 0 and run.slowness > 0:
            outside_s = run.wall_s - max(times.total_s for _, times in run.observed_ranks)
            samples.append((last[1].setup_s / run.slowness, last[0].rows, run.slowness, outside_s, weight))
    if not samples:
        return 0.0, row_s
    inside, rows, slow_of, outside, weights = np.array(samples).T
    ones = np.ones_like(rows)
    most_s = SLOWEST_FILL_S * max(run.bytes_per_row for run in runs)
    of_rows = choose_terms(
        np.stack((ones, rows), axis=1), inside, weights, lambda c: bool(c[0] >= 0 and 0 <= c[1] <= most_s)
    )
    if not row_s and of_rows is not None:
        row_s = float(of_rows.coefficients[1])
    # Loads that hardly differ would carry any slope; but no run shows less than the CPU time that it is said to have.
    of_load = choose_terms(
        np.stack((ones, slow_of), axis=1), outside, weights, lambda c: bool((c >= 0).all())
    )
    outside_s = 0.0 if of_load is None else float(of_load.coefficients[1])
    return max(weighted_median(inside - row_s * rows, weights), 0.0) + outside_s, row_s


def message_costs(runs: Sequence[TrainingRun]) -> MessageCosts | None:
    """Return the costs of each message to a rank, fitted to runs, oldest first; None if no run shows them.

    The rank that waited least, in the reduction at the end of an iteration and beyond what links explain, is the one
    the others waited for. Its own waiting, less the time for which its share of a CPU was used up, is the cost of its
    messages and of the reduction's way to the others and back. Where the next rank waited hardly longer, jitter may
    have made both wait (`apples.planning.jitter`); it is assumed as far as it explains the runs better. Two parts that
    the plan has priced are left out: waits for others' CPUs in short iterations, and waits because shares change
    (`Plan.waiting_s`; 0 in plans without horizon).
    """
    samples, usable = [], [run for run in runs if run.messages > 0]
    for run, weight in zip(usable, recency(len(usable)).tolist(), strict=True):
        waited = _unexplained_waits(run)
        if len(waited) > 1:
            (least_s, share), (next_s, _), *_ = waited
            wait_s = max(least_s - run.waiting_s, 0.0)
            each = np.array((wait_s, next_s - least_s)) / run.messages
            samples.append((1 / share, run.latency_s, *each, weight))
    if not samples:
        return None
    *inputs, waits, gaps, weights = np.array(samples).T
    return _fitted(np.stack(inputs, axis=1), waits, gaps, weights)


def _unexplained_waits(run: TrainingRun) -> list[tuple[float, float]]:
    """Return each rank's wait, seconds, that neither links nor a lack of CPU explain, and its CPU share; least first.

    Ranks without a share are missing.
    """
    observed = run.observed_ranks
    priced = waiting_for_cpus(run, {one.rank: times.compute_s for one, times in observed})
    waited = []
    for one, times in observed:
        if one.share > 0:
            least_s, _ = times.sweeps_s(one.share)
            exchange_s = max(times.communicate_s - one.exchange_s, 0.0)
            without_cpu_s = priced[one.rank] + least_s - times.compute_s
            waited.append((max(times.wait_s + exchange_s - without_cpu_s, 0.0), one.share))
    return sorted(waited)


def _fitted(
    design: FloatArray, waits: FloatArray, gaps: FloatArray, weights: FloatArray
) -> MessageCosts | None:
    """Return the costs that explain waits best.

    design : float64[runs, 2], 1 / share and latency.  waits : for each message, of the rank that waited least
    gaps : by which the next rank waited longer
    """
    best, best_error = None, np.inf
    for jitter_s in _jitters(waits, gaps, weights):
        rest = waits - np.array([mean_wait(jitter_s, gap) for gap in gaps])
        fit = choose_terms(design, rest, weights, lambda c: bool((c >= 0).all()))
        if fit is None and not jitter_s:
            continue
        cpu_s, hops = np.zeros(2) if fit is None else fit.coefficients
        error = float(weights @ np.abs(rest - design @ (cpu_s, hops)))
        # A rounding error is no better explanation.
        if best is None or error < _BETTER * best_error - 1e-9 * float(weights @ waits):
            best, best_error = MessageCosts(float(cpu_s), float(hops), jitter_s), error
    return best


def _jitters(waits: FloatArray, gaps: FloatArray, weights: FloatArray) -> list[float]:
    """Return the jitters to try: 0, and parts of the median over runs if their gaps separate it from other costs."""
    shown = [(jitter_of(wait, gap), weight) for wait, gap, weight in zip(waits, gaps, weights, strict=True)]
    known = np.array([(jitter_s, weight) for jitter_s, weight in shown if jitter_s is not None])
    if not len(known):
        return [0.0]
    most_s = weighted_median(*known.T)
    expected = [mean_wait(most_s, gap) for gap in gaps]
    alike = min(expected) > _DIFFERENT * max(expected)
    return [0.0] if alike else [most_s * part for part in (0.0, 0.25, 0.5, 0.75, 1.0)]


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
