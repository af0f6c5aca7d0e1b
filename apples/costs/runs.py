"""Finished runs as evidence: which ones count, their weights, and their expected times by given costs.

A run is priced again with the present costs and the forecasts of its plan, so that a correction is not learnt twice.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from apples.learning.regression import choose_terms, weighted_median
from apples.model.grid import OFFERED, Conditions, Estimate, FloatArray
from apples.model.plan import RankObservation, Record
from apples.model.snapshotdocument import host_entries, link_entries
from apples.model.template import Costs
from apples.planning.jitter import jitter_of, mean_wait
from apples.planning.model import waiting_factor

#: Runs after which a run counts half.
HALF_LIFE_RUNS = 30.0

#: CPU seconds per byte in which ranks fill their memory at the slowest (assumed): further growth with rows is chance.
SLOWEST_FILL_S = 2e-9

#: Jitter must bring the error of a fit down to this part of it.
_BETTER = 0.95

#: Jitter differs from a cost of messages only where some run would wait less than this part of the longest wait.
_DIFFERENT = 0.8

#: Scatter assumed before runs show their own, as one more run would: a tenth of the time.
PRIOR_SPREAD = 0.1


class MessageCosts(NamedTuple):
    """Costs of each message to a rank; the fields are those of `Costs`."""

    message_cpu_s: float
    reduction_hops: float
    jitter_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRuns:
    """Runs on slabs of one size, oldest first, and the benchmarks for their expected times.

    since : CPU type → time of its benchmark; earlier runs are no evidence on it
    """

    records: Sequence[Record]
    benchmarks: Costs
    since: Mapping[str, float] | None = None


def with_measured_shares(lessons: Sequence[TrainingRuns]) -> list[TrainingRuns]:
    """Return the runs on hosts whose CPU shares were measured; all of them if there are none.

    Where a share was only offered, as that of a node of Slurm that was in no allocation before, other people's load
    would be learnt as a cost of the program.
    """
    kept = [replace(one, records=[r for r in one.records if not _offered(r)]) for one in lessons]
    return kept if any(one.records for one in kept) else list(lessons)


def _offered(record: Record) -> bool:
    hosts = host_entries(record.snapshot)
    entries = [hosts[a.host].get("availability") for a in record.plan.assignments if a.host in hosts]
    return any(isinstance(entry, dict) and entry.get("method") == OFFERED for entry in entries)


def finished(record: Record) -> bool:
    """Return whether a run did all its work in one launch: a resumed or repeated run differs from its plan."""
    outcome = record.outcome
    return record.whole and outcome is not None and outcome.finished and observed_s(record) > 0


def observed_s(record: Record) -> float:
    """Return the wall seconds of a run that has ended, without its checkpoints, which are priced separately."""
    assert record.outcome is not None
    kept_s = max((seen.checkpoint_s for seen in record.outcome.observations), default=0.0)
    return record.outcome.observed_s - kept_s


def recent(records: Sequence[Record]) -> list[tuple[Record, float]]:
    """Return the runs that finished, oldest first, with their weights."""
    usable = [r for r in records if finished(r)]
    return list(zip(usable, recency(len(usable)).tolist(), strict=True))


def recency(count: int) -> FloatArray:
    """Return the weights of runs, oldest first, float64[count]; the newest counts 1."""
    weights: FloatArray = np.exp2(-np.arange(count - 1.0, -1.0, -1.0) / HALF_LIFE_RUNS)
    return weights


def without_overhead(record: Record, costs: Costs | None) -> float:
    """Return the predicted time of the slowest rank without the overhead, seconds."""
    factor = record.plan.communication if costs is None else costs.communication
    compute = planned_compute(record)
    if costs is not None:
        compute |= expected_compute(record, costs)
    exchanges, handling = unhidden_exchanges(record), _handling(record, costs)
    rows = {} if costs is None else _starting_rows(record, costs)
    waiting = waiting_for_cpus(record, compute)
    slowest_s, *others = sorted(
        (
            compute[rank]
            + waiting[rank]
            + factor * exchanges[rank]
            + handling.get(rank, 0.0)
            + rows.get(rank, 0.0)
            for rank in compute
        ),
        reverse=True,
    ) or (math.nan,)
    if costs is not None and others:
        slowest_s += mean_wait(costs.jitter_s * _messages(record), slowest_s - others[0])
    slowest_s += record.plan.lateness_s
    return slowest_s if costs is None else slowest_s + costs.start_cpu_s * slowness(record)


def slowness(record: Record) -> float:
    """Return seconds per second of CPU time on the busiest CPU of a run, by its forecasts; 0 if they are missing."""
    return max((1 / share for share in cpu_shares(record).values()), default=0.0)


def start_costs(records: Sequence[Record], row_s: float = 0.0) -> tuple[float, float]:
    """Return CPU seconds of ranks until their first iteration, and those for each row, robustly; oldest run first.

    row_s : those for each row if benchmarks have shown them, else fitted

    All ranks wait for the last, so a run shows its busiest CPU. Time before ranks look at the clock (interpreters), and
    after, counts as far as it grows with how busy that CPU is. (0, 0) if no run shows it.
    """
    told = []
    for record, weight in recent(records):
        assert record.outcome is not None
        seen, slow = record.outcome.observations, slowness(record)
        last = max(seen, key=lambda o: o.setup_s, default=None)
        if last is not None and last.setup_s > 0 and slow > 0:
            outside_s = record.outcome.observed_s - max(o.total_s for o in seen)
            rows_of = {a.rank: a.work for a in record.plan.assignments}
            told.append((last.setup_s / slow, rows_of[last.rank], slow, outside_s, weight))
    if not told:
        return 0.0, row_s
    inside, rows, slow_of, outside, weights = np.array(told).T
    ones = np.ones_like(rows)
    most_s = SLOWEST_FILL_S * max(float(r.workload.get("bytes_per_row", 0.0)) for r in records)
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


def message_costs(records: Sequence[Record]) -> MessageCosts | None:
    """Return the costs of each message to a rank, fitted to runs, oldest first; None if no run shows them.

    The rank that waited least, in the reduction at the end of an iteration and beyond what links explain, is the one
    the others waited for. Its own waiting, less the time for which its share of a CPU was used up, is the cost of its
    messages and of the reduction's way to the others and back. Where the next rank waited hardly longer, jitter may
    have made both wait (`apples.planning.jitter`); it is assumed as far as it explains the runs better. Two parts that
    the plan has priced are left out: waits for others' CPUs in short iterations, and waits because shares change
    (`Plan.waiting_s`; 0 in plans without horizon).
    """
    rows = []
    for record, weight in recent([r for r in records if _messages(r) > 0]):
        waited = _unexplained_waits(record)
        if len(waited) > 1:
            (least_s, share), (next_s, _), *_ = waited
            wait_s = max(least_s - record.plan.waiting_s, 0.0)
            each = np.array((wait_s, next_s - least_s)) / _messages(record)
            rows.append((1 / share, _slowest_link_s(record), *each, weight))
    if not rows:
        return None
    *inputs, waits, gaps, weights = np.array(rows).T
    return _fitted(np.stack(inputs, axis=1), waits, gaps, weights)


def _unexplained_waits(record: Record) -> list[tuple[float, float]]:
    """Return each rank's wait, seconds, that neither links nor a lack of CPU explain, and its CPU share; least first.

    Ranks without a share are missing.
    """
    assert record.outcome is not None
    seen, shares = record.outcome.observations, cpu_shares(record)
    priced = waiting_for_cpus(record, {o.rank: o.compute_s for o in seen})
    links = unhidden_exchanges(record)
    waited = []
    for o in seen:
        if o.rank in shares:
            least_s, _ = sweeps_s(o, shares[o.rank])
            exchange_s = max(o.communicate_s - links[o.rank], 0.0)
            without_cpu_s = priced.get(o.rank, 0.0) + least_s - o.compute_s
            waited.append((max(o.wait_s + exchange_s - without_cpu_s, 0.0), shares[o.rank]))
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


def sweeps_s(seen: RankObservation, share: float) -> tuple[float, float]:
    """Return the least and the most wall time that a rank's sweeps would have taken without waits, seconds.

    They are equal if its CPU time was measured. Never less than the sweeps took, nor more than all of its iterations.
    """
    whole_s = seen.compute_s + seen.communicate_s + seen.wait_s
    possible = (seen.compute_s * share, seen.compute_s) if seen.cpu_s is None else (seen.cpu_s, seen.cpu_s)
    least_s, most_s = (max(min(cpu_s / share, whole_s), seen.compute_s) for cpu_s in possible)
    return least_s, most_s


def _messages(record: Record) -> float:
    return float(record.workload.get("messages", 0.0))


def _handling(record: Record, costs: Costs | None) -> dict[int, float]:
    """Return each rank's seconds for its messages by these costs; unknown ranks are missing."""
    if costs is None or len(record.plan.assignments) < 2:
        return {}
    messages = _messages(record)
    reductions_s = costs.reduction_hops * messages * _slowest_link_s(record)
    return {
        rank: costs.message_cpu_s * messages / share + reductions_s
        for rank, share in cpu_shares(record).items()
    }


def _starting_rows(record: Record, costs: Costs) -> dict[int, float]:
    """Return each rank's seconds for its rows until its first iteration; ranks without a share are missing."""
    rows = {a.rank: a.work for a in record.plan.assignments}
    return {rank: costs.start_row_cpu_s * rows[rank] / share for rank, share in cpu_shares(record).items()}


def _slowest_link_s(record: Record) -> float:
    """Return the longest latency between neighbours of a run by its forecasts, seconds; 0 within one host."""
    hosts = [a.host for a in sorted(record.plan.assignments, key=lambda a: a.rank)]
    crossed = [ends for a, b in pairwise(hosts) if a != b for ends in ((a, b), (b, a))]
    return max(map(_latency_s, link_entries(record.snapshot, crossed)), default=0.0)


def _latency_s(link: object) -> float:
    value = link.get("latency_s") if isinstance(link, dict) else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def planned_compute(record: Record) -> dict[int, float]:
    """Return Comp_i of each rank as planned, seconds."""
    return {a.rank: a.compute_s for a in record.plan.assignments}


def unhidden_exchanges(record: Record) -> dict[int, float]:
    """Return the seconds of each rank's exchanges by links and messages alone."""
    plan, waiting = record.plan, waiting_for_cpus(record, planned_compute(record))
    alone = {a.rank: a.communicate_s - waiting[a.rank] for a in plan.assignments}
    # The rounding error of a difference of two equal numbers is no exchange.
    return {
        a.rank: alone[a.rank] / plan.communication if alone[a.rank] > 1e-9 * a.communicate_s else 0.0
        for a in plan.assignments
    }


def waiting_for_cpus(record: Record, compute: Mapping[int, float]) -> dict[int, float]:
    """Return each rank's wait, seconds, while others lack a CPU, for these compute times (`model.waiting_factor`)."""
    plan, shares = record.plan, cpu_shares(record)
    ranks = [a.rank for a in plan.assignments]
    rows = np.array([a.work for a in plan.assignments])
    own = np.array([compute.get(rank, 0.0) for rank in ranks])
    if plan.model == "paper" or len(shares) < len(ranks) or not (rows * own > 0).all():
        return dict.fromkeys(ranks, 0.0)
    iteration_s = rows.sum() / (rows / own).sum() / record.workload.get("iterations", 1)
    hosts, sharing = host_entries(record.snapshot), _sharing(record)
    absent = -np.log(
        [_conditions(hosts[a.host]).presence(shares[a.rank], sharing[a.host]) for a in plan.assignments]
    )
    waits = own * (waiting_factor(absent.sum() - absent, iteration_s) - 1)
    return dict(zip(ranks, waits.tolist(), strict=True))


def expected_compute(record: Record, costs: Costs) -> dict[int, float]:
    """Return Comp_i of each rank by these costs and the run's own forecasts.

    Ranks that cannot be priced are missing.
    """
    kinds = {host: entry["cpu_type"] for host, entry in host_entries(record.snapshot).items()}
    iterations = record.workload.get("iterations", 1)
    costs = costs.at(record.plan.typical_rows)
    sharing, shares = _sharing(record), cpu_shares(record)
    return {
        a.rank: a.work
        * iterations
        * costs.row_seconds(kinds[a.host], sharing[a.host], a.host)
        / shares[a.rank]
        for a in record.plan.assignments
        if a.rank in shares and kinds[a.host] in costs.seconds_per_row
    }


def _sharing(record: Record) -> dict[str, int]:
    """Return the number of ranks of each host."""
    return Counter(a.host for a in record.plan.assignments)


def cpu_shares(record: Record) -> dict[int, float]:
    """Return the CPU share of each rank by the forecasts of its run; ranks on hosts without one are missing."""
    hosts, sharing = host_entries(record.snapshot), _sharing(record)
    found = {
        a.rank: _share(hosts[a.host], sharing[a.host]) for a in record.plan.assignments if a.host in hosts
    }
    return {rank: share for rank, share in found.items() if share > 0}


def _share(entry: Mapping[str, object], ranks: int) -> float:
    """Return the CPU share of each of `ranks` ranks by the snapshot's entry for their host; 0 if it has none."""
    slots = entry.get("slots")
    return _conditions(entry).share(ranks, slots) if isinstance(slots, int) else 0.0


def _conditions(entry: Mapping[str, object]) -> Conditions:
    """Return the CPU conditions in the snapshot's entry for a host; an availability of 0 if it has none."""
    capacity, limit = _value(entry.get("capacity")), entry.get("cpu_limit")
    return Conditions(
        availability=Estimate(value=_value(entry.get("availability")) or 0.0),
        memory_bytes=Estimate(value=math.inf),
        capacity=None if capacity is None else Estimate(value=capacity),
        cpu_limit=float(limit) if isinstance(limit, int | float) else math.inf,
    )


def _value(estimate: object) -> float | None:
    value = estimate.get("value") if isinstance(estimate, dict) else None
    return float(value) if isinstance(value, int | float) else None
