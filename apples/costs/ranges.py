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

from apples.learning.runs import finished, observed_s, slowness
from apples.model.plan import Plan, Record
from apples.planning.bounds import HIGH

#: Newest runs of a kind that count, and the fewest that say more than the forecasts do.
MOST, FEWEST = 50, 9
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


def coverage(records: Sequence[Record]) -> Coverage:
    """Return how often the ranges of runs that finished held; runs that needed several launches are left out."""
    ended = [r for r in records if _judged(r)]
    if not ended:
        return Coverage()
    shorter = sum(observed_s(r) < r.plan.low_s for r in ended)
    longer = sum(observed_s(r) > r.plan.high_s for r in ended)
    errors = sorted(abs(r.plan.predicted_s / observed_s(r) - 1) for r in ended)
    return Coverage(
        judged=len(ended),
        held=len(ended) - shorter - longer,
        shorter=shorter,
        longer=longer,
        error=errors[len(errors) // 2],
    )


def alike(records: Sequence[Record], platform: str, *, loaded: bool) -> list[Record]:
    """Return the newest `MOST` judged runs of a platform on hosts that were as loaded, oldest first."""
    some = [r for r in records if r.world == platform and _judged(r) and is_loaded(slowness(r)) == loaded]
    return some[-MOST:]


def is_loaded(slow: float) -> bool:
    """Return whether the busiest CPU of a plan counts as loaded. slow : seconds per second of CPU time on it"""
    return slow > LOADED


def calibrate_range(plan: Plan, records: Sequence[Record]) -> Plan:
    """Return the plan with expectation and range by runs like it; unchanged with fewer than `FEWEST`."""
    if len(records) < FEWEST or not 0 < plan.low_s <= plan.predicted_s < math.inf:
        return plan
    longer = sorted(map(_distance, records))
    usual = median_high(map(abs, longer))
    tried = [_ends(records, part * usual) for part in _COMMON]
    found = min(tried, key=lambda ends: ends.score(records))
    rank = _rank(len(records))
    expected = plan.predicted_s * math.exp(fmean(longer[len(longer) - rank : rank]))
    below, above = found.sides(plan)
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

    def sides(self, plan: Plan) -> tuple[float, float]:
        """Return the logarithms of low and high bound over the expectation that the forecasts gave."""
        low, high = (end * _unit(plan, end, self.common) for end in (self.low, self.high))
        return low, high

    def score(self, records: Sequence[Record]) -> float:
        """Return the mean interval score of the ranges that the runs would have had, of logarithms; less is better."""

        def of(record: Record) -> float:
            (low, high), distance = self.sides(record.plan), _distance(record)
            return high - low + max(low - distance, distance - high, 0.0) / (1 - HIGH)

        return fmean(map(of, records))


def _ends(records: Sequence[Record], common: float) -> _Ends:
    """Return the conformal ends by these runs."""
    positions = sorted(_position(r, common) for r in records)
    rank = _rank(len(positions))
    return _Ends(low=positions[len(positions) - rank], high=positions[rank - 1], common=common)


def _rank(count: int) -> int:
    """Return the conformal rank of the high end among so many sorted positions, from 1."""
    return min(math.ceil((count + 1) * HIGH), count)


def _judged(record: Record) -> bool:
    return finished(record) and 0 < record.plan.low_s <= record.plan.predicted_s < math.inf


def _sides(plan: Plan) -> tuple[float, float]:
    """Return the lengths of both sides of the range that the forecasts gave, as logarithms."""
    low, high = plan.by_forecasts or (plan.low_s, plan.high_s)
    expected = _forecast_s(plan)
    return max(math.log(expected / low), _LEAST), max(math.log(high / expected), _LEAST)


def _forecast_s(plan: Plan) -> float:
    """Return the expectation that the forecasts gave."""
    return plan.predicted_s if plan.forecast_s is None else plan.forecast_s


def _distance(record: Record) -> float:
    """Return the logarithm of the observed time over the expectation that the forecasts gave."""
    return math.log(observed_s(record) / _forecast_s(record.plan))


def _unit(plan: Plan, distance: float, common: float) -> float:
    """Return the unit of positions on the side of the expectation on which a distance lies, a logarithm."""
    below, above = _sides(plan)
    return math.hypot(below if distance < 0 else above, common)


def _position(record: Record, common: float) -> float:
    distance = _distance(record)
    return max(min(distance / _unit(record.plan, distance, common), _FARTHEST), -_FARTHEST)
