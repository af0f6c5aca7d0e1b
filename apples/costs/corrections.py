"""Corrections of benchmarks from the compute times of finished runs: per CPU type, and per host within its type.

A benchmark is made on one host of a type, alone. Hosts of one type differ by their cooling, their neighbours on the
same processor, or the cost of a quota. Each factor is shrunk by its own uncertainty, and so is the difference between
the benchmarks of two slabs, because two short runs differ by chance. If the newest runs all contradict a benchmark
although earlier runs have corrected it, the machine has changed and should be measured again.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from apples.costs.growth import grown, significant
from apples.costs.regression import choose_terms, weighted_median
from apples.costs.runs import (
    PRIOR_SPREAD,
    TrainingRun,
    TrainingRuns,
    expected_compute,
    recency,
    with_measured_shares,
)
from apples.model.grid import FloatArray
from apples.model.template import Costs

_TO_DEVIATION = 1.4826

#: Least factor on communication: some of it always remains visible.
LEAST_EXCHANGE = 0.01

#: Number of newest runs that must all contradict a corrected benchmark, and by how much, before it is outdated.
OUTDATED_RUNS, OUTDATED_FACTOR = 3, 1.2

#: Largest exponent by which runs correct the growth of the cost of a row.
_STEEPEST = 1.0

#: CPU type → when its benchmark was measured.
Since = Mapping[str, float]
#: Run, and the logarithm of observed over expected computation in it.
_Seen = list[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Error of a benchmark. `factor`: on seconds per row.  `runs`: number of runs behind it."""

    factor: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """Corrections by CPU type, and of hosts relative to their type."""

    types: Mapping[str, Correction]
    hosts: Mapping[str, Correction]


def correct(same: TrainingRuns, others: Sequence[TrainingRuns] = ()) -> Costs:
    """Return the benchmarks moved towards the compute times of finished runs, as far as the runs agree.

    others : runs on slabs of other sizes, used until runs on slabs of this size agree
    """
    corrected = _applied(same.benchmarks, corrections(same, others))
    # The hidden part of an exchange does not depend on the size of the slabs.
    return replace(corrected, communication=exchanges([run for run, _ in _by_age([same, *others])]).factor)


def corrections(same: TrainingRuns, others: Sequence[TrainingRuns] = ()) -> Corrections:
    """Return factors on the benchmarks of types and hosts that ran, each between 1 and the median of observed
    / expected.

    others : see `correct`
    """
    priced = {id(of): _comparable(same.benchmarks, of.benchmarks) for of in others}
    first = _agreed([(run, priced[id(of)], of.since) for run, of in _by_age(others)])
    corrected = _applied(same.benchmarks, first)
    then = _agreed([(run, corrected, same.since) for run in same.runs])
    return Corrections(types=_multiplied(first.types, then.types), hosts=_multiplied(first.hosts, then.hosts))


def with_growth_of_runs(
    same: TrainingRuns, others: Sequence[TrainingRuns] = ()
) -> tuple[TrainingRuns, list[TrainingRuns]]:
    """Return the runs with benchmarks whose growth with the rows of a slab is corrected by runs on slabs of all sizes.

    Benchmarks of two sizes that differ by chance show a wrong growth, and ranks that share a cache with others show
    another one than a rank alone. Runs on four sizes or more are needed, and as good an agreement as for other terms
    (`choose_terms`).
    """
    origin = same.benchmarks.slab_rows
    if not origin:
        return same, list(others)
    evidence = _by_age(with_measured_shares((same, *others)))
    runs = [(run, of) for run, of in evidence if of.benchmarks.slab_rows]
    seen: dict[str, list[tuple[float, float, float]]] = {}
    for (run, of), weight in zip(runs, recency(len(runs)), strict=True):
        log_rows = math.log(run.typical_rows / origin)
        for cpu_type, log in _type_logs(run, of.benchmarks, of.since).items():
            seen.setdefault(cpu_type, []).append((log_rows, log, weight))
    exponents = {}
    for cpu_type, values in seen.items():
        log_rows, logs, weights = np.array(values).T
        design = np.stack((np.ones_like(log_rows), log_rows), axis=1)
        fit = choose_terms(design, logs, weights, lambda c: bool(abs(c[1]) <= _STEEPEST))
        exponents[cpu_type] = 0.0 if fit is None else float(fit.coefficients[1])
    first, *rest = [replace(of, benchmarks=grown(of.benchmarks, exponents, origin)) for of in (same, *others)]
    return first, rest


def _type_logs(run: TrainingRun, costs: Costs, since: Since | None) -> dict[str, float]:
    """Return CPU type → median of the logarithms of its hosts (`_host_logs`)."""
    by_type: dict[str, list[float]] = {}
    for (cpu_type, _), log in _host_logs(run, costs, since).items():
        by_type.setdefault(cpu_type, []).append(log)
    return {cpu_type: statistics.median(logs) for cpu_type, logs in by_type.items()}


def _comparable(same: Costs, other: Costs) -> Costs:
    """Return costs for rows of another slab: its benchmarks where they differ clearly, else those of this size.

    A row that caches hold in one slab and not in the other costs two or three times as much there. Benchmarks vary by
    about a tenth, and runs priced with such a chance difference would learn it.
    """
    tables = dict(other.seconds_per_row)
    for cpu_type, ours in same.seconds_per_row.items():
        theirs = other.seconds_per_row.get(cpu_type, {})
        # Caches are shared: sizes that cost the same for one rank on a host may differ for several.
        moved = {
            n: math.exp(significant(math.log(theirs[n] / ours[n]))) * ours[n] for n in theirs if n in ours
        }
        if moved:
            near = {n: min((abs(m - n), m) for m in moved)[1] for n in theirs}
            tables[cpu_type] = {
                n: seconds * moved[near[n]] / theirs[near[n]] for n, seconds in theirs.items()
            }
    return replace(other, seconds_per_row=tables)


def _by_age(others: Sequence[TrainingRuns]) -> list[tuple[TrainingRun, TrainingRuns]]:
    runs = [(run, of) for of in others for run in of.runs]
    return sorted(runs, key=lambda run: run[0].id)


def _agreed(runs: Sequence[tuple[TrainingRun, Costs, Since | None]]) -> Corrections:
    """Return the corrections from finished runs, oldest first, each priced with its own benchmarks."""
    types: dict[str, _Seen] = {}
    hosts: dict[str, _Seen] = {}
    type_of: dict[str, str] = {}
    for index, (run, costs, since) in enumerate(runs):
        by_type: dict[str, list[float]] = {}
        for (cpu_type, host), log in _host_logs(run, costs, since).items():
            type_of[host] = cpu_type
            hosts.setdefault(host, []).append((index, log))
            by_type.setdefault(cpu_type, []).append(log)
        for cpu_type, logs in by_type.items():
            types.setdefault(cpu_type, []).append((index, statistics.median(logs)))
    weights = recency(len(runs))
    of_types = {cpu_type: _shrunk(seen, weights) for cpu_type, seen in types.items()}
    of_hosts = {}
    for host, seen in hosts.items():
        common = math.log(of_types[type_of[host]].factor)
        of_hosts[host] = _shrunk([(index, log - common) for index, log in seen], weights)
    return Corrections(types=of_types, hosts=of_hosts)


def _applied(costs: Costs, corrected: Corrections) -> Costs:
    tables = {
        cpu_type: {ranks: seconds * corrected.types[cpu_type].factor for ranks, seconds in table.items()}
        if cpu_type in corrected.types
        else table
        for cpu_type, table in costs.seconds_per_row.items()
    }
    factors = {host: one.factor for host, one in corrected.hosts.items() if one.factor != 1.0}
    return replace(costs, seconds_per_row=tables, host_factors=factors)


def _multiplied(first: Mapping[str, Correction], then: Mapping[str, Correction]) -> dict[str, Correction]:
    none = Correction(factor=1.0, runs=0)
    pairs = {name: (first.get(name, none), then.get(name, none)) for name in [*first, *then]}
    return {
        name: Correction(factor=a.factor * b.factor, runs=a.runs + b.runs) for name, (a, b) in pairs.items()
    }


def exchanges(runs: Sequence[TrainingRun]) -> Correction:
    """Return the factor on communication: observed waits for exchanges, divided by the time of links and messages.

    Taken from the rank that computed longest in each run, oldest first, because the others wait for it too. A code that
    computes while its messages are under way waits less. The factor is from a hundredth to 1: waits beyond what
    links explain are the price of messages on the ranks' CPUs (`message_costs`). The sum of absolute errors is least,
    so that runs with longer exchanges weigh more; a median of ratios would be that of runs with next to no exchange.
    """
    seen: _Seen = []
    weights = []
    for run, weight in zip(runs, recency(len(runs)).tolist(), strict=True):
        slowest = max(run.observed_ranks, key=lambda one: one[1].compute_s, default=None)
        if slowest is not None and (alone_s := slowest[0].exchange_s) > 0:
            ratio = min(max(slowest[1].communicate_s / alone_s, LEAST_EXCHANGE), 1.0)
            seen.append((len(seen), math.log(ratio)))
            weights.append(weight * alone_s)
    return _shrunk(seen, np.array(weights)) if seen else Correction(factor=1.0, runs=0)


def outdated(corrected: Costs, same: TrainingRuns) -> dict[str, Correction]:
    """Return CPU types whose benchmark the newest runs contradict, all in one direction, with the median factor.

    corrected : costs after `correct`, so that a correction already made is no contradiction
    """
    newest: dict[str, list[float]] = {}
    for run in reversed(same.runs):
        if (
            newest.keys() == corrected.seconds_per_row.keys()
            and min(map(len, newest.values())) == OUTDATED_RUNS
        ):
            break
        for cpu_type, log in _type_logs(run, corrected, same.since).items():
            seen = newest.setdefault(cpu_type, [])
            if len(seen) < OUTDATED_RUNS:
                seen.append(log)
    limit = math.log(OUTDATED_FACTOR)
    return {
        cpu_type: Correction(factor=math.exp(statistics.median(logs)), runs=len(logs))
        for cpu_type, logs in newest.items()
        if len(logs) == OUTDATED_RUNS and (min(logs) > limit or max(logs) < -limit)
    }


def _shrunk(seen: _Seen, recency_of: FloatArray) -> Correction:
    """Return the median of the logarithms, shrunk towards 0 by its own uncertainty (scatter over the runs).

    As a James-Stein estimate would: one run off by 2 % moves almost nothing, one off by 30 % moves most of the way, ten
    that agree move all of it.
    """
    logs = np.array([log for _, log in seen])
    weights = recency_of[[index for index, _ in seen]]
    runs = float(weights.sum() ** 2 / (weights @ weights))
    median = weighted_median(logs, weights)
    scatter = _TO_DEVIATION * weighted_median(np.abs(logs - median), weights)
    variance = (runs * scatter**2 + PRIOR_SPREAD**2) / (runs + 1) / runs
    return Correction(factor=math.exp(median**3 / (median**2 + variance)), runs=len(seen))


def _host_logs(run: TrainingRun, costs: Costs, since: Since | None) -> dict[tuple[str, str], float]:
    """Return CPU type and host → logarithm of the median over its ranks of observed / expected compute time.

    A rank without a whole CPU that waits for others computes faster between its waits, because it has a part of the
    CPU's time to spare. Its CPU time shows the need of its rows (`RankTimes.sweeps_s`). Where that was not measured,
    they took at most its share of the whole time, so nothing between contradicts a benchmark.
    """
    older = {t for t, measured_at in (since or {}).items() if run.started_at < measured_at}
    expected = expected_compute(run, costs)
    ratios: dict[tuple[str, str], list[float]] = {}
    for one, times in run.observed_ranks:
        expected_s = expected.get(one.rank, 0.0)
        if times.compute_s > 0 and expected_s > 0 and one.cpu_type not in older:
            least_s, most_s = times.sweeps_s(one.share)
            near_s = min(max(expected_s, least_s), most_s)
            ratios.setdefault((one.cpu_type, one.host), []).append(near_s / expected_s)
    return {host: math.log(statistics.median(values)) for host, values in ratios.items()}
