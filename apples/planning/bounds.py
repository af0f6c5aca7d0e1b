"""Bounds of the makespan: the forecasts' errors carried through the model into quantiles.

A rank's finish falls when its host's CPU share rises, so P(T_i ≤ t) is the probability that the share is at least
the share needed to finish by t. Errors of different hosts are taken as independent and normal. The makespan is the
largest T_i, so its distribution is the product of these. The overhead's error is common to all ranks and is joined as
a root of squares. Goes beyond the paper, which predicts a single number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from apples.model.grid import FloatArray
from apples.planning.candidates import CandidateSchedule
from apples.planning.chains import Chains
from apples.planning.host_table import LEAST_SHARE
from apples.planning.model import rank_lines
from apples.planning.options import PlanningOptions
from apples.planning.problem import IntArray, Problem

#: Quantiles a plan reports: one run in ten ends before `LOW`, one in ten after `HIGH`.
LOW, HIGH = 0.1, 0.9
_BISECTIONS = 50
#: Smaller errors of a CPU share count as zero; dividing by them would overflow.
_SURE = 1e-12
#: Standard deviations beyond which a normal variable's probability is 1 in double precision.
_CERTAIN = 9.0


@dataclass(frozen=True, slots=True, eq=False)
class UncertainRanks:
    """Ranks of a schedule with uncertain costs, float64[n] each.

    Seconds at a whole CPU, CPU share and its error, fixed seconds and their error.
    host : int64[n], host of each rank; ranks of one host share its error
    """

    work: FloatArray
    share: FloatArray
    share_error: FloatArray
    fixed: FloatArray
    fixed_error: FloatArray
    host: IntArray

    def compute(self) -> FloatArray:
        """Return Comp_i if every forecast is exact, float64[n] seconds."""
        return self.work / self.share

    def expected(self) -> float:
        """Return the makespan in seconds if every forecast is exact."""
        return float((self.fixed + self.compute()).max())

    def quantile(self, q: float) -> float:
        """Return the seconds within which the slowest rank ends with probability `q`, 0 < q < 1."""
        if not (self.share_error.any() or self.fixed_error.any()):
            return self.expected()
        low, high = (
            float(self.fixed.min()),
            float((self.fixed + self.work / np.minimum(self.share, LEAST_SHARE)).max()),
        )
        low -= 6 * float(self.fixed_error.max())
        high += 6 * float(self.fixed_error.max())
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if self._probability(middle) < q:
                low = middle
            else:
                high = middle
        return high

    def _probability(self, t: float) -> float:
        """Return P(makespan ≤ t). Hosts are independent; the ranks of one host are as late as its latest."""
        left = t - self.fixed
        if (left <= 0).any():
            return 0.0
        # d T_i / d share = -work / share², so an error of the fixed part acts like one of the share.
        needed = self.work / left
        error = np.hypot(self.share_error, self.fixed_error * needed / left)
        sure = error < _SURE
        z = (self.share - needed) / np.where(sure, 1.0, error)
        z[sure] = np.where(self.share[sure] >= needed[sure] * (1 - 1e-12), 40.0, -40.0)
        latest = np.full(int(self.host.max()) + 1, np.inf)
        np.minimum.at(latest, self.host, z)
        doubtful = latest[latest < _CERTAIN].tolist()
        return math.exp(sum(math.log(max(_normal(value), 1e-300)) for value in doubtful))


_normal: Callable[[float], float] = NormalDist().cdf


def uncertain_ranks(
    problem: Problem, schedule: CandidateSchedule, options: PlanningOptions
) -> UncertainRanks:
    """Return the ranks of a schedule with the errors of their forecasts."""
    chains = Chains.of([schedule.chain])
    lines = rank_lines(problem, chains, options)
    hosts = problem.host_of[schedule.chain]
    sharing = chains.ranks_on_host(problem)
    share = problem.share[hosts, sharing]
    rows = schedule.rows.astype(np.float64)
    left = np.concatenate(([0.0], problem.link_errors.between(hosts[1:], hosts[:-1])))
    right = np.concatenate((problem.link_errors.between(hosts[:-1], hosts[1:]), [0.0]))
    return UncertainRanks(
        work=(lines.seconds(rows) - lines.fixed) * problem.priced_share[hosts, sharing],
        share=share,
        share_error=problem.share_error[hosts, sharing],
        fixed=lines.fixed,
        fixed_error=np.maximum(left, right),
        host=hosts,
    )


def low_expected_high(ranks: UncertainRanks, overhead_error_s: float) -> tuple[float, float, float]:
    """Return (low, expected, high) seconds of a schedule; low ≤ expected ≤ high."""
    expected = ranks.expected()
    spread = NormalDist().inv_cdf(HIGH) * overhead_error_s
    low = expected - math.hypot(max(expected - ranks.quantile(LOW), 0.0), spread)
    high = expected + math.hypot(max(ranks.quantile(HIGH) - expected, 0.0), spread)
    return max(low, 0.0), expected, high
