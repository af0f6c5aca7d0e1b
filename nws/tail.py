"""The tail: samples that are in the log and in no chunk yet, in memory and quickly found by series.

A `Pile` takes batches as they come and sorts them by series now and then, so that one series is read with a few
binary searches and no sample costs a step of the interpreter. A `Tail` is two piles, what is being closed and what
came after it, and follows the log as this process and others write to it. Nothing here is kept on disk.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nws.log import FIRST_HOUR, Batch, Progress, joined, progress, rows_after

HOUR_S = 3600.0

#: Samples collected before they are sorted, and sorted runs of that kind before they become one.
_FRESH = 16384
_RUNS = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Totals:
    """For each series by its id: samples int64[s], last time float64[s] (-inf: none), last value float64[s]."""

    samples: NDArray[np.int64]
    last_t: NDArray[np.float64]
    last: NDArray[np.float64]

    @classmethod
    def none(cls, size: int) -> Totals:
        """No samples of any of `size` series."""
        return cls(
            samples=np.zeros(size, np.int64), last_t=np.full(size, -np.inf), last=np.full(size, np.nan)
        )

    def add(self, batch: Batch) -> None:
        """Count them in; of two samples of the same time the later one in the batch is the last one."""
        self.samples[:] += np.bincount(batch.ids, minlength=len(self.samples))
        times, values, ids = batch.times, batch.values, batch.ids
        if not bool((times[1:] >= times[:-1]).all()):
            order = np.argsort(times, kind="stable")
            times, values, ids = times[order], values[order], ids[order]
        newer = times >= self.last_t[ids]
        # of several for one series the last assignment stays
        self.last_t[ids[newer]] = times[newer]
        self.last[ids[newer]] = values[newer]


class Pile:
    """Samples of any series in the order they came."""

    def __init__(self) -> None:
        self._runs: list[Batch] = []
        self._fresh = _room(_FRESH)
        self._filled = 0
        self._size = 0
        self._series: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        """Number of samples."""
        return self._size

    def add(self, batch: Batch) -> None:
        """Put them on top."""
        n = len(batch)
        self._size += n
        self._series = None
        if self._filled + n > _FRESH:
            self._sort()
        if n > _FRESH:
            self._push(batch)
            return
        room = slice(self._filled, self._filled + n)
        self._fresh.ids[room], self._fresh.times[room] = batch.ids, batch.times
        self._fresh.values[room] = batch.values
        self._filled += n

    def of(self, series: int) -> Batch:
        """Samples of one series, in the order they came."""
        found = []
        for run in self._runs:
            a, b = np.searchsorted(run.ids, np.array([series, series + 1], np.int32))
            if a < b:
                found.append(run.picked(slice(a, b)))
        fresh = self._fresh.ids[: self._filled] == series
        if fresh.any():
            found.append(self._fresh.picked(slice(self._filled)).picked(fresh))
        return joined(found)

    def series(self) -> NDArray[np.int32]:
        """Ids of the series that have samples here, in order."""
        if self._series is None:
            self._series = np.flatnonzero(
                np.bincount(np.concatenate([b.ids for b in self._batches()])),
            ).astype(np.int32)
        return self._series

    def count(self, totals: Totals, *, first: int = 0) -> None:
        """Count all samples of series from `first` on in."""
        for batch in self._batches():
            totals.add(batch if not first else batch.picked(batch.ids >= first))

    def _batches(self) -> list[Batch]:
        return [*self._runs, self._fresh.picked(slice(self._filled))]

    def _sort(self) -> None:
        if self._filled:
            self._push(self._fresh.picked(slice(self._filled)))
            self._filled = 0

    def _push(self, batch: Batch) -> None:
        self._runs.append(_by_series(batch))
        small = [run for run in self._runs[-_RUNS:] if len(run) < _RUNS * _FRESH // 2]
        if len(small) == _RUNS:
            self._runs[-_RUNS:] = [_by_series(joined(small))]


class Tail:
    """What of the log is in no chunk, as of the last `follow`."""

    def __init__(self) -> None:
        self.closing, self.open = Pile(), Pile()
        self.progress: Progress | None = None
        self._seen = 0

    def follow(self, connection: sqlite3.Connection) -> Progress:
        """Come up to this transaction's view of the log; `ValueError` for a row that makes no sense."""
        now, before = progress(connection), self.progress
        if before is None or (before.closed_to, before.closing_to) != (now.closed_to, now.closing_to):
            self.closing, self.open = Pile(), Pile()
            self._seen = now.closed_to
        for row, batch in rows_after(connection, self._seen):
            (self.closing if row <= now.closing_to else self.open).add(batch)
            self._seen = row
        self.progress = now
        return now

    def written(self, row: int, batch: Batch) -> None:
        """This process has put that row into the log, and the transaction is over."""
        if row == self._seen + 1 and self.progress is not None:
            self.open.add(batch)
            self._seen = row

    def advance(self, now: Progress) -> None:
        """This process has moved samples, and the transaction is over."""
        before, self.progress = self.progress, now
        assert before is not None  # who moves samples has followed the log
        if now.closing_to > before.closing_to:
            self.closing, self.open = self.open, Pile()
        elif now.closed_to == now.closing_to > before.closed_to:
            self.closing = Pile()

    def of(self, series: int) -> Batch:
        """Samples of one series that are in no chunk, in the order they were kept."""
        return joined([self.left_of(series), self.open.of(series)])

    def left_of(self, series: int) -> Batch:
        """Those of them that are being moved and have not been yet."""
        now = self.progress
        if now is None or series < now.series:
            return joined([])
        batch = self.closing.of(series)
        if series == now.series and now.hour != FIRST_HOUR:
            return batch.picked(np.floor(batch.times / HOUR_S) >= now.hour)
        return batch

    def totals(self, size: int) -> Totals:
        """What there is of every series in no chunk; `size`: number of series."""
        totals = Totals.none(size)
        if self.progress is not None and len(self.closing):
            self.closing.count(totals, first=self.progress.series + 1)
            totals.add(self.left_of(self.progress.series))
        self.open.count(totals)
        return totals


def _room(size: int) -> Batch:
    return Batch(ids=np.empty(size, np.int32), times=np.empty(size), values=np.empty(size))


def _by_series(batch: Batch) -> Batch:
    # numpy sorts 16-bit integers in linear time, and only those
    ids = batch.ids.astype(np.uint16) if not len(batch) or batch.ids.max() < 1 << 16 else batch.ids
    order = np.argsort(ids, kind="stable")
    return Batch(ids=batch.ids[order], times=batch.times[order], values=batch.values[order])
