"""Samples of one series at the resolution that fits a time span: as measured, or in buckets.

The retention periods bound the choice: samples as measured for some days, buckets of a minute for weeks, of ten
minutes for years. Longer buckets are combined from those.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nws.base.errors import Refused
from nws.memory import DAY_S, Keep, Memory
from nws.memory.rollups import Buckets
from nws.messages.fieldtypes import Floats, Ints
from nws.messages.weatherdocuments import SampleDocument
from nws.series import Series

RESOLUTIONS = ("auto", "raw", "60", "600")
#: Longest span read as measured in order to count its points; no series is measured so often that this
#: takes long.
_RAW_SPAN_S = 1.1 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """Points of a series, oldest first. resolution_s: length of buckets, 0 for samples as measured

    low, high, count: of each bucket; None for samples as measured
    """

    resolution_s: float
    t: Floats
    value: Floats
    low: Floats | None = None
    high: Floats | None = None
    count: Ints | None = None

    def __len__(self) -> int:
        return len(self.t)


def checked_span(since: float, until: float) -> None:
    """Raise `Refused` unless the two values are a span of time."""
    if not (math.isfinite(since) and math.isfinite(until) and since <= until):
        raise Refused(
            f"from {since} until {until}: expected seconds since the epoch, the first no later than the second"
        )


def document(
    memory: Memory,
    series: Series,
    span: tuple[float, float],
    *,
    resolution: str,
    most: int,
    keep: tuple[Keep, float],
) -> SampleDocument:
    """Return the newest `most` samples or buckets of a span; raises `Refused`.

    Args:
        resolution: one of `RESOLUTIONS`
        keep: retention periods, and the time now
    """
    checked_span(*span)
    if resolution not in RESOLUTIONS:
        raise Refused(f"resolution {resolution!r}: legal are {', '.join(RESOLUTIONS)}")
    if most < 1:
        raise Refused(f"most {most}: expected at least 1")
    if resolution == "auto":
        if span[1] - span[0] > _RAW_SPAN_S:
            # a span of all times must not be divided into buckets of which the series fills one
            stored = memory.rollup(series, bucket_s=600, since=span[0], until=span[1]).times
            span = (max([span[0], *stored[:1]]), span[1])
        found = fitting(memory, series, span, points=most, keep=keep)
    elif resolution == "raw":
        found = raw(memory, series, span)
    else:
        found = rolled(memory, series, span, 60 if resolution == "60" else 600, times=1)
    cut = slice(max(len(found) - most, 0), None)
    return SampleDocument(
        series=str(series),
        unit=series.resource.unit,
        resolution_s=found.resolution_s,
        t=found.t[cut],
        value=found.value[cut],
        low=None if found.low is None else found.low[cut],
        high=None if found.high is None else found.high[cut],
        count=None if found.count is None else found.count[cut],
        truncated=len(found) > most,
    )


def raw(memory: Memory, series: Series, span: tuple[float, float]) -> Points:
    """Return samples as measured."""
    found = memory.samples(series, since=span[0], until=span[1])
    return Points(resolution_s=0.0, t=np.asarray(found.times), value=np.asarray(found.values))


def rolled(
    memory: Memory, series: Series, span: tuple[float, float], bucket_s: Literal[60, 600], *, times: int
) -> Points:
    """Return buckets, each combined from `times` stored ones."""
    length = float(times * bucket_s)
    since = math.floor(span[0] / length) * length
    found = memory.rollup(series, bucket_s=bucket_s, since=since, until=span[1])
    return _merged(found, length) if times > 1 else _points(found, length)


def fitting(
    memory: Memory, series: Series, span: tuple[float, float], *, points: int, keep: tuple[Keep, float]
) -> Points:
    """Return a span at the finest resolution that has no more than `points` points.

    Args:
        keep: retention periods, and the time now
    """
    length_s = span[1] - span[0]
    age_s = keep[1] - span[0]
    if length_s <= _RAW_SPAN_S and age_s <= keep[0].samples_s:
        found = raw(memory, series, span)
        if len(found) <= points:
            return found
    # a span touches up to two buckets more than fit into it
    wanted_s = length_s / max(points - 2, 1)
    bucket_s: Literal[60, 600] = 60 if age_s <= keep[0].minutes_s and wanted_s <= 600 else 600
    return rolled(memory, series, span, bucket_s, times=max(math.ceil(wanted_s / bucket_s), 1))


def _points(found: Buckets, length: float) -> Points:
    return Points(
        resolution_s=length,
        t=found.times,
        value=found.mean,
        low=found.low,
        high=found.high,
        count=found.count.astype(np.int64),
    )


def _merged(found: Buckets, length: float) -> Points:
    if not len(found):
        return _points(found, length)
    place = np.floor(found.times / length)
    first = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
    count = np.add.reduceat(found.count.astype(np.int64), first)
    # relative to the smallest, so that the mean of equal values is exactly that value
    base = np.minimum.reduceat(found.mean, first)
    spread = np.repeat(base, np.diff(np.append(first, len(place))))
    mean = base + np.add.reduceat((found.mean - spread) * found.count, first) / count
    return Points(
        resolution_s=length,
        t=place[first] * length,
        value=mean,
        low=np.minimum.reduceat(found.low, first),
        high=np.maximum.reduceat(found.high, first),
        count=count,
    )
