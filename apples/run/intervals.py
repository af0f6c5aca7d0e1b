"""The interval of checkpoints: their cost against the work that a failure would lose. Pure.

Young's rule: with checkpoints that cost C seconds and failures every M seconds in the mean, the time between two
checkpoints that loses least is √(2·C·M) (J. W. Young, A first order approximation to the optimum checkpoint
interval, Comm. ACM 17(9), 1974). It holds where C is much less than M; otherwise checkpoints never take more than a
small share of the run.

M is that of the hosts of a plan together: their failure rates add up. The rate of a host is its own, with a prior:
(1 + losses) / (`PRIOR_S` + seconds in runs), the mean of a rate with a prior of one loss in `PRIOR_S`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from apples.costs.store import Launch

#: Prior of an unknown host: lost once a month. Assumed, for machines that are restarted by hand.
PRIOR_S = 30 * 86400.0

#: Largest share of the run that checkpoints may take, under any rule.
MOST_SHARE = 0.05

#: Newest runs with checkpoints that are used for their cost.
_NEWEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The interval of checkpoints.

    every : iterations from one to the next, None for none before the end
    size_bytes, cost_s : of one, predicted.  count : their number, one at the end included
    mtbf_s : mean time between failures of the hosts together; None if it did not matter
    why : how it was found, for the user
    """

    every: int | None
    size_bytes: float
    cost_s: float
    count: int
    mtbf_s: float | None
    why: str


def young_s(cost_s: float, mtbf_s: float) -> float:
    """Return seconds of work between two checkpoints that lose least in the mean."""
    return math.sqrt(2.0 * cost_s * mtbf_s)


def interval_s(cost_s: float, mtbf_s: float) -> float:
    """Return young's rule, but never so often that checkpoints alone take more than `MOST_SHARE`."""
    return max(young_s(cost_s, mtbf_s), cost_s * (1.0 - MOST_SHARE) / MOST_SHARE)


def in_iterations(work_s: float, one_s: float, left: int) -> int | None:
    """Return seconds of work as iterations of `one_s` each; None if fewer than these are `left`."""
    if one_s <= 0.0:
        return None
    # A little over a multiple is not worth another iteration of loss.
    every = max(1, round(work_s / one_s)) if math.isfinite(work_s) else left
    return every if every < left else None


def failure_rate(lost: int, seconds: float) -> float:
    """Return failures a second of a host with `lost` losses in `seconds` of runs."""
    return (1 + lost) / (PRIOR_S + seconds)


def mtbf_of(hosts: Iterable[str], rates: Mapping[str, float]) -> float:
    """Return mean time between failures of these hosts together, seconds; those not named have only the prior."""
    total = sum(rates.get(host, failure_rate(0, 0.0)) for host in hosts)
    return 1.0 / total if total > 0 else math.inf


def rates_from(launches: Iterable[Launch]) -> dict[str, float]:
    """Return failures a second of every host that took part in these launches."""
    lost: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for launch in launches:
        for host in launch.hosts:
            seconds[host] = seconds.get(host, 0.0) + launch.observed_s
            lost[host] = lost.get(host, 0) + (host in launch.lost)
    return {host: failure_rate(lost[host], seconds[host]) for host in seconds}


def cost_from(launches: Sequence[Launch], size_bytes: float) -> float | None:
    """Return seconds of a checkpoint of `size_bytes` from launches of similar runs; None if none has checkpoints.

    The cost of one is proportional to its bytes, and the median of the newest runs is taken.
    """
    costs = [
        launch.checkpoint_s * size_bytes / launch.checkpoint_bytes
        for launch in launches
        if launch.checkpoint_s is not None and launch.checkpoint_bytes > 0
    ]
    return median(costs[-_NEWEST:]) if costs else None
