"""Distribution of the makespan: the forecasts' quantiles carried through the model.

A rank's finish falls when its host's CPU share rises, so P(T_i ≤ t) is the probability that the share is at least
the share needed to finish by t. Between the quantiles of a share, and beyond them, its logarithm is linear in the
normal score. Different hosts are taken as independent. The makespan is the largest T_i, so its distribution is the
product of these, and its expectation is later than the latest expected rank. Shares also change during a run, whose
ranks wait for the slowest of each moment (`UncertainRanks.distribution`). The overhead's error is common to all
ranks and is joined as a root of squares, below the expectation of logarithms: no run takes no time. Goes beyond the
paper, which predicts a single number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from apples.model.grid import LEAST_SHARE, FloatArray
from apples.planning.candidates import CandidateSchedule
from apples.planning.chains import Chains
from apples.planning.model import rank_lines
from apples.planning.options import Horizon, PlanningOptions
from apples.planning.problem import IntArray, Problem
from nws.series import SCORES

#: Quantiles a plan reports: one run in ten ends before `LOW`, one in ten after `HIGH`.
LOW, HIGH = 0.1, 0.9
#: Instants at which the distribution is computed: first all over its range, then at these levels of the last result.
_POINTS, _REFINEMENTS = 64, 2
_MOST_SCORE = 3.5
_LEVELS = np.array([NormalDist().cdf(z) for z in np.linspace(-_MOST_SCORE, _MOST_SCORE, _POINTS).tolist()])
#: Least standard deviation of a share's logarithm, so that every distribution is invertible.
_LEAST_SPREAD = 1e-9
#: Standard deviations beyond which a normal variable's probability is 0 or 1 in double precision.
_CERTAIN = 9.0
#: Seconds that count as none.
_SOONEST = 1e-12
_SCORE = np.array(SCORES)
_Z = np.linspace(-_CERTAIN, _CERTAIN, 1801)
#: Logarithm of the normal distribution at `_Z`; erfc keeps the digits of its lower tail.
_LOG_NORMAL = np.log(np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in _Z.tolist()]))


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Distribution of a time. t : float64[k] seconds, rising.  probability : float64[k], that it is at most t"""

    t: FloatArray
    probability: FloatArray

    def quantile(self, q: float) -> float:
        """Return the time that is not exceeded with probability `q`."""
        return float(np.interp(q, self.probability, self.t))

    def mean(self) -> float:
        """Return the expectation."""
        late = 1.0 - self.probability
        return float(self.t[0] + ((late[1:] + late[:-1]) / 2 * np.diff(self.t)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class UncertainRanks:
    """Ranks of a schedule with uncertain costs, float64[n] each.

    Seconds at a whole CPU, CPU share, fixed seconds and their error.
    quantiles : float64[shares, n], of the mean CPU share during the run at `nws.series.SHARES`
    variation : standard deviation of the share during the run, as a share of its mean
    host : int64[n], host of each rank; ranks of one host are late together
    """

    work: FloatArray
    share: FloatArray
    quantiles: FloatArray
    variation: FloatArray
    fixed: FloatArray
    fixed_error: FloatArray
    host: IntArray

    def compute(self) -> FloatArray:
        """Return Comp_i if every forecast is exact, float64[n] seconds."""
        return self.work / self.share

    def makespan(self) -> float:
        """Return the makespan in seconds if every forecast is exact."""
        return float((self.fixed + self.compute()).max())

    def distribution(self) -> Distribution:
        """Return the distribution of the makespan.

        Ranks that wait for each other in every iteration pay the slowest of each moment: the makespan is the mean of
        the largest times of all moments. That mean varies less than a moment does, as the mean share of a run varies
        less than that of a moment. Where moments differ most, each host is the slowest in some of them, and an error of
        its mean share counts only there.
        """
        if not self.variation.any() or int(self.host.min()) == int(self.host.max()):
            return self._distribution()
        logs, within = np.log(self.quantiles), np.log1p(self.variation**2)
        middle = logs[len(logs) // 2]
        apart = np.hypot(logs - middle, np.sqrt(within) * _SCORE[:, None])
        # the slowness, 1 / share, keeps its mean
        shares = np.exp(middle + within / 2 + np.sign(_SCORE)[:, None] * apart)
        of_moment = replace(self, quantiles=shares)
        found = of_moment._distribution()
        errors = ((logs[-1] - logs[0]) / (_SCORE[-1] - _SCORE[0])) ** 2
        # as if all of an error were chance, which moments average
        by_chance = float(errors.mean() / (errors.mean() + within.mean()))
        # as if all of it were the level of a host's share, which counts while that host is the slowest
        ends = np.log(np.maximum(found.t[[0, -1]], _SOONEST))
        moment = ((ends[1] - ends[0]) / (2 * _MOST_SCORE)) ** 2
        slowest = of_moment._slowest(found)[self.host]
        by_level = float((slowest**2 * errors / np.bincount(self.host)[self.host]).sum())
        by_level = min(by_level / max(moment, 1e-12), by_chance)
        # Half of an error is taken as the one and half as the other where shares change during the run.
        steadier = math.sqrt((by_chance * (1 + by_chance) + by_level * (1 - by_chance)) / 2)
        mean = found.mean()
        return replace(found, t=mean + (found.t - mean) * steadier)

    def _slowest(self, found: Distribution) -> FloatArray:
        """Return the probability that each host is the slowest, float64[hosts]. found : of the makespan"""
        middle = (found.probability[1:] + found.probability[:-1]) / 2
        rise: FloatArray = np.diff(self._log_probability(found.t), axis=0)
        return middle @ rise

    def _distribution(self) -> Distribution:
        """Return the distribution of the makespan if shares do not change during the run."""
        if not (np.ptp(self.quantiles, axis=0).any() or self.fixed_error.any()):
            return Distribution(np.array([self.makespan()]), np.ones(1))
        reach = 6 * float(self.fixed_error.max())
        soonest = float((self.fixed + self.work).max()) - reach
        latest = float((self.fixed + self.work / np.minimum(self.quantiles[0], LEAST_SHARE)).max()) + reach
        first = max(float(self.fixed.min()) - reach, 0.0)
        t = first + np.geomspace(max(soonest - first, 1e-6 * latest), latest - first, _POINTS)
        probability = self._probability(t)
        for _ in range(_REFINEMENTS):
            t = np.interp(_LEVELS, probability, t)
            probability = self._probability(t)
        return Distribution(t, probability)

    def quantile(self, q: float) -> float:
        """Return the seconds within which the slowest rank ends with probability `q`, 0 < q < 1."""
        return self.distribution().quantile(q)

    def _probability(self, t: FloatArray) -> FloatArray:
        """Return P(makespan ≤ t), float64[k] → float64[k]; the ranks of one host are as late as its latest."""
        found: FloatArray = np.exp(self._log_probability(t).sum(axis=1))
        return found

    def _log_probability(self, t: FloatArray) -> FloatArray:
        """Return the logarithm of P(all ranks of a host end by t), float64[k] → float64[k, hosts]."""
        left = np.maximum(t[:, None] - self.fixed, _SOONEST)
        needed = np.log(np.maximum(self.work, 1e-12) / left)
        knots = np.log(self.quantiles) + _LEAST_SPREAD * _SCORE[:, None]
        at = np.clip((knots[:, None, :] <= needed).sum(axis=0) - 1, 0, len(knots) - 2)
        rank = np.arange(len(self.work))
        # standard deviation of the logarithm of the share, around the share that is needed
        spread = (knots[at + 1, rank] - knots[at, rank]) / (_SCORE[at + 1] - _SCORE[at])
        score = _SCORE[at] + (needed - knots[at, rank]) / spread
        # an error of the fixed part acts like one of the share: d ln needed = d fixed / left
        z = -score * spread / np.hypot(spread, self.fixed_error / left)
        latest = np.full((int(self.host.max()) + 1, len(t)), _CERTAIN)
        np.minimum.at(latest, self.host, z.T)
        found: FloatArray = np.interp(latest, _Z, _LOG_NORMAL).T
        return found


def uncertain_ranks(
    problem: Problem, schedule: CandidateSchedule, options: PlanningOptions
) -> UncertainRanks:
    """Return the ranks of a schedule with the quantiles of their CPU shares."""
    chains = Chains.of([schedule.chain])
    lines = rank_lines(problem, chains, options)
    hosts = problem.host_of[schedule.chain]
    sharing = chains.ranks_on_host(problem)
    rows = schedule.rows.astype(np.float64)
    left = np.concatenate(([0.0], problem.link_errors.between(hosts[1:], hosts[:-1])))
    right = np.concatenate((problem.link_errors.between(hosts[:-1], hosts[1:]), [0.0]))
    return UncertainRanks(
        work=(lines.seconds(rows) - lines.fixed) * problem.priced_share[hosts, sharing],
        share=problem.share[hosts, sharing],
        quantiles=problem.share_quantiles[:, hosts, sharing],
        variation=problem.variation[hosts, sharing],
        fixed=lines.fixed,
        fixed_error=np.maximum(left, right),
        host=hosts,
    )


def low_expected_high(
    ranks: UncertainRanks, overhead_error_s: float, horizon: Horizon = "run"
) -> tuple[float, float, float]:
    """Return (low, expected, high) seconds of a schedule; low ≤ expected ≤ high.

    horizon : with "next", the expected time is that if every forecast is exact
    """
    found, expected = ranks.distribution(), ranks.makespan()
    if horizon == "run":
        # The expected maximum is never less than the largest expectation.
        expected = max(found.mean(), expected)
    spread = NormalDist().inv_cdf(HIGH) * overhead_error_s
    high = expected + math.hypot(max(found.quantile(HIGH) - expected, 0.0), spread)
    # A time is never 0, so the error divides below by what it multiplies by above.
    sooner = math.log(expected / max(min(found.quantile(LOW), expected), _SOONEST)) if expected > 0 else 0.0
    low = expected * math.exp(-math.hypot(sooner, math.log1p(spread / max(expected, _SOONEST))))
    return low, expected, high
