"""Finished runs as evidence: the values that a prediction learns from, and their expected times by given costs.

A `TrainingRun` is derived once from the record of a run (`training_run`), without any costs, and stored beside it. It
is priced again with the present costs and the forecasts of its plan, so that a correction is not learnt twice.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np

from apples.model.grid import OFFERED, Conditions, Estimate
from apples.model.plan import Record
from apples.model.snapshotdocument import host_entries, link_entries
from apples.model.template import Costs
from apples.planning.model import waiting_factor
from nws.base.records import copied

#: Scatter assumed before runs show their own, as one more run would: a tenth of the time.
PRIOR_SPREAD = 0.1


class RankTimes(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The times that a rank observed, seconds; the fields are those of `RankObservation`."""

    compute_s: float
    communicate_s: float
    wait_s: float
    setup_s: float
    total_s: float
    cpu_s: float | None = None

    def sweeps_s(self, share: float) -> tuple[float, float]:
        """Return the least and the most wall time that the rank's sweeps would have taken without waits, seconds.

        They are equal if its CPU time was measured. Never less than the sweeps took, nor more than all of its
        iterations.
        """
        whole_s = self.compute_s + self.communicate_s + self.wait_s
        possible = (
            (self.compute_s * share, self.compute_s) if self.cpu_s is None else (self.cpu_s, self.cpu_s)
        )
        least_s, most_s = (max(min(cpu_s / share, whole_s), self.compute_s) for cpu_s in possible)
        return least_s, most_s


class TrainingRank(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One rank of a finished run.

    rows : whole rows of as many cells.  compute_s, exchange_s : as planned; the second by links and messages alone
    sharing : ranks of its host.  share : its CPU share by the forecasts of the run, 0 without one
    share_error : standard deviation of that, as a share of it
    absent : -log of the probability that its CPU is there for it.  times : as observed, None without a record
    """

    rank: int
    host: str
    cpu_type: str
    rows: float
    compute_s: float
    exchange_s: float
    sharing: int
    share: float
    absent: float
    times: RankTimes | None
    share_error: float = 0.0


class TrainingRun(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The values of a finished run that predictions are made from.

    id, started_at : of its record.  size, iterations, messages, bytes_per_row : its demands
    typical_rows : of a slab.  latency_s : longest latency between neighbours by its forecasts; 0 within one host
    wall_s, observed_s : from launch to end, with and without its checkpoints
    communication, lateness_s, waiting_s : of its plan.  offered : a CPU share of its hosts was only offered
    """

    id: str
    started_at: float
    size: int
    iterations: float
    messages: float
    bytes_per_row: float
    typical_rows: float
    latency_s: float
    wall_s: float
    observed_s: float
    communication: float
    lateness_s: float
    waiting_s: float
    offered: bool
    ranks: tuple[TrainingRank, ...]

    @property
    def observed_ranks(self) -> list[tuple[TrainingRank, RankTimes]]:
        """Return the ranks that left a record, with their times."""
        return [(one, one.times) for one in self.ranks if one.times is not None]

    @property
    def slowness(self) -> float:
        """Return seconds per second of CPU time on the busiest CPU, by forecasts; 0 if they are missing."""
        return max((1 / one.share for one in self.ranks if one.share > 0), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRuns:
    """Runs on slabs of one size, oldest first, and the benchmarks for their expected times.

    since : CPU type → time of its benchmark; earlier runs are no evidence on it
    """

    runs: Sequence[TrainingRun]
    benchmarks: Costs
    since: Mapping[str, float] | None = None


def finished(record: Record) -> bool:
    """Return whether a run did all its work in one launch: a resumed or repeated run differs from its plan."""
    outcome = record.outcome
    return record.whole and outcome is not None and outcome.finished and observed_s(record) > 0


def observed_s(record: Record) -> float:
    """Return the wall seconds of a run that has ended, without its checkpoints, which are priced separately."""
    assert record.outcome is not None
    checkpoints_s = max((seen.checkpoint_s for seen in record.outcome.observations), default=0.0)
    return record.outcome.observed_s - checkpoints_s


def training_run(record: Record) -> TrainingRun:
    """Return the evidence in the record of a finished run."""
    plan, outcome, work = record.plan, record.outcome, record.workload
    assert outcome is not None
    ranks, entries = _forecast_ranks(record), host_entries(record.snapshot)
    # The paper's model prices no waits, and neither can they be priced where a share is unknown.
    if plan.model == "paper" or any(one.share <= 0 for one in ranks):
        ranks = [msgspec.structs.replace(one, absent=0.0) for one in ranks]
    iterations = float(work.get("iterations", 1))
    run = copied(
        TrainingRun,
        plan,
        id=record.id,
        started_at=record.started_at,
        iterations=iterations,
        messages=float(work.get("messages", 0.0)),
        bytes_per_row=float(work.get("bytes_per_row", 0.0)),
        latency_s=_slowest_link_s(record),
        wall_s=outcome.observed_s,
        observed_s=observed_s(record),
        offered=any(_is_offered(entries.get(host, {})) for host in plan.hosts),
        ranks=tuple(ranks),
    )
    waits = waiting_for_cpus(run, {one.rank: one.compute_s for one in ranks})
    # The rounding error of a difference of two equal numbers is no exchange.
    exchanges = [one.exchange_s - waits[one.rank] for one in ranks]
    priced = [
        msgspec.structs.replace(
            one, exchange_s=alone_s / plan.communication if alone_s > 1e-9 * one.exchange_s else 0.0
        )
        for one, alone_s in zip(ranks, exchanges, strict=True)
    ]
    return msgspec.structs.replace(run, ranks=tuple(priced))


def _forecast_ranks(record: Record) -> list[TrainingRank]:
    """Return the ranks of a run with their CPUs by its forecasts; `exchange_s` contains waits for CPUs."""
    plan, entries = record.plan, host_entries(record.snapshot)
    sharing = Counter(a.host for a in plan.assignments)
    times = {} if record.outcome is None else {o.rank: o for o in record.outcome.observations}
    ranks = []
    for a in plan.assignments:
        entry, seen = entries.get(a.host, {}), times.get(a.rank)
        conditions, slots = _conditions(entry), entry.get("slots")
        share = conditions.share(sharing[a.host], slots) if isinstance(slots, int) else 0.0
        binding = conditions.binding(sharing[a.host], slots if isinstance(slots, int) else 1)
        ranks.append(
            copied(
                TrainingRank,
                a,
                cpu_type=str(entry.get("cpu_type", "")),
                rows=a.work,
                exchange_s=a.communicate_s,
                sharing=sharing[a.host],
                share=max(share, 0.0),
                absent=-math.log(conditions.presence(share, sharing[a.host])) if share > 0 else 0.0,
                times=None if seen is None else msgspec.convert(seen, RankTimes, from_attributes=True),
                share_error=binding.error / binding.value if binding.value > 0 else 0.0,
            )
        )
    return ranks


def _is_offered(entry: Mapping[str, object]) -> bool:
    share = entry.get("availability")
    return isinstance(share, dict) and share.get("method") == OFFERED


def finished_runs(records: Iterable[Record]) -> list[TrainingRun]:
    """Return the evidence of those runs that finished."""
    return [training_run(record) for record in records if finished(record)]


def _slowest_link_s(record: Record) -> float:
    """Return the longest latency between neighbours of a run by its forecasts, seconds; 0 within one host."""
    hosts = [a.host for a in sorted(record.plan.assignments, key=lambda a: a.rank)]
    crossed = [ends for a, b in pairwise(hosts) if a != b for ends in ((a, b), (b, a))]
    return max(map(_latency_s, link_entries(record.snapshot, crossed)), default=0.0)


def _latency_s(link: object) -> float:
    value = link.get("latency_s") if isinstance(link, dict) else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _conditions(entry: Mapping[str, object]) -> Conditions:
    """Return the CPU conditions in the snapshot's entry for a host; an availability of 0 if it has none."""
    limit = entry.get("cpu_limit")
    return Conditions(
        availability=_estimate(entry.get("availability")) or Estimate(value=0.0),
        memory_bytes=Estimate(value=math.inf),
        capacity=_estimate(entry.get("capacity")),
        cpu_limit=float(limit) if isinstance(limit, int | float) else math.inf,
    )


def _estimate(entry: object) -> Estimate | None:
    """Return the value in an entry of a snapshot with its error, 0 if that is unknown; None without a value."""
    value, error = (entry.get("value"), entry.get("error")) if isinstance(entry, dict) else (None, None)
    if not isinstance(value, int | float):
        return None
    known_error = float(error) if isinstance(error, int | float) else 0.0
    return Estimate(value=float(value), error=known_error if 0 <= known_error < math.inf else 0.0)


def without_overhead(run: TrainingRun, costs: Costs | None) -> float:
    """Return the predicted time of the slowest rank without the overhead, seconds.

    costs : prices of the computation; None takes the plan's own predictions
    """
    compute = {one.rank: one.compute_s for one in run.ranks}
    if costs is None:
        costs = Costs(seconds_per_row={}, communication=run.communication)
    else:
        compute |= expected_compute(run, costs)
    waiting = waiting_for_cpus(run, compute)
    handled = run.messages if len(run.ranks) > 1 else 0.0
    slowest_s = max(
        (
            compute[one.rank]
            + waiting[one.rank]
            + costs.communication * one.exchange_s
            + (_cpu_s(one, costs, handled) / one.share if one.share > 0 else 0.0)
            + (costs.reduction_hops * handled * run.latency_s if one.share > 0 else 0.0)
            for one in run.ranks
        ),
        default=math.nan,
    )
    return slowest_s + run.lateness_s + costs.start_cpu_s * run.slowness


def _cpu_s(one: TrainingRank, costs: Costs, messages: float) -> float:
    """Return a rank's CPU seconds beside its sweeps: for its messages, and for its rows until its first iteration."""
    return costs.message_cpu_s * messages + costs.start_row_cpu_s * one.rows


def waiting_for_cpus(run: TrainingRun, compute: Mapping[int, float]) -> dict[int, float]:
    """Return each rank's wait, seconds, while others lack a CPU, for these compute times (`model.waiting_factor`)."""
    rows, absent = np.array([(one.rows, one.absent) for one in run.ranks]).reshape(-1, 2).T
    computing = np.array([compute.get(one.rank, 0.0) for one in run.ranks])
    waits = np.zeros(len(rows))
    if absent.any() and (rows * computing > 0).all() and run.iterations > 0:
        iteration_s = rows.sum() / (rows / computing).sum() / run.iterations
        waits = computing * (waiting_factor(absent.sum() - absent, iteration_s) - 1)
    return dict(zip((one.rank for one in run.ranks), waits.tolist(), strict=True))


def unexplained_waits(run: TrainingRun) -> list[tuple[float, float]]:
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


def expected_compute(run: TrainingRun, costs: Costs) -> dict[int, float]:
    """Return Comp_i of each rank by these costs and the run's own forecasts.

    Ranks that cannot be priced are missing.
    """
    costs = costs.at(run.typical_rows)
    return {
        one.rank: one.rows
        * run.iterations
        * costs.row_seconds(one.cpu_type, one.sharing, one.host)
        / one.share
        for one in run.ranks
        if one.share > 0 and one.cpu_type in costs.seconds_per_row
    }
