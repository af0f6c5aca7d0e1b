"""The log of the store: batches of samples in the order they were kept, one row for each step.

Defines a batch as a blob, and the progress of compaction through the log (`CompactionProgress`). The samples of a
row leave the
log for the chunks series by series, and within a series hour by hour; `CompactionProgress` moves in the same
transaction as the
chunks, so that readers see every sample once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Every hour is later than this one.
FIRST_HOUR = -(1 << 40)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogBatch:
    """n samples of any series: ids int32[n], times float64[n] (seconds since the epoch), values float64[n]."""

    ids: NDArray[np.int32]
    times: NDArray[np.float64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        """Return number of samples."""
        return len(self.ids)

    def picked(self, which: NDArray[np.bool_] | slice) -> LogBatch:
        """Return some of them."""
        return LogBatch(ids=self.ids[which], times=self.times[which], values=self.values[which])

    def at(self, places: NDArray[np.intp]) -> LogBatch:
        """Return those at these places, in this order, copied."""
        return LogBatch(ids=self.ids[places], times=self.times[places], values=self.values[places])


def joined(batches: Sequence[LogBatch]) -> LogBatch:
    """Return all samples of one batch after the other."""
    if len(batches) == 1:
        return batches[0]
    return LogBatch(
        ids=np.concatenate([b.ids for b in batches] or [np.empty(0, np.int32)]),
        times=np.concatenate([b.times for b in batches] or [np.empty(0)]),
        values=np.concatenate([b.values for b in batches] or [np.empty(0)]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionProgress:
    """The progress of compaction.

    Of rows up to `closed_to` all samples are in chunks; those up to `deleted_to` are deleted. Of rows after them up to
    `closing_to`, the samples of series before `series` are in chunks, and of `series` itself those of hours
    before `hour`. `swept` : hour of the last deletion of outdated samples, by the deleting process' clock
    """

    deleted_to: int
    closed_to: int
    closing_to: int
    series: int
    hour: int
    swept: int | None


def progress(connection: sqlite3.Connection) -> CompactionProgress:
    """Return as of this transaction."""
    row = connection.execute(
        "SELECT deleted_to, closed_to, closing_to, series, hour, swept FROM progress"
    ).fetchone()
    return CompactionProgress(
        deleted_to=row[0], closed_to=row[1], closing_to=row[2], series=row[3], hour=row[4], swept=row[5]
    )


def write(connection: sqlite3.Connection, batch: LogBatch, received: float) -> int:
    """Return number of the new row; `received`: seconds since the epoch."""
    blob = b"".join(
        (
            batch.times.astype("<f8").tobytes(),
            batch.values.astype("<f8").tobytes(),
            batch.ids.astype("<i4").tobytes(),
        )
    )
    row = connection.execute("INSERT INTO log (received, data) VALUES (?, ?)", (received, blob)).lastrowid
    assert row is not None  # an INSERT has one
    return row


def rows_after(connection: sqlite3.Connection, row: int) -> Iterator[tuple[int, LogBatch]]:
    """Yield number and batch of every row after that one, in order; `ValueError` for one that makes no sense."""
    for number, data in connection.execute("SELECT id, data FROM log WHERE id > ? ORDER BY id", (row,)):
        n, rest = divmod(len(data), 20)
        if rest:
            raise ValueError(f"batch of {len(data)} bytes, expected a multiple of 20")
        yield (
            number,
            LogBatch(
                times=np.frombuffer(data, "<f8", n).astype(np.float64, copy=False),
                values=np.frombuffer(data, "<f8", n, 8 * n).astype(np.float64, copy=False),
                ids=np.frombuffer(data, "<i4", n, 16 * n).astype(np.int32, copy=False),
            ),
        )


def last_row(connection: sqlite3.Connection) -> int:
    """Return number of the last row ever written, 0 before the first one."""
    # the sequence keeps the number even after the row is deleted
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'log'").fetchone()
    return int(row[0]) if row else 0
