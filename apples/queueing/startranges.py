"""Ranges of predicted starts that hold as often as stated: conformalised quantile regression, online.

Sampled starts give too narrow a range, because run times of one user depend on each other and later submissions are not
sampled. A job's *excess* tells how far its true start was outside the sampled range (below 0: inside). Ranges are
widened by a quantile of the excesses of jobs that have started since, in four classes by predicted wait (Romano,
Patterson and Candès 2019). Older excesses weigh less. Waits are compared by their ratio, with 1 min added to both.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from apples.queueing.settings import RANGE_PERCENTILE
from apples.queueing.state import Floats

ENOUGH = 50
"""Outcomes from which it is reported how often ranges held."""

#: Predicted waits between the classes, s.
_CLASSES_S = (600.0, 3600.0, 21600.0)

#: Excesses kept of each class, and the number of jobs after which one weighs half.
_MOST, _HALF = 1000, 150.0

#: A class with fewer excesses uses those of all classes. With fewer in all, ranges stay as sampled.
_FEWEST = 10

_MINUTE_S = 60.0

#: Waiting jobs at which ranges begin to learn from every second submission only, then from every third one.
_LONG_QUEUE = 250

#: A damaged record has anything.
_Wait_s = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRange:
    """Predicted start of a waiting job, s on the queue's clock: low <= median <= high."""

    low_s: float
    median_s: float
    high_s: float


class SampledWait(msgspec.Struct, frozen=True, array_like=True):
    """Percentiles 10, 50 and 90 of sampled waits, s."""

    low_s: _Wait_s
    median_s: _Wait_s
    high_s: _Wait_s


class ForeseenWait(SampledWait, frozen=True, array_like=True):
    """Percentiles of sampled waits, and the range that was predicted at the submission; s."""

    predicted_low_s: _Wait_s
    predicted_high_s: _Wait_s

    @classmethod
    def decoded(cls, text: str | None) -> ForeseenWait | None:
        """Return the record of JSON text; None without text, or if it is damaged."""
        try:
            return msgspec.json.decode(text or "null", type=ForeseenWait | None)
        except msgspec.DecodeError:
            return None

    def start_range(self, submitted_s: float) -> StartRange:
        """Return the predicted start of a job submitted at that instant."""
        ends = (self.predicted_low_s, self.median_s, self.predicted_high_s)
        low_s, median_s, high_s = (submitted_s + wait_s for wait_s in ends)
        return StartRange(low_s=low_s, median_s=median_s, high_s=high_s)


def learns_from(job_id: int, waiting: int) -> bool:
    """Return whether ranges learn from this submission: in a long queue from some only, as each takes a prediction."""
    return job_id % (1 + waiting // _LONG_QUEUE) == 0


class StartRanges:
    """Widens sampled ranges by the outcomes of jobs that have started. It serves one queue under one policy."""

    def __init__(self) -> None:
        self._excesses: Sequence[deque[float]] = [deque(maxlen=_MOST) for _ in range(len(_CLASSES_S) + 1)]
        self._held: deque[bool] = deque(maxlen=_MOST)
        self._margins: dict[tuple[int, float], float] = {}

    @property
    def held(self) -> float | None:
        """Return the share of recent starts inside their predicted ranges, or None before there are enough."""
        return sum(self._held) / len(self._held) if len(self._held) >= ENOUGH else None

    def learn(self, foreseen: ForeseenWait, wait_s: float) -> None:
        """Learn from a job that started. Starts must be passed in order of time, then of ids."""
        low, wait, high = (math.log(s + _MINUTE_S) for s in (foreseen.low_s, wait_s, foreseen.high_s))
        self._excesses[_class_of(foreseen)].append(max(low - wait, wait - high))
        self._held.append(foreseen.predicted_low_s <= wait_s <= foreseen.predicted_high_s)
        self._margins.clear()

    def foresee(self, sampled: SampledWait) -> ForeseenWait:
        """Return the prediction that is kept from the submission of a job until its start."""
        published = self.widened(sampled, 0.0)
        percentiles = (sampled.low_s, sampled.median_s, sampled.high_s)
        return ForeseenWait(*percentiles, published.low_s, published.high_s)

    def widened(self, sampled: SampledWait, now_s: float, percentile: float = RANGE_PERCENTILE) -> StartRange:
        """Return the predicted start. `percentile`: stated share of starts inside the range, 50 to 99."""
        factor = math.exp(self._margin(_class_of(sampled), percentile))
        low_s = (sampled.low_s + _MINUTE_S) / factor - _MINUTE_S
        high_s = (sampled.high_s + _MINUTE_S) * factor - _MINUTE_S
        return StartRange(
            low_s=now_s + min(max(low_s, 0.0), sampled.median_s),
            median_s=now_s + sampled.median_s,
            high_s=now_s + max(high_s, sampled.median_s),
        )

    def _margin(self, number: int, percentile: float) -> float:
        """Return the quantile of the excesses of a class; 0 before there are enough."""
        margin = self._margins.get((number, percentile))
        if margin is None:
            excesses = self._excesses[number]
            if len(excesses) < _FEWEST:
                excesses = deque(excess for group in self._excesses for excess in group)
            margin = 0.0 if len(excesses) < _FEWEST else _recent_quantile(np.array(excesses), percentile)
            self._margins[number, percentile] = margin
        return margin


def _class_of(sampled: SampledWait) -> int:
    return sum(sampled.median_s >= edge for edge in _CLASSES_S)


def _recent_quantile(excesses: Floats, percentile: float) -> float:
    """Return a quantile of values in order of time. The weight of a value halves every `_HALF` values."""
    order = np.argsort(excesses, kind="stable")
    weights = np.cumsum((0.5 ** (np.arange(len(excesses))[::-1] / _HALF))[order])
    index = np.searchsorted(weights, percentile / 100.0 * weights[-1])
    return float(excesses[order[min(index, len(order) - 1)]])
