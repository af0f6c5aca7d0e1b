"""How often to write a checkpoint: its cost against the work that a failure would lose. Pure.

Young's rule: with checkpoints that cost C seconds and failures every M seconds in the mean, the time between two
checkpoints that loses least is √(2·C·M) (J. W. Young, A first order approximation to the optimum checkpoint
interval, Comm. ACM 17(9), 1974). It holds where C is much less than M; where it is not, checkpoints that take more
than a small share of the run are not written more often for it.

M is that of the hosts of a plan together: their failure rates add up. The rate of a host is what it did, with a prior:
(1 + losses) / (`PRIOR_S` + seconds in runs), the mean of a rate that one loss in `PRIOR_S` was believed of before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from apples.model.plan import Attempt, Outcome, Record

#: Believed of a host of which nothing is known: lost once a month. Assumed, for machines that people restart.
PRIOR_S = 30 * 86400.0

#: Largest share of the run that checkpoints may take, whatever the rule says.
MOST_SHARE = 0.05

#: Runs with checkpoints that say what one costs.
_NEWEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """When to write checkpoints.

    every : iterations from one to the next, None for none on the way
    size_bytes, cost_s : of one, predicted.  count : how many there will be, one at the end included
    mtbf_s : mean time between failures of the hosts together; None where it did not matter
    why : how it was found, for people
    """

    every: int | None
    size_bytes: float
    cost_s: float
    count: int
    mtbf_s: float | None
    why: str


def young_s(cost_s: float, mtbf_s: float) -> float:
    """Seconds of work between two checkpoints that lose least in the mean."""
    return math.sqrt(2.0 * cost_s * mtbf_s)


def lost_share(work_s: float, cost_s: float, mtbf_s: float) -> float:
    """Share of the time that checkpoints every `work_s` of work and failures every `mtbf_s` take, to first order."""
    return cost_s / work_s + work_s / (2.0 * mtbf_s)


def interval_s(cost_s: float, mtbf_s: float) -> float:
    """Young's rule, but never so often that checkpoints alone take more than `MOST_SHARE`."""
    return max(young_s(cost_s, mtbf_s), cost_s * (1.0 - MOST_SHARE) / MOST_SHARE)


def in_iterations(work_s: float, one_s: float, left: int) -> int | None:
    """So many seconds of work as iterations of `one_s` each; None where fewer than these are `left`."""
    if one_s <= 0.0:
        return None
    # A little over a multiple is not worth another iteration of loss.
    every = max(1, round(work_s / one_s)) if math.isfinite(work_s) else left
    return every if every < left else None


def failure_rate(lost: int, seconds: float) -> float:
    """Failures a second of a host that was lost so often in so many seconds of runs."""
    return (1 + lost) / (PRIOR_S + seconds)


def mtbf_of(hosts: Iterable[str], rates: Mapping[str, float]) -> float:
    """Mean time between failures of these hosts together, seconds; those not named have only the prior."""
    total = sum(rates.get(host, failure_rate(0, 0.0)) for host in hosts)
    return 1.0 / total if total > 0 else math.inf


def rates_from(records: Iterable[Record]) -> dict[str, float]:
    """Failures a second of every host that took part in these runs."""
    lost: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for record in records:
        for plan_hosts, outcome in _launches(record):
            for host in plan_hosts:
                seconds[host] = seconds.get(host, 0.0) + outcome.observed_s
                lost[host] = lost.get(host, 0) + (host in outcome.lost)
    return {host: failure_rate(lost[host], seconds[host]) for host in seconds}


def cost_from(records: Sequence[Record], size_bytes: float) -> float | None:
    """Seconds of a checkpoint of so many bytes by what runs like it recorded; None where none has.

    The cost of one goes with its bytes, and the median of the newest runs is taken.
    """
    found = []
    for record in records:
        for attempt in record.attempts:
            one_s = _cost_in(attempt)
            kept_bytes = record.options.get("checkpoint_bytes")
            if one_s is not None and isinstance(kept_bytes, int | float) and kept_bytes > 0:
                found.append(one_s * size_bytes / kept_bytes)
    if not found:
        return None
    return median(found[-_NEWEST:])


def _cost_in(attempt: Attempt) -> float | None:
    seen = [o for o in attempt.outcome.observations if o.checkpoints > 0]
    return max((o.checkpoint_s / o.checkpoints for o in seen), default=None)


def _launches(record: Record) -> list[tuple[tuple[str, ...], Outcome]]:
    if record.attempts:
        return [(a.plan.hosts, a.outcome) for a in record.attempts]
    return [] if record.outcome is None else [(record.plan.hosts, record.outcome)]
