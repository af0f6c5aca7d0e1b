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
from nws.memory.rollups import Buckets, merged
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
        points = fitting(memory, series, span, points=most, keep=keep)
    elif resolution == "raw":
        points = raw(memory, series, span)
    else:
        points = rolled(memory, series, span, 60 if resolution == "60" else 600, times=1)
    cut = slice(max(len(points) - most, 0), None)
    return SampleDocument(
        series=str(series),
        unit=series.resource.unit,
        resolution_s=points.resolution_s,
        t=points.t[cut],
        value=points.value[cut],
        low=None if points.low is None else points.low[cut],
        high=None if points.high is None else points.high[cut],
        count=None if points.count is None else points.count[cut],
        truncated=len(points) > most,
    )


def raw(memory: Memory, series: Series, span: tuple[float, float]) -> Points:
    """Return samples as measured."""
    samples = memory.samples(series, since=span[0], until=span[1])
    return Points(resolution_s=0.0, t=np.asarray(samples.times), value=np.asarray(samples.values))


def rolled(
    memory: Memory, series: Series, span: tuple[float, float], bucket_s: Literal[60, 600], *, times: int
) -> Points:
    """Return buckets, each combined from `times` stored ones."""
    length = float(times * bucket_s)
    since = math.floor(span[0] / length) * length
    buckets = memory.rollup(series, bucket_s=bucket_s, since=since, until=span[1])
    return _points(merged(buckets, length) if times > 1 else buckets, length)


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
        samples = raw(memory, series, span)
        if len(samples) <= points:
            return samples
    # a span touches up to two buckets more than fit into it
    wanted_s = length_s / max(points - 2, 1)
    bucket_s: Literal[60, 600] = 60 if age_s <= keep[0].minutes_s and wanted_s <= 600 else 600
    return rolled(memory, series, span, bucket_s, times=max(math.ceil(wanted_s / bucket_s), 1))


def _points(buckets: Buckets, length: float) -> Points:
    return Points(
        resolution_s=length,
        t=buckets.times,
        value=buckets.mean,
        low=buckets.low,
        high=buckets.high,
        count=buckets.count.astype(np.int64),
    )
