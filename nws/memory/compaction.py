"""Compaction of the store: finished hours move from the log into chunks, outdated samples are deleted.

Work is done in slices of some milliseconds, each one consistent transaction, so that neither readers nor other
processes
wait for long, and the next process continues where the last one stopped. Only the clock decides when to close an hour
and what to delete: a sample from the far future or past is kept in the chunk of its own hour.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from nws.memory import chunks
from nws.memory.database import Database
from nws.memory.headblock import HOUR_S, HeadBlock
from nws.memory.log import FIRST_HOUR, CompactionProgress, LogBatch, joined, last_row, progress
from nws.memory.reading import in_order
from nws.memory.rollups import SPANS_S, pack_buckets, summed_up, unpack_buckets
from nws.memory.rollups import joined as joined_buckets

#: Delay before an hour is closed, for late samples, seconds.
GRACE_S = 120.0
#: Rows of the log stay that long after their samples have moved, for readers of news.
LINGER_S = 900.0
#: A log of this many samples is closed at any time.
LARGEST_LOG = 2_000_000
#: Most rows and bytes of the log deleted in one step; a row is deleted as a unit.
_ROWS, _BYTES = 256, 400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """How long samples, roll-ups of 60 s, roll-ups of 600 s, and sources that are silent are remembered, seconds."""

    samples_s: float
    rollups_s: dict[int, float]
    sources_s: float


class Compaction:
    """The work of `Memory.tend`; the caller holds the database's lock."""

    def __init__(
        self, database: Database, tail: HeadBlock, horizon: Horizon, clock: Callable[[], float]
    ) -> None:
        self._database, self._tail, self._horizon, self._clock = database, tail, horizon, clock
        self._sweep_from = 0

    def tend(self, budget_s: float) -> bool:
        """Return work for about that long; True if there is more to do now."""
        deadline = time.monotonic() + budget_s
        while self._is_waiting():
            with self._database.writing() as connection:
                # another process may have done it meanwhile
                work = self._work(connection)
                then = None if work is None else work(connection, deadline)
            if then is not None:
                self._tail.advance(then)
            if time.monotonic() >= deadline:
                return self._is_waiting()
        return False

    def _is_waiting(self) -> bool:
        with self._database.reading() as connection:
            return self._work(connection) is not None

    def _work(
        self, connection: sqlite3.Connection
    ) -> Callable[[sqlite3.Connection, float], CompactionProgress | None] | None:
        """Return the next thing to do. Each returns the new progress where samples have moved."""
        # following it continuously bounds a single read, and yields the length of the log
        now, at = self._clock(), self._tail.follow(connection)
        if at.closing_to > at.closed_to:
            return self._close
        oldest = connection.execute(
            "SELECT received FROM log WHERE id > ? ORDER BY id LIMIT 1", (at.closed_to,)
        ).fetchone()
        if oldest is not None and self._is_due(oldest[0], now):
            return self._begin
        if self._outlived(connection, at, now):
            return self._prune
        return self._sweep if at.swept != _hour(now) else None

    def _is_due(self, received: float, now: float) -> bool:
        # a time of receipt in the future is a clock that was set back since
        over = _hour(received) < _hour(now - GRACE_S) or received > now + HOUR_S
        return over or len(self._tail.open) > LARGEST_LOG

    def _begin(self, connection: sqlite3.Connection, _deadline: float) -> CompactionProgress:
        at = replace(
            self._tail.follow(connection), closing_to=last_row(connection), series=0, hour=FIRST_HOUR
        )
        _save(connection, at)
        return at

    def _close(self, connection: sqlite3.Connection, deadline: float) -> CompactionProgress:
        at = self._tail.follow(connection)
        there = self._tail.closing.series()
        for series in there[np.searchsorted(there, at.series) :].tolist():
            left = self._tail.left_of(series)
            for hour, batch in _by_hour(left):
                if time.monotonic() >= deadline and (series, hour) > (at.series, at.hour):
                    at = replace(at, series=series, hour=hour)
                    _save(connection, at)
                    return at
                self._move(connection, series, hour, batch)
        at = replace(at, closed_to=at.closing_to, series=0, hour=FIRST_HOUR)
        _save(connection, at)
        return at

    def _move(self, connection: sqlite3.Connection, series: int, hour: int, batch: LogBatch) -> None:
        """Move samples of one hour, oldest first, into the chunk and the roll-ups."""
        now = self._clock()
        last = len(batch) - 1
        connection.execute(
            "UPDATE series SET last_t = :t, last_value = :value WHERE id = :id AND (last_t IS NULL OR last_t <= :t)",
            {"id": series, "t": float(batch.times[last]), "value": float(batch.values[last])},
        )
        if hour >= _hour(now - self._horizon.samples_s):
            self._to_chunk(connection, series, hour, batch)
        for bucket_s, kept_s in self._horizon.rollups_s.items():
            if (hour + 1) * HOUR_S > now - kept_s:
                self._to_rollup(connection, series, bucket_s, batch)

    @staticmethod
    def _to_chunk(connection: sqlite3.Connection, series: int, hour: int, batch: LogBatch) -> None:
        there = connection.execute(
            "SELECT data FROM chunk WHERE series = ? AND hour = ?", (series, hour)
        ).fetchone()
        fresh = len(batch)
        if there is not None:
            times, values = chunks.unpack(there[0])
            batch = in_order(
                joined([LogBatch(ids=np.empty(len(times), np.int32), times=times, values=values), batch])
            )
        connection.execute(
            "INSERT OR REPLACE INTO chunk (series, hour, samples, data) VALUES (?, ?, ?, ?)",
            (series, hour, len(batch), chunks.pack(batch.times, batch.values)),
        )
        connection.execute("UPDATE series SET samples = samples + ? WHERE id = ?", (fresh, series))

    @staticmethod
    def _to_rollup(connection: sqlite3.Connection, series: int, bucket_s: int, batch: LogBatch) -> None:
        buckets = summed_up(batch.times, batch.values, bucket_s)
        # an hour lies within one span of either kind
        span = math.floor(float(batch.times[0]) / SPANS_S[bucket_s])
        there = connection.execute(
            "SELECT data FROM rollup WHERE bucket_s = ? AND series = ? AND span = ?", (bucket_s, series, span)
        ).fetchone()
        if there is not None:
            buckets = joined_buckets([unpack_buckets(there[0], bucket_s), buckets])
        connection.execute(
            "INSERT OR REPLACE INTO rollup (bucket_s, series, span, data) VALUES (?, ?, ?, ?)",
            (bucket_s, series, span, pack_buckets(buckets, bucket_s)),
        )

    @staticmethod
    def _outlived(connection: sqlite3.Connection, at: CompactionProgress, now: float) -> list[int]:
        """Return the rows at the beginning of the log that are no longer needed, as many as one step may delete."""
        rows = connection.execute(
            "SELECT id, received, length(data) FROM log WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
            (at.deleted_to, at.closed_to, _ROWS),
        )
        found: list[int] = []
        size = 0
        for row, received, length in rows:
            size += length
            if abs(now - received) <= LINGER_S or (found and size > _BYTES):
                break
            found.append(row)
        return found

    def _prune(self, connection: sqlite3.Connection, _deadline: float) -> None:
        at = progress(connection)
        # the clock may have been set since they were seen to be old
        if rows := self._outlived(connection, at, self._clock()):
            connection.execute("DELETE FROM log WHERE id <= ?", (rows[-1],))
            _save(connection, replace(at, deleted_to=rows[-1]))

    def _sweep(self, connection: sqlite3.Connection, deadline: float) -> None:
        """Delete outdated samples, series by series."""
        now, keep = self._clock(), self._horizon
        if self._sweep_from == 0:
            connection.execute("DELETE FROM source WHERE heard < ?", (now - keep.sources_s,))
        count = connection.execute("SELECT coalesce(max(id) + 1, 0) FROM series").fetchone()[0]
        while self._sweep_from < count:
            series, self._sweep_from = self._sweep_from, self._sweep_from + 1
            old = (series, _hour(now - keep.samples_s))
            gone = connection.execute(
                "SELECT total(samples) FROM chunk WHERE series = ? AND hour < ?", old
            ).fetchone()[0]
            if gone:
                connection.execute("DELETE FROM chunk WHERE series = ? AND hour < ?", old)
                connection.execute(
                    "UPDATE series SET samples = samples - ? WHERE id = ?", (int(gone), series)
                )
            for bucket_s, kept_s in keep.rollups_s.items():
                connection.execute(
                    "DELETE FROM rollup WHERE bucket_s = ? AND series = ? AND span < ?",
                    (bucket_s, series, math.floor((now - kept_s) / SPANS_S[bucket_s])),
                )
            if time.monotonic() >= deadline:
                return
        self._sweep_from = 0
        _save(connection, replace(progress(connection), swept=_hour(now)))


def _save(connection: sqlite3.Connection, at: CompactionProgress) -> None:
    connection.execute(
        "UPDATE progress SET deleted_to = ?, closed_to = ?, closing_to = ?, series = ?, hour = ?, swept = ?",
        (at.deleted_to, at.closed_to, at.closing_to, at.series, at.hour, at.swept),
    )


def _by_hour(batch: LogBatch) -> list[tuple[int, LogBatch]]:
    """Return hours in order, the samples of each oldest first."""
    batch = in_order(batch)
    hours = np.floor(batch.times / HOUR_S).astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist(), len(batch)]
    return [(int(hours[a]), batch.picked(slice(a, b))) for a, b in pairwise(edges) if a < b]


def _hour(t: float) -> int:
    return math.floor(t / HOUR_S)
