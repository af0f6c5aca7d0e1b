"""Finished runs as evidence: which count, how much, and what they should have taken by given costs.

A run is priced again with the costs in hand and the forecasts it was planned with, so that what was learnt before is
not learnt twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from apples.grid import Conditions, Estimate, FloatArray
from apples.plan import Record
from apples.template import Costs

#: Runs after which a run counts half.
HALF_LIFE_RUNS = 30.0

#: Scatter assumed before runs show their own, as one more run would: a tenth of the time.
PRIOR_SPREAD = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """Runs on slabs of one size, oldest first, and the benchmarks that tell what they should have taken.

    since : CPU type → when its benchmark was measured; earlier runs say nothing of it
    """

    records: Sequence[Record]
    benchmarks: Costs
    since: Mapping[str, float] | None = None


def finished(record: Record) -> bool:
    """Whether a run did all its work, and in one go: what was resumed or tried again is not what was planned."""
    outcome = record.outcome
    return record.whole and outcome is not None and outcome.finished and observed_s(record) > 0


def observed_s(record: Record) -> float:
    """Wall seconds of a run that has ended, but for its checkpoints: those are priced by themselves."""
    assert record.outcome is not None
    kept_s = max((seen.checkpoint_s for seen in record.outcome.observations), default=0.0)
    return record.outcome.observed_s - kept_s


def recency(count: int) -> FloatArray:
    """Weights of runs, oldest first, float64[count]; the newest counts 1."""
    weights: FloatArray = np.exp2(-np.arange(count - 1.0, -1.0, -1.0) / HALF_LIFE_RUNS)
    return weights


def without_overhead(record: Record, costs: Costs | None) -> float:
    """Predicted time of the slowest rank but for the overhead, seconds."""
    priced = {} if costs is None else expected_compute(record, costs)
    factor = record.plan.communication if costs is None else costs.communication
    exchanges = unhidden_exchanges(record)
    return max(
        (priced.get(a.rank, a.compute_s) + factor * exchanges[a.rank] for a in record.plan.assignments),
        default=math.nan,
    )


def unhidden_exchanges(record: Record) -> dict[int, float]:
    """What each rank's exchanges would have taken by links and messages alone, seconds."""
    plan = record.plan
    return {a.rank: a.communicate_s / plan.communication for a in plan.assignments}


def expected_compute(record: Record, costs: Costs) -> dict[int, float]:
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
                a.rows * iterations * costs.row_seconds(entry["cpu_type"], sharing[a.host], a.host) / share
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
