"""Ranges of run times, calibrated by the runs that have ended: how far each was from its prediction, in its range.

The position of a run is the logarithm of observed over predicted time in units of that of the range's end on its side:
-1 and 1 are the ends that the forecasts gave. Conformal quantiles of the positions at 10 and 90 % give the ends of the
next range, which then holds 8 of 10 times if runs are alike. A load may change in ways that no forecast shows; then the
lengths of the forecasts' ranges say little about errors. So units with a part common to all runs are tried as well. The
units taken are those whose ranges have the best interval score over the runs. The expectation becomes that of the
middle eight tenths of the runs: ranks that wait for each other at every step take longer than the model of the whole
run shows. Runs count by platform and load, the last `MOST` only, so that old ones fade. Sources: Vovk, Gammerman and
Shafer, Algorithmic Learning in a Random World, 2005; Gneiting and Raftery, Strictly Proper Scoring Rules, Prediction,
and Estimation, 2007 (the interval score).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median_high

import msgspec

from apples.costs.runs import finished, observed_s
from apples.model.plan import Plan, Record
from apples.planning.bounds import HIGH
from nws.base.records import copied

#: Newest runs of a kind that count, and the fewest that say more than the forecasts do.
MOST, FEWEST = 50, 9
#: Least ratio of the ends of a range to its expectation before runs have shown that closer ones hold.
NARROWEST = 1.05
#: Least length of a side, as a logarithm: a sure forecast still meets the noise of a machine.
_LEAST = 0.01
#: Farthest position, so that one run cannot make a range useless.
_FARTHEST = 5.0
#: Parts common to all units that are tried, in median errors: with the last, all units are about equal.
_COMMON = (0.0, 1.0, 10.0)
#: Slowness beyond which a host counts as loaded.
LOADED = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Runs whose range is judged: their number, those within it, shorter and longer than it; median relative error."""

    judged: int = 0
    held: int = 0
    shorter: int = 0
    longer: int = 0
    error: float = math.nan


class JudgedRun(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A finished run and its range: expectation and bounds as predicted, and as the forecasts gave them; seconds."""

    observed_s: float
    predicted_s: float
    low_s: float
    high_s: float
    forecast_s: float
    forecast_low_s: float
    forecast_high_s: float

    @property
    def distance(self) -> float:
        """Return the logarithm of the observed time over the expectation that the forecasts gave."""
        return math.log(self.observed_s / self.forecast_s)

    def unit(self, distance: float, common: float) -> float:
        """Return the unit of positions on the side of the expectation on which a distance lies, a logarithm."""
        side = (
            self.forecast_s / self.forecast_low_s if distance < 0 else self.forecast_high_s / self.forecast_s
        )
        return math.hypot(max(math.log(side), _LEAST), common)

    def position(self, common: float) -> float:
        """Return the distance in its unit."""
        return max(min(self.distance / self.unit(self.distance, common), _FARTHEST), -_FARTHEST)


def judged_run(record: Record) -> JudgedRun | None:
    """Return the range of a run that finished in one launch; None for others, and without a range."""
    plan = record.plan
    if not finished(record) or not 0 < plan.low_s <= plan.predicted_s < math.inf:
        return None
    return _with_range(plan, observed_s(record))


def _with_range(plan: Plan, seconds: float) -> JudgedRun:
    low_s, high_s = plan.by_forecasts or (plan.low_s, plan.high_s)
    return copied(
        JudgedRun,
        plan,
        observed_s=seconds,
        forecast_s=plan.predicted_s if plan.forecast_s is None else plan.forecast_s,
        forecast_low_s=low_s,
        forecast_high_s=high_s,
    )


def coverage(runs: Sequence[JudgedRun]) -> Coverage:
    """Return how often the ranges of runs held."""
    if not runs:
        return Coverage()
    shorter = sum(run.observed_s < run.low_s for run in runs)
    longer = sum(run.observed_s > run.high_s for run in runs)
    errors = sorted(abs(run.predicted_s / run.observed_s - 1) for run in runs)
    return Coverage(
        judged=len(runs),
        held=len(runs) - shorter - longer,
        shorter=shorter,
        longer=longer,
        error=errors[len(errors) // 2],
    )


def is_loaded(slow: float) -> bool:
    """Return whether the busiest CPU of a plan counts as loaded. slow : seconds per second of CPU time on it"""
    return slow > LOADED


def calibrate_range(plan: Plan, runs: Sequence[JudgedRun]) -> Plan:
    """Return the plan with expectation and range by runs like it.

    With fewer than `FEWEST`, the range is that of the forecasts, but no narrower than `NARROWEST` to either side.
    """
    if not 0 < plan.low_s <= plan.predicted_s < math.inf:
        return plan
    if len(runs) < FEWEST:
        low_s, high_s = plan.predicted_s / NARROWEST, plan.predicted_s * NARROWEST
        return replace(plan, low_s=min(plan.low_s, low_s), high_s=max(plan.high_s, high_s))
    distances = sorted(run.distance for run in runs)
    usual = median_high(map(abs, distances))
    best = min((_ends(runs, part * usual) for part in _COMMON), key=lambda ends: ends.score(runs))
    rank = _rank(len(runs))
    expected = plan.predicted_s * math.exp(fmean(distances[len(distances) - rank : rank]))
    below, above = best.sides(_with_range(plan, plan.predicted_s))
    return replace(
        plan,
        predicted_s=expected,
        low_s=min(plan.predicted_s * math.exp(below), expected),
        high_s=max(plan.predicted_s * math.exp(above), expected),
        by_forecasts=(plan.low_s, plan.high_s),
        forecast_s=plan.predicted_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """Positions of the ends of a range. common : part of their unit that is the same for all runs, a logarithm"""

    low: float
    high: float
    common: float

    def sides(self, run: JudgedRun) -> tuple[float, float]:
        """Return the logarithms of low and high bound over the expectation that the forecasts gave."""
        low, high = (end * run.unit(end, self.common) for end in (self.low, self.high))
        return low, high

    def score(self, runs: Sequence[JudgedRun]) -> float:
        """Return the mean interval score of the ranges that the runs would have had, of logarithms; less is better."""

        def of(run: JudgedRun) -> float:
            (low, high), distance = self.sides(run), run.distance
            return high - low + max(low - distance, distance - high, 0.0) / (1 - HIGH)

        return fmean(map(of, runs))


def _ends(runs: Sequence[JudgedRun], common: float) -> _Ends:
    """Return the conformal ends by these runs."""
    positions = sorted(run.position(common) for run in runs)
    rank = _rank(len(positions))
    return _Ends(low=positions[len(positions) - rank], high=positions[rank - 1], common=common)


def _rank(count: int) -> int:
    """Return the conformal rank of the high end among so many sorted positions, from 1."""
    return min(math.ceil((count + 1) * HIGH), count)
