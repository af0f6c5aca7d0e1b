"""What finished runs teach: the overhead of the performance model, and how far the benchmarks are off.

`fit_overhead` fits Over = constant + per_row·size + per_rank·P + per_rank2·P² to the difference between observed and
predicted-without-overhead times, as Wolski et al. 2000 did by hand over 106 runs (§3.1), and fits no more terms than
the runs can carry. `correct` scales benchmarks that observed compute times contradict. Both are pure; newer runs count
more, and runs disturbed by load that nobody forecast lose their weight. Every run is priced again with the costs in
hand, so that what was learnt before is not learnt twice. Where benchmarks are kept: `apples.benchmarkstore`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from apples.grid import Conditions, Estimate, FloatArray
from apples.plan import Assignment, Record
from apples.regression import Fit, choose_terms, weighted_median
from apples.template import Benchmark, Costs, Overhead

#: Runs after which a run counts half.
HALF_LIFE_RUNS = 30.0

#: Scatter assumed before runs show their own, as one more run would: a tenth of the time.
_PRIOR_SPREAD = 0.1

_TO_DEVIATION = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """How far the benchmarks of one CPU type were off. `factor`: on seconds per row.  `runs`: that showed it."""

    factor: float
    runs: int


def fit_overhead(
    records: Sequence[Record], costs: Costs | None = None, *, prior: Overhead | None = None
) -> Overhead:
    """Overhead of runs like these, oldest first; runs that did not finish teach nothing.

    costs : benchmarks to price the runs' computation with; None takes the plans' own predictions
    prior : what is believed without records (default none): terms the records cannot carry come from it, and it is
        the answer where a fit would have done worse on the (weighted) median of the records.
    """
    prior = Overhead() if prior is None else prior
    usable = [r for r in records if _finished(r) and math.isfinite(_without_overhead(r, costs))]
    if not usable:
        return prior
    observed = np.array([_observed(r) for r in usable])
    extra = observed - np.array([_without_overhead(r, costs) for r in usable])
    inputs = [(r.plan.size, len(r.plan.assignments)) for r in usable]
    believed = np.array([prior.seconds(size, ranks) for size, ranks in inputs])
    design = np.array([[1.0, ranks, ranks**2, size] for size, ranks in inputs])
    weights = _recency(len(usable))

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
    """Overhead that launches of benchmarks show: a constant, and a part per rank where several counts ran."""
    if not benchmarks:
        return Overhead()
    ranks = np.array([float(b.ranks) for b in benchmarks])
    startup = np.array([b.startup_s for b in benchmarks])
    centred = ranks - ranks.mean()
    slope = float(centred @ startup / (centred @ centred)) if np.ptp(ranks) else 0.0
    slope = max(slope, 0.0)
    constant = max(float(startup.mean() - slope * ranks.mean()), 0.0)
    missed = startup - constant - slope * ranks
    error = math.hypot(float(missed.std()), _PRIOR_SPREAD * float(startup.mean()))
    return Overhead(constant_s=constant, per_rank_s=slope, error_s=error, source="start-up of the benchmark")


def correct(costs: Costs, records: Sequence[Record]) -> Costs:
    """The costs with benchmarks moved towards what finished runs computed in, as far as the runs agree."""
    found = corrections(costs, records)
    tables = {
        cpu_type: {ranks: seconds * found[cpu_type].factor for ranks, seconds in table.items()}
        if cpu_type in found
        else table
        for cpu_type, table in costs.seconds_per_row.items()
    }
    return replace(costs, seconds_per_row=tables)


def corrections(costs: Costs, records: Sequence[Record]) -> dict[str, Correction]:
    """For each CPU type that ran: factor on its benchmark, between 1 and the median of observed / expected.

    The median is shrunk towards 1 by its own uncertainty (scatter over the runs), as a James-Stein estimate
    would: one run off by 2 % moves nothing much, one off by 30 % moves most of the way, ten that agree all of it.
    """
    ratios: dict[str, list[tuple[int, float]]] = {}
    finished = [r for r in records if _finished(r)]
    for index, record in enumerate(finished):
        for cpu_type, ratio in _compute_ratios(record, costs).items():
            ratios.setdefault(cpu_type, []).append((index, math.log(ratio)))
    recency = _recency(len(finished))
    found = {}
    for cpu_type, seen in ratios.items():
        logs = np.array([log for _, log in seen])
        weights = recency[[index for index, _ in seen]]
        runs = float(weights.sum() ** 2 / (weights @ weights))
        median = weighted_median(logs, weights)
        scatter = _TO_DEVIATION * weighted_median(np.abs(logs - median), weights)
        variance = (runs * scatter**2 + _PRIOR_SPREAD**2) / (runs + 1) / runs
        shrunk = median**3 / (median**2 + variance)
        found[cpu_type] = Correction(factor=math.exp(shrunk), runs=len(seen))
    return found


def _finished(record: Record) -> bool:
    return record.outcome is not None and record.outcome.finished and record.outcome.observed_s > 0


def _observed(record: Record) -> float:
    assert record.outcome is not None
    return record.outcome.observed_s


def _recency(count: int) -> FloatArray:
    """Weights of runs, oldest first, float64[count]; the newest counts 1."""
    weights: FloatArray = np.exp2(-np.arange(count - 1.0, -1.0, -1.0) / HALF_LIFE_RUNS)
    return weights


def _without_overhead(record: Record, costs: Costs | None) -> float:
    """Predicted time of the slowest rank but for the overhead, seconds."""
    priced = {} if costs is None else _expected_compute(record, costs)
    return max(
        (priced.get(a.rank, a.compute_s) + a.communicate_s for a in record.plan.assignments), default=math.nan
    )


def _expected_compute(record: Record, costs: Costs) -> dict[int, float]:
    """Comp_i of each rank by these costs and the run's own forecasts; ranks that cannot be priced are missing."""
    hosts = {entry["host"]: entry for entry in record.snapshot.get("hosts", [])}
    iterations = record.workload.get("iterations", 1)
    sharing: dict[str, int] = {}
    for a in record.plan.assignments:
        sharing[a.host] = sharing.get(a.host, 0) + 1
    expected = {}
    for a in record.plan.assignments:
        entry = hosts.get(a.host)
        if entry is None or entry["cpu_type"] not in costs.seconds_per_row:
            continue
        share = _share(entry, sharing[a.host])
        if share > 0:
            expected[a.rank] = (
                a.rows * iterations * costs.row_seconds(entry["cpu_type"], sharing[a.host]) / share
            )
    return expected


def _share(entry: Mapping[str, object], ranks: int) -> float:
    """CPU share of each of `ranks` ranks by the snapshot's entry for their host; 0 where it says nothing."""
    availability, capacity = _value(entry.get("availability")), _value(entry.get("capacity"))
    slots = entry.get("slots")
    if availability is None or not isinstance(slots, int):
        return 0.0
    conditions = Conditions(
        availability=Estimate(value=availability),
        memory_bytes=Estimate(value=math.inf),
        capacity=None if capacity is None else Estimate(value=capacity),
    )
    return conditions.share(ranks, slots)


def _value(estimate: object) -> float | None:
    value = estimate.get("value") if isinstance(estimate, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _compute_ratios(record: Record, costs: Costs) -> dict[str, float]:
    """CPU type → median over its ranks of observed / expected compute time."""
    assert record.outcome is not None
    expected = _expected_compute(record, costs)
    cpu_types = {entry["host"]: entry["cpu_type"] for entry in record.snapshot.get("hosts", [])}
    host_of: dict[int, Assignment] = {a.rank: a for a in record.plan.assignments}
    ratios: dict[str, list[float]] = {}
    for seen in record.outcome.observations:
        if seen.compute_s > 0 and expected.get(seen.rank, 0.0) > 0:
            cpu_type = cpu_types[host_of[seen.rank].host]
            ratios.setdefault(cpu_type, []).append(seen.compute_s / expected[seen.rank])
    return {cpu_type: float(np.median(values)) for cpu_type, values in ratios.items()}


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
    """Standard deviation of what remains, with one run's worth of prior. runs : (weights, observed seconds)."""
    weights, observed = runs
    terms = (overhead.constant_s, overhead.per_row_s, overhead.per_rank_s, overhead.per_rank2_s)
    fitted = sum(term != 0 for term in terms)
    squares = float(weights @ _misses(overhead, inputs, extra) ** 2)
    prior = (_PRIOR_SPREAD * float(np.median(observed))) ** 2
    return math.sqrt((squares + prior) / max(float(weights.sum()) + 1 - fitted, 1.0))
