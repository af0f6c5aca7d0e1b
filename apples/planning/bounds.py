"""Distribution of the makespan: the forecasts' quantiles carried through the model.

A rank's finish falls when its host's CPU share rises, so P(T_i ≤ t) is the probability that the share is at least
the share needed to finish by t. Between the quantiles of a share, and beyond them, its logarithm is linear in the
normal score. Exchanges over links that are not known well add an error of their own (`UncertainRanks._times`).
Different hosts are taken as independent. The makespan is the largest T_i, so its distribution is the product of these,
and its expectation is later than the latest expected rank. Shares also change during a run, whose ranks wait for the
slowest of each moment (`UncertainRanks.distribution`). The overhead's error is common to all ranks and is joined as a
root of squares; below the expectation it divides by what it multiplies by above, so the low bound is more than 0. Goes
beyond the paper, which predicts a single number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TypedDict

import numpy as np

from apples.model.grid import LEAST_SHARE, FloatArray
from apples.planning.candidates import CandidateSchedule
from apples.planning.chains import Chains
from apples.planning.model import rank_lines
from apples.planning.planningoptions import Horizon, PlanningOptions
from apples.planning.problem import BoolArray, IntArray, Problem
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
#: Least time, seconds, so that logarithms exist.
_SOONEST = 1e-12
_SCORE = np.array(SCORES)
_Z = np.linspace(-_CERTAIN, _CERTAIN, 1801)
#: Standard scores at which the time of a rank is computed; between them it is taken as linear.
_GRID = np.linspace(-_CERTAIN, _CERTAIN, 129)
#: Probability of each of these scores.
_DENSITY = np.exp(-(_GRID**2) / 2) / np.exp(-(_GRID**2) / 2).sum()
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
    guessed : bool[n], whether nothing is known about the errors of the share
    host : int64[n], host of each rank; ranks of one host are late together
    row_error : standard deviation of the logarithm of `work`, all ranks together
    """

    work: FloatArray
    share: FloatArray
    quantiles: FloatArray
    variation: FloatArray
    guessed: BoolArray
    fixed: FloatArray
    fixed_error: FloatArray
    host: IntArray
    row_error: float = 0.0

    def compute(self) -> FloatArray:
        """Return Comp_i if every forecast is exact, float64[n] seconds."""
        return self.work / self.share

    def makespan(self) -> float:
        """Return the makespan in seconds if every forecast is exact."""
        return float((self.fixed + self.compute()).max())

    def known(self) -> UncertainRanks:
        """Return the ranks without the errors of shares about which nothing is known."""
        if not self.guessed.any():
            return self
        return replace(self, quantiles=np.where(self.guessed, self.share, self.quantiles))

    @property
    def changes(self) -> bool:
        """Return whether another rank may be the slowest at another moment: shares change, on several hosts."""
        return bool(self.variation.any()) and int(self.host.min()) < int(self.host.max())

    def distribution(self) -> Distribution:
        """Return the distribution of the makespan.

        Ranks that wait for each other in every iteration pay the slowest of each moment: the makespan is the mean of
        the largest times of all moments. That mean varies less than a moment does, as the mean share of a run varies
        less than that of a moment. Where moments differ most, each host is the slowest in some of them, and an error of
        its mean share counts only there.
        """
        if not self.changes:
            return self.steady()
        logs, within = np.log(self.quantiles), np.log1p(self.variation**2)
        middle = logs[len(logs) // 2]
        apart = np.hypot(logs - middle, np.sqrt(within) * _SCORE[:, None])
        # the slowness, 1 / share, keeps its mean
        shares = np.exp(middle + within / 2 + np.sign(_SCORE)[:, None] * apart)
        of_moment = replace(self, quantiles=shares)
        steady = of_moment.steady()
        errors = ((logs[-1] - logs[0]) / (_SCORE[-1] - _SCORE[0])) ** 2
        # as if all of an error were chance, which moments average
        by_chance = float(errors.mean() / (errors.mean() + within.mean()))
        # as if all of it were the level of a host's share, which counts while that host is the slowest
        ends = np.log(np.maximum(steady.t[[0, -1]], _SOONEST))
        moment = ((ends[1] - ends[0]) / (2 * _MOST_SCORE)) ** 2
        slowest = of_moment._slowest(steady)[self.host]
        by_level = float((slowest**2 * errors / np.bincount(self.host)[self.host]).sum())
        by_level = min(by_level / max(moment, 1e-12), by_chance)
        # Half of an error is taken as the one and half as the other where shares change during the run.
        steadier = math.sqrt((by_chance * (1 + by_chance) + by_level * (1 - by_chance)) / 2)
        mean = steady.mean()
        return replace(steady, t=mean + (steady.t - mean) * steadier)

    def _slowest(self, distribution: Distribution) -> FloatArray:
        """Return the probability that each host is the slowest, float64[hosts]. found : of the makespan"""
        middle = (distribution.probability[1:] + distribution.probability[:-1]) / 2
        rise: FloatArray = np.diff(self._log_probability(distribution.t, self._times()), axis=0)
        return middle @ rise

    def steady(self) -> Distribution:
        """Return the distribution of the makespan if shares stay at their means during the run."""
        if not (np.ptp(self.quantiles, axis=0).any() or self.fixed_error.any()):
            return Distribution(np.array([self.makespan()]), np.ones(1))
        reach = 6 * float(self.fixed_error.max())
        soonest = float((self.fixed + self.work).max()) - reach
        latest = float((self.fixed + self.work / np.minimum(self.quantiles[0], LEAST_SHARE)).max()) + reach
        first = max(float(self.fixed.min()) - reach, 0.0)
        t = first + np.geomspace(max(soonest - first, 1e-6 * latest), latest - first, _POINTS)
        times = self._times()
        probability = self._probability(t, times)
        for _ in range(_REFINEMENTS):
            t = np.interp(_LEVELS, probability, t)
            probability = self._probability(t, times)
        return Distribution(t, probability)

    def _times(self) -> FloatArray:
        """Return the time of each rank at each of `_GRID`, rising, float64[scores, n] seconds.

        Share and fixed seconds move together, in proportion to what each contributes to the error of the time. The
        fixed seconds are lognormal around their mean, because no exchange takes less than nothing.
        """
        logs = np.log(self.quantiles) + _LEAST_SPREAD * _SCORE[:, None]
        slopes = np.diff(logs, axis=0) / np.diff(_SCORE)[:, None]
        rank, least = np.arange(len(self.work)), np.minimum(self.quantiles[0], LEAST_SHARE)

        def computing(scores: FloatArray) -> FloatArray:
            at = np.clip(np.searchsorted(_SCORE, scores) - 1, 0, len(slopes) - 1)
            share = np.exp(logs[at, rank] + (scores - _SCORE[at]) * slopes[at, rank])
            seconds: FloatArray = self.work / np.maximum(share, least)
            return seconds

        scores = np.repeat(_GRID[:, None], len(rank), axis=1)
        times: FloatArray = self.fixed + computing(-scores)
        if not self.fixed_error.any():
            return times
        expected = _DENSITY @ times
        by_share = self.work / self.share * (logs[-1] - logs[0]) / (_SCORE[-1] - _SCORE[0])
        part = self.fixed_error / np.maximum(np.hypot(by_share, self.fixed_error), _SOONEST)
        largest = np.maximum(np.maximum(self.fixed, self.fixed_error), _SOONEST)
        within = np.log1p((self.fixed_error / largest) ** 2)
        off = np.exp(np.sqrt(within) * part * scores - within / 2) - 1
        times = np.maximum(self.fixed + largest * off, 0.0) + computing(-scores * np.sqrt(1 - part**2))
        # errors that partly cancel leave the mean as it is
        times *= expected / np.maximum(_DENSITY @ times, _SOONEST)
        return times

    def quantile(self, q: float) -> float:
        """Return the seconds within which the slowest rank ends with probability `q`, 0 < q < 1."""
        return self.distribution().quantile(q)

    def _probability(self, t: FloatArray, times: FloatArray) -> FloatArray:
        """Return P(makespan ≤ t), float64[k] → float64[k]; the ranks of one host are as late as its latest."""
        probability: FloatArray = np.exp(self._log_probability(t, times).sum(axis=1))
        return probability

    def _log_probability(self, t: FloatArray, times: FloatArray) -> FloatArray:
        """Return the logarithm of P(all ranks of a host end by t), float64[k] → float64[k, hosts]."""
        latest = np.full((int(self.host.max()) + 1, len(t)), _CERTAIN)
        for host, of_rank in zip(self.host.tolist(), times.T, strict=True):
            np.minimum(latest[host], np.interp(t, of_rank, _GRID), out=latest[host])
        logarithm: FloatArray = np.interp(latest, _Z, _LOG_NORMAL).T
        return logarithm


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
        guessed=problem.guessed[hosts, sharing],
        fixed=lines.fixed,
        fixed_error=np.maximum(left, right),
        host=hosts,
        row_error=problem.row_error,
    )


class Prediction(TypedDict):
    """Times of a plan in seconds, as `apples.model.plan.Plan` describes them; low_s ≤ predicted_s ≤ high_s."""

    predicted_s: float
    low_s: float
    high_s: float
    lateness_s: float
    waiting_s: float


def predict(ranks: UncertainRanks, overhead_error_s: float, horizon: Horizon = "run") -> Prediction:
    """Return the times of a schedule.

    An error about which nothing is known makes the range wide. The expectation is without it: a mean over guesses would
    be later than any run of hosts whose shares turn out to be steady.

    horizon : with "next", the expected time is that if every forecast is exact
    """
    distribution, sure = ranks.distribution(), ranks.makespan()
    expected, waiting = sure, 0.0
    if horizon == "run":
        # The expected maximum is never less than the largest expectation.
        known = ranks.known()
        expected = max((distribution if known is ranks else known.distribution()).mean(), sure)
        if ranks.changes:
            waiting = max(expected - max(known.steady().mean(), sure), 0.0)
    spread = NormalDist().inv_cdf(HIGH) * math.hypot(
        overhead_error_s, ranks.row_error * float(ranks.compute().max())
    )
    high = expected + math.hypot(max(distribution.quantile(HIGH) - expected, 0.0), spread)
    sooner = (
        math.log(expected / max(min(distribution.quantile(LOW), expected), _SOONEST)) if expected > 0 else 0.0
    )
    low = expected * math.exp(-math.hypot(sooner, math.log1p(spread / max(expected, _SOONEST))))
    return Prediction(
        predicted_s=expected, low_s=low, high_s=high, lateness_s=expected - sure, waiting_s=waiting
    )
