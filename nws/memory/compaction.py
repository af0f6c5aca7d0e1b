"""Compaction of the store: finished hours move from the log into chunks, outdated samples are deleted.

Work is done in slices of some milliseconds, each one consistent transaction, so that neither readers nor other
processes wait for long, and the next process continues where the last one stopped. Only the clock decides when to close
an hour and what to delete: a sample from the far future or past is kept in the chunk of its own hour.
"""

import math
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from nws.base.sealed import crc
from nws.memory import chunks
from nws.memory.database import Database
from nws.memory.headblock import HOUR_S, HeadBlock
from nws.memory.integrity import DamagedRows, Loss, put_losses
from nws.memory.log import FIRST_HOUR, CompactionProgress, LogBatch, joined, progress
from nws.memory.rollups import SPANS_S, joined as joined_buckets, pack_buckets, summed_up, unpack_buckets
from nws.memory.seriesreading import in_order
from nws.memory.totals import read_total, write_block, write_total

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
        # not the clock of the samples, which may be set meanwhile
        deadline = time.monotonic() + budget_s
        while self._is_waiting():
            with self._database.writing() as connection:
                # another process may have done it meanwhile
                work = self._work(connection)
                then = None if work is None else work(connection, deadline)
            # only after the commit: a step that failed must leave the samples in the head block
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
        # a compaction that was begun goes on, also one of a process that ended
        if at.closing_to > at.closed_to:
            return self._close
        # times of receipt rise with the ids, so the first row decides
        oldest = connection.execute(
            "SELECT received FROM log WHERE id > ? ORDER BY id LIMIT 1", (at.closed_to,)
        ).fetchone()
        if oldest is not None and self._is_due(_received(oldest[0]), now):
            return self._begin
        if self._outlived(connection, at, now):
            return self._prune
        return self._sweep if at.swept != _hour(now) else None

    def _is_due(self, received: float, now: float) -> bool:
        # a time of receipt in the future is a clock that was set back since
        over = _hour(received) < _hour(now - GRACE_S) or received > now + HOUR_S
        return over or len(self._tail.open) > LARGEST_LOG

    def _begin(self, connection: sqlite3.Connection, _deadline: float) -> CompactionProgress:
        at = self._tail.follow(connection)
        # rows that arrive from now on belong to the next compaction
        at = replace(at, closing_to=at.written_to, series=0, hour=FIRST_HOUR)
        self._database.progress = at
        return at

    def _close(self, connection: sqlite3.Connection, deadline: float) -> CompactionProgress:
        at = self._tail.follow(connection)
        # series that a step before this one has moved are skipped
        there = self._tail.closing.series()
        for series in there[np.searchsorted(there, at.series) :].tolist():
            left = self._tail.left_of(series)
            for hour, batch in _by_hour(left):
                # at least one hour is moved in each step, however small the budget is
                if time.monotonic() >= deadline and (series, hour) > (at.series, at.hour):
                    at = replace(at, series=series, hour=hour)
                    self._database.progress = at
                    return at
                self._move(connection, series, hour, batch)
        # with the last samples, so that rows of the log may be deleted without hiding their losses
        put_losses(connection, [loss for row, loss in self._tail.losses if row <= at.closing_to])
        at = replace(at, closed_to=at.closing_to, series=0, hour=FIRST_HOUR)
        self._database.progress = at
        return at

    def _move(self, connection: sqlite3.Connection, series: int, hour: int, batch: LogBatch) -> None:
        """Move samples of one hour, oldest first, into the chunk and the roll-ups."""
        now = self._clock()
        recent = hour >= _hour(now - self._horizon.samples_s)
        # samples too old to be kept still count as the last measurement of their series
        self._count(connection, series, batch, len(batch) if recent else 0)
        if recent:
            self._to_block(connection, series, 0, hour, batch)
        for bucket_s, kept_s in self._horizon.rollups_s.items():
            if (hour + 1) * HOUR_S > now - kept_s:
                # an hour lies within one span of either kind
                span = math.floor(float(batch.times[0]) / SPANS_S[bucket_s])
                self._to_block(connection, series, bucket_s, span, batch)

    def _count(self, connection: sqlite3.Connection, series: int, batch: LogBatch, more: int) -> None:
        """Add `more` samples to the totals, and the last one of a batch. Damaged totals stay as they are."""
        try:
            total = read_total(connection, series)
        except DamagedRows as error:
            self._note(error)
            return
        total = replace(total, samples=total.samples + more)
        last = len(batch) - 1
        if last >= 0 and (total.last_t is None or total.last_t <= batch.times[last]):
            total = replace(total, last_t=float(batch.times[last]), last=float(batch.values[last]))
        write_total(connection, series, total)

    def _to_block(
        self, connection: sqlite3.Connection, series: int, bucket_s: int, span: int, batch: LogBatch
    ) -> None:
        """Add samples to a block. A damaged one is replaced, and its samples are a loss."""
        there = connection.execute(
            "SELECT samples, data, crc FROM block WHERE bucket_s = ? AND series = ? AND span = ?",
            (bucket_s, series, span),
        ).fetchone()
        samples, before = len(batch), None
        if there is not None:
            # checked before it is extended: a right checksum over wrong samples would hide the damage for ever
            if crc("block", bucket_s, series, span, there[0], data=there[1]) == there[2]:
                samples, before = samples + there[0], there[1]
            else:
                self._lose(connection, series, bucket_s, span, there[0])
        if bucket_s:
            buckets = summed_up(batch.times, batch.values, bucket_s)
            # roll-ups are merged, and not made from the chunk, whose samples may be deleted already
            if before is not None:
                buckets = joined_buckets([unpack_buckets(before, bucket_s), buckets])
            data = pack_buckets(buckets, bucket_s)
        else:
            if before is not None:
                times, values = chunks.unpack(before)
                old = LogBatch(ids=np.empty(len(times), np.int32), times=times, values=values)
                batch = in_order(joined([old, batch]))
            data = chunks.pack(batch.times, batch.values)
        write_block(connection, bucket_s, series, span, samples, data)

    def _lose(
        self, connection: sqlite3.Connection, series: int, bucket_s: int, span: int, samples: object
    ) -> None:
        length_s = SPANS_S.get(bucket_s, HOUR_S)
        count = samples if isinstance(samples, int) else 0
        loss = Loss(
            kind=bucket_s, series=series, since=span * length_s, until=(span + 1) * length_s, samples=count
        )
        put_losses(connection, [loss])
        self._note(loss)

    def _note(self, reason: object) -> None:
        self._database.damage.note(f"{self._database.path}: damaged: {reason}")

    @staticmethod
    def _outlived(connection: sqlite3.Connection, at: CompactionProgress, now: float) -> list[int]:
        """Return the rows at the beginning of the log that are no longer needed, as many as one step may delete."""
        rows = connection.execute(
            "SELECT id, received, coalesce(length(data), 0) FROM log WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
            (at.deleted_to, at.closed_to, _ROWS),
        )
        hours: list[int] = []
        size = 0
        for row, received, length in rows:
            # few rows or few bytes: SQLite moves the pages of a deleted blob to its free list one by one
            size += length
            if abs(now - _received(received)) <= LINGER_S or (hours and size > _BYTES):
                break
            hours.append(row)
        return hours

    def _prune(self, connection: sqlite3.Connection, _deadline: float) -> None:
        at = progress(connection)
        # the clock may have been set since they were seen to be old
        if rows := self._outlived(connection, at, self._clock()):
            connection.execute("DELETE FROM log WHERE id <= ?", (rows[-1],))
            self._database.progress = replace(at, deleted_to=rows[-1])

    def _sweep(self, connection: sqlite3.Connection, deadline: float) -> None:
        """Delete outdated samples, series by series."""
        now, keep = self._clock(), self._horizon
        if self._sweep_from == 0:
            connection.execute("DELETE FROM source WHERE heard < ?", (now - keep.sources_s,))
        count = connection.execute("SELECT coalesce(max(id) + 1, 0) FROM series").fetchone()[0]
        while self._sweep_from < count:
            series, self._sweep_from = self._sweep_from, self._sweep_from + 1
            old = (series, _hour(now - keep.samples_s))
            outdated = "FROM block WHERE bucket_s = ? AND series = ? AND span < ?"
            # total() is a float that is 0.0 for no row, where sum() is NULL
            gone = connection.execute(f"SELECT total(samples) {outdated}", (0, *old)).fetchone()[0]
            if gone:
                connection.execute(f"DELETE {outdated}", (0, *old))
                self._count(connection, series, joined([]), -int(gone))
            for bucket_s, kept_s in keep.rollups_s.items():
                before = math.floor((now - kept_s) / SPANS_S[bucket_s])
                connection.execute(f"DELETE {outdated}", (bucket_s, series, before))
            if time.monotonic() >= deadline:
                return
        self._sweep_from = 0
        self._database.progress = replace(progress(connection), swept=_hour(now))


def _by_hour(batch: LogBatch) -> list[tuple[int, LogBatch]]:
    """Return hours in order, the samples of each oldest first."""
    batch = in_order(batch)
    hours = np.floor(batch.times / HOUR_S).astype(np.int64)
    # positions where the hour changes; the batch is in order of time
    edges = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist(), len(batch)]
    return [(int(hours[a]), batch.picked(slice(a, b))) for a, b in pairwise(edges) if a < b]


def _received(value: object) -> float:
    """Return a time of receipt in the log, that of long ago if it is damaged."""
    return value if isinstance(value, float) and math.isfinite(value) else 0.0


def _hour(t: float) -> int:
    return math.floor(t / HOUR_S)
