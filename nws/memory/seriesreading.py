"""Reads one series: from blocks on disk, and from the head block in memory.

An answer is complete and as it was written, or a `DamagedRows` names what is damaged.
"""

import math
import sqlite3
from collections.abc import Iterator

import numpy as np

from nws.base.sealed import crc
from nws.memory import chunks
from nws.memory.headblock import HOUR_S, HeadBlock
from nws.memory.integrity import DamagedRows, get_losses, span_text
from nws.memory.log import LogBatch
from nws.memory.rollups import SPANS_S, Buckets, between, joined as joined_buckets, summed_up, unpack_buckets

_FURTHEST = 1 << 60


def samples_of(
    connection: sqlite3.Connection,
    tail: HeadBlock,
    series: int,
    span: tuple[float, float] = (-math.inf, math.inf),
    *,
    most: int | None = None,
    damaged: list[str] | None = None,
) -> LogBatch:
    """Return samples measured between two times, both included, the newest `most` of them, oldest first.

    Those of one time are in the order they came. damaged : leave damaged hours out, and add their reasons here
    """
    refuse_lost(connection, tail, 0, series, span, damaged)
    # the newest samples are in memory, all others in chunks; none is in both
    fresh = tail.of(series)
    times_of, values_of = [fresh.times], [fresh.values]
    enough = 0
    for data in blocks_of(connection, 0, series, span, damaged):
        times, values = chunks.unpack(data)
        times_of.append(times)
        values_of.append(values)
        # an earlier hour has nothing newer; samples beyond the end of the span do not count
        enough += int(np.count_nonzero(times <= span[1]))
        if most is not None and enough >= most:
            break
    # chunks came newest first
    times, values = np.concatenate(times_of[::-1]), np.concatenate(values_of[::-1])
    batch = in_order(LogBatch(ids=np.full(len(times), series, np.int32), times=times, values=values))
    a = int(np.searchsorted(batch.times, span[0], "left"))
    b = int(np.searchsorted(batch.times, span[1], "right"))
    return batch.picked(slice(a if most is None else max(a, b - most), b))


def buckets_of(
    connection: sqlite3.Connection, tail: HeadBlock, series: int, bucket_s: int, span: tuple[float, float]
) -> Buckets:
    """Return buckets that begin between two times, both included, oldest first."""
    refuse_lost(connection, tail, bucket_s, series, span, None)
    parts = [unpack_buckets(data, bucket_s) for data in blocks_of(connection, bucket_s, series, span)]
    fresh = tail.of(series)
    # roll-ups of the head block are made for each answer, so that the open hour is in it
    parts = [*parts[::-1], summed_up(fresh.times, fresh.values, bucket_s)]
    return between(joined_buckets(parts), *span)


def blocks_of(
    connection: sqlite3.Connection,
    bucket_s: int,
    series: int,
    span: tuple[float, float] = (-math.inf, math.inf),
    damaged: list[str] | None = None,
) -> Iterator[bytes]:
    """Yield the data of the blocks that overlap a span, newest first; `damaged` as in `samples_of`."""
    length_s = SPANS_S.get(bucket_s, HOUR_S)
    first, last = (_number(t, length_s) for t in span)
    known = connection.execute(
        f"SELECT rows_{bucket_s}, sum_{bucket_s} FROM total WHERE id = ?", (series,)
    ).fetchone()
    # from the index alone, which is small; the list is compared with its count and sum before any data is read
    spans = [
        row[0]
        for row in connection.execute(
            "SELECT span FROM block WHERE bucket_s = ? AND series = ? ORDER BY span DESC", (bucket_s, series)
        )
        if isinstance(row[0], int)
    ]
    if known != (len(spans), sum(spans)):
        _refuse("the list of its blocks", damaged)
    numbers = [number for number in spans if first <= number <= last]
    rows = connection.execute(
        "SELECT span, samples, data, crc FROM block WHERE bucket_s = ? AND series = ? AND span BETWEEN ? AND ? "
        "ORDER BY span DESC",
        (bucket_s, series, first, last),
    )
    for number in numbers:
        # one at a time: a reader of the newest samples stops after a few blocks
        row = rows.fetchone()
        if row is None or row[0] != number:
            _refuse("the order of its blocks", damaged)
            return
        if crc("block", bucket_s, series, number, row[1], data=row[2]) == row[3]:
            yield row[2]
        else:
            what = f"roll-ups of {bucket_s} s" if bucket_s else "samples"
            _refuse(f"{what} of {span_text(number * length_s, (number + 1) * length_s)}", damaged)


def refuse_lost(
    connection: sqlite3.Connection,
    tail: HeadBlock,
    kind: int = 0,
    series: int = -1,
    span: tuple[float, float] = (-math.inf, math.inf),
    damaged: list[str] | None = None,
) -> None:
    """Refuse an answer that lacks lost samples, of one series or of any."""
    # the table of losses is read only if there are any, which is rare
    stored = get_losses(connection) if tail.progress is None or tail.progress.losses else []
    for loss in (*stored, *(loss for _, loss in tail.losses)):
        if loss.touches(kind, series, span):
            _refuse(str(loss), damaged)


def _refuse(reason: str, damaged: list[str] | None) -> None:
    if damaged is None:
        raise DamagedRows(reason)
    damaged.append(reason)


def in_order(batch: LogBatch) -> LogBatch:
    """Return by time; samples of the same time stay in the order they came."""
    if bool((batch.times[1:] >= batch.times[:-1]).all()):
        return batch
    return batch.picked(np.argsort(batch.times, kind="stable"))


def _number(t: float, length_s: float) -> int:
    """Return number of the hour or span that holds a time, which may be infinite."""
    if math.isinf(t):
        return int(math.copysign(_FURTHEST, t))
    return max(-_FURTHEST, min(math.floor(t / length_s), _FURTHEST))
