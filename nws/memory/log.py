"""The log of the store: batches of samples in the order they were kept, one row for each step.

Defines a batch as a blob, and the progress of compaction through the log (`CompactionProgress`). The samples of a
row leave the log for the chunks series by series, and within a series hour by hour; `CompactionProgress` moves in the
same transaction as the chunks, so that readers see every sample once. Rows are numbered without gaps. Times, values and
series of a batch have checksums of their own, so that a damaged row still names the lost samples.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from nws.base.sealed import crc
from nws.memory.integrity import EVERYTHING, DamagedRows, Loss

#: Every hour is later than this one.
FIRST_HOUR = -(1 << 40)
#: A damaged row with more series than these counts as one of any series.
_MOST_SERIES = 256


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogBatch:
    """n samples of any series: ids int32[n], times float64[n] (seconds since the epoch), values float64[n]."""

    ids: NDArray[np.int32]
    times: NDArray[np.float64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ids)

    def picked(self, which: NDArray[np.bool_] | NDArray[np.intp] | slice) -> LogBatch:
        """Return some of them: a view for a slice, else a copy; indices give the order."""
        return LogBatch(ids=self.ids[which], times=self.times[which], values=self.values[which])


def joined(batches: Sequence[LogBatch]) -> LogBatch:
    """Return all samples of one batch after the other."""
    if len(batches) == 1:
        return batches[0]
    parts = batches or [LogBatch(ids=np.empty(0, np.int32), times=np.empty(0), values=np.empty(0))]
    return LogBatch(
        ids=np.concatenate([b.ids for b in parts]),
        times=np.concatenate([b.times for b in parts]),
        values=np.concatenate([b.values for b in parts]),
    )


@dataclass(frozen=True, slots=True)
class CompactionProgress:
    """The progress of the log and of compaction.

    Rows up to `written_to` have been written. Of rows up to `closed_to` all samples are in chunks; those up to
    `deleted_to` are deleted. Of rows after them up to `closing_to`, the samples of series before `series` are in
    chunks, and of `series` itself those of hours before `hour`. `swept` : hour of the last deletion of outdated
    samples, by the deleting process' clock.  losses : there are stored losses
    """

    written_to: int = 0
    deleted_to: int = 0
    closed_to: int = 0
    closing_to: int = 0
    series: int = 0
    hour: int = FIRST_HOUR
    swept: int | None = None
    losses: bool = field(default=False, compare=False)

    def columns(self) -> tuple[int | None, ...]:
        """Return the values as they are stored, without the checksum."""
        return astuple(self)[:-1]


def progress(connection: sqlite3.Connection) -> CompactionProgress:
    """Return as of this transaction; `DamagedRows` if neither of the two rows is sound."""
    rows = connection.execute(
        "SELECT written_to, deleted_to, closed_to, closing_to, series, hour, swept, crc, loss_rows FROM progress"
    ).fetchall()
    for *values, check, _ in rows:
        if crc("progress", *values) == check:
            # damage of the count must not hide a loss
            return replace(CompactionProgress(*values), losses=any(row[-1] != 0 for row in rows))
    raise DamagedRows("the progress of its log")


def write(connection: sqlite3.Connection, batch: LogBatch, received: float) -> CompactionProgress:
    """Write a row; return the progress with its number. `received`: seconds since the epoch."""
    at = progress(connection)
    # numbers without gaps: a missing row is noticed by its number
    at = replace(at, written_to=at.written_to + 1)
    put(connection, at.written_to, batch, received)
    return at


def put(connection: sqlite3.Connection, row: int, batch: LogBatch, received: float) -> None:
    """Insert a row under its number."""
    # as it is read again
    received = float(received)
    # three checksums for a row: of damaged values, series and times still tell what is lost
    parts = (
        batch.times.astype("<f8").tobytes(),
        batch.values.astype("<f8").tobytes(),
        batch.ids.astype("<i4").tobytes(),
    )
    connection.execute(
        "INSERT INTO log (id, received, data, times_crc, values_crc, ids_crc) VALUES (?, ?, ?, ?, ?, ?)",
        (row, received, b"".join(parts), *_checks(row, received, parts)),
    )


def rows_after(
    connection: sqlite3.Connection, row: int, to: int
) -> Iterator[tuple[int, LogBatch, tuple[Loss, ...]]]:
    """Yield number and batch of every row after that one up to `to`, in order.

    The batch of a damaged or missing row is empty; its losses follow it.
    """
    rows = connection.execute(
        "SELECT id, received, data, times_crc, values_crc, ids_crc FROM log WHERE id > ? AND id <= ? ORDER BY id",
        (row, to),
    )
    for number, received, data, *checks in rows:
        # a missing row may have held samples of any series
        if number != row + 1:
            yield number - 1, joined([]), (EVERYTHING,)
        yield number, *unpack(number, received, data, checks)
        row = number
    # the last rows are missing, which no later number shows
    if row < to:
        yield to, joined([]), (EVERYTHING,)


def unpack(
    row: int, received: object, data: bytes, checks: Sequence[int]
) -> tuple[LogBatch, tuple[Loss, ...]]:
    """Return the batch of a row; if it is damaged, an empty one and its losses."""
    # 8 bytes of time, 8 of value, 4 of id for each sample
    if not isinstance(data, bytes) or len(data) % 20:
        return joined([]), (EVERYTHING,)
    n = len(data) // 20
    view = memoryview(data)
    batch = LogBatch(
        # copy=False: on machines of this byte order these are views of the row
        times=np.frombuffer(data, "<f8", n).astype(np.float64, copy=False),
        values=np.frombuffer(data, "<f8", n, 8 * n).astype(np.float64, copy=False),
        ids=np.frombuffer(data, "<i4", n, 16 * n).astype(np.int32, copy=False),
    )
    checked = _checks(row, received, (view[: 8 * n], view[8 * n : 16 * n], view[16 * n :]))
    times, values, ids = (a == b for a, b in zip(checked, checks, strict=True))
    return (batch, ()) if times and values and ids else (joined([]), _lost(batch, times=times, ids=ids))


def _checks(row: int, received: object, parts: Sequence[bytes | memoryview]) -> tuple[int, int, int]:
    times, values, ids = parts
    return (
        crc("times", row, data=times),
        crc("values", row, received, data=values),
        crc("ids", row, data=ids),
    )


def _lost(batch: LogBatch, *, times: bool, ids: bool) -> tuple[Loss, ...]:
    """Return the losses of a damaged row; times, ids : these parts of it are sound."""
    groups: list[tuple[int, LogBatch]] = [(-1, batch)]
    if ids:
        series = np.unique(batch.ids).tolist()
        if len(series) <= _MOST_SERIES:
            groups = [(one, batch.picked(batch.ids == one)) for one in series]
    return tuple(
        Loss(
            kind=-1,
            series=one,
            since=float(group.times.min()) if times and len(group) else -math.inf,
            until=float(group.times.max()) if times and len(group) else math.inf,
            samples=len(group),
        )
        for one, group in groups
    )
