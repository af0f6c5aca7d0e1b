"""Reads one series: from chunks and roll-ups on disk, and from the head block in memory."""

from __future__ import annotations

import math
import sqlite3

import numpy as np

from nws.memory import chunks
from nws.memory.headblock import HOUR_S, HeadBlock
from nws.memory.log import LogBatch
from nws.memory.rollups import SPANS_S, Buckets, between, summed_up, unpack_buckets
from nws.memory.rollups import joined as joined_buckets

_FURTHEST = 1 << 60


def samples_of(
    connection: sqlite3.Connection,
    tail: HeadBlock,
    series: int,
    span: tuple[float, float] = (-math.inf, math.inf),
    *,
    most: int | None = None,
) -> LogBatch:
    """Return samples measured between two times, both included, the newest `most` of them, oldest first.

    Those of one time are in the order they came.
    """
    rows = connection.execute(
        "SELECT data FROM chunk WHERE series = ? AND hour BETWEEN ? AND ? ORDER BY hour DESC",
        (series, *(_number(t, HOUR_S) for t in span)),
    )
    fresh = tail.of(series)
    times_of, values_of = [fresh.times], [fresh.values]
    enough = 0
    for (data,) in rows:
        times, values = chunks.unpack(data)
        times_of.append(times)
        values_of.append(values)
        # an earlier hour has nothing newer; samples beyond the end of the span do not count
        enough += int(np.count_nonzero(times <= span[1]))
        if most is not None and enough >= most:
            break
    times, values = np.concatenate(times_of[::-1]), np.concatenate(values_of[::-1])
    batch = in_order(LogBatch(ids=np.full(len(times), series, np.int32), times=times, values=values))
    a = int(np.searchsorted(batch.times, span[0], "left"))
    b = int(np.searchsorted(batch.times, span[1], "right"))
    return batch.picked(slice(a if most is None else max(a, b - most), b))


def buckets_of(
    connection: sqlite3.Connection, tail: HeadBlock, series: int, bucket_s: int, span: tuple[float, float]
) -> Buckets:
    """Return buckets that begin between two times, both included, oldest first."""
    rows = connection.execute(
        "SELECT data FROM rollup WHERE bucket_s = ? AND series = ? AND span BETWEEN ? AND ? ORDER BY span",
        (bucket_s, series, *(_number(t, SPANS_S[bucket_s]) for t in span)),
    )
    parts = [unpack_buckets(data, bucket_s) for (data,) in rows]
    fresh = tail.of(series)
    parts.append(summed_up(fresh.times, fresh.values, bucket_s))
    return between(joined_buckets(parts), *span)


def in_order(batch: LogBatch) -> LogBatch:
    """Return by time; samples of the same time stay in the order they came."""
    if bool((batch.times[1:] >= batch.times[:-1]).all()):
        return batch
    return batch.at(np.argsort(batch.times, kind="stable"))


def _number(t: float, length_s: float) -> int:
    """Return number of the hour or span that holds a time, which may be infinite."""
    if math.isinf(t):
        return int(math.copysign(_FURTHEST, t))
    return max(-_FURTHEST, min(math.floor(t / length_s), _FURTHEST))
