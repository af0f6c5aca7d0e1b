"""The head block: samples that are in the log and in no chunk yet, in memory and indexed by series.

A `SortedBuffer` takes batches in order of arrival and sorts them by series now and then, so that one series is read
with a few binary searches and no sample costs a step of the interpreter. A `HeadBlock` is two buffers, the one being
closed and the later one, and follows the log as this process and others write to it. Nothing here is kept on disk.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nws.memory.integrity import Loss
from nws.memory.log import FIRST_HOUR, CompactionProgress, LogBatch, joined, progress, rows_after

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
        """Return no samples of any of `size` series."""
        return cls(
            samples=np.zeros(size, np.int64), last_t=np.full(size, -np.inf), last=np.full(size, np.nan)
        )

    def add(self, run: Run, *, first: int = 0) -> None:
        """Count the samples of series from `first` on in, which came after those that were counted before."""
        counts, last = run.last()
        a = int(np.searchsorted(last.ids, first))
        ids, times, values = last.ids[a:], last.times[a:], last.values[a:]
        self.samples[ids] += counts[a:]
        # of equal times the later arrival counts, as everywhere
        newer = times >= self.last_t[ids]
        self.last_t[ids[newer]] = times[newer]
        self.last[ids[newer]] = values[newer]


class Run:
    """Samples sorted by series; those of one series in the order they came."""

    def __init__(self, batch: LogBatch) -> None:
        # numpy sorts 16-bit integers in linear time, and only those
        narrow = not len(batch) or batch.ids.max() < 1 << 16
        # stable, so that the samples of a series stay in the order of their arrival
        order = np.argsort(batch.ids.astype(np.uint16) if narrow else batch.ids, kind="stable")
        self.batch = batch.picked(order)
        self._last: tuple[NDArray[np.int64], LogBatch] | None = None

    def of(self, series: int) -> LogBatch:
        """Return samples of one series."""
        # the type of the ids: numpy would convert the whole column to int64 for other types
        a, b = np.searchsorted(self.batch.ids, np.array([series, series + 1], np.int32))
        return self.batch.picked(slice(int(a), int(b)))

    def last(self) -> tuple[NDArray[np.int64], LogBatch]:
        """Return the number of samples and the last one of each series, by time; of equal times the latest arrival."""
        if self._last is None:
            batch = self.batch
            if not len(batch):
                return np.empty(0, np.int64), batch
            # whether a sample is of the same series as the one before it
            again = batch.ids[1:] == batch.ids[:-1]
            if bool((again & (batch.times[1:] < batch.times[:-1])).any()):
                order = np.lexsort((batch.times, batch.ids))
                batch = LogBatch(ids=batch.ids, times=batch.times[order], values=batch.values[order])
            ends = np.append(np.flatnonzero(~again), len(batch) - 1)
            counts = ends.copy()
            counts[1:] -= ends[:-1]
            counts[0] += 1
            # copies, so that a run that was merged into another is not kept by them
            self._last = counts, batch.picked(ends)
        return self._last


class SortedBuffer:
    """Samples of any series in the order they came."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._fresh = _room(_FRESH)
        self._filled = 0
        self._size = 0
        self._series: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return self._size

    def add(self, batch: LogBatch) -> None:
        """Put them on top."""
        n = len(batch)
        self._size += n
        self._series = None
        if self._filled + n > _FRESH:
            self._sort()
        # a large batch is a run of its own and need not be copied
        if n > _FRESH:
            self._push(batch)
            return
        room = slice(self._filled, self._filled + n)
        self._fresh.ids[room], self._fresh.times[room] = batch.ids, batch.times
        self._fresh.values[room] = batch.values
        self._filled += n

    def of(self, series: int) -> LogBatch:
        """Return samples of one series, in the order they came."""
        fresh = self._fresh.picked(slice(self._filled))
        parts = [*(run.of(series) for run in self._runs), fresh.picked(np.flatnonzero(fresh.ids == series))]
        return joined([batch for batch in parts if len(batch)])

    def series(self) -> NDArray[np.int32]:
        """Return ids of the series that have samples here, in order."""
        if self._series is None:
            ids = [run.last()[1].ids for run in self._all()]
            self._series = np.flatnonzero(np.bincount(np.concatenate(ids))).astype(np.int32)
        return self._series

    def count(self, totals: Totals, *, first: int = 0) -> None:
        """Count all samples of series from `first` on in."""
        for run in self._all():
            totals.add(run, first=first)

    def _all(self) -> list[Run]:
        return [*self._runs, Run(self._fresh.picked(slice(self._filled)))]

    def _sort(self) -> None:
        if self._filled:
            self._push(self._fresh.picked(slice(self._filled)))
            self._filled = 0

    def _push(self, batch: LogBatch) -> None:
        self._runs.append(Run(batch))
        # eight small runs become one, so each sample is sorted a few times only
        small = [run.batch for run in self._runs[-_RUNS:] if len(run.batch) < _RUNS * _FRESH // 2]
        if len(small) == _RUNS:
            self._runs[-_RUNS:] = [Run(joined(small))]


class HeadBlock:
    """Samples of the log that are in no chunk, as of the last `follow`."""

    def __init__(self) -> None:
        self.closing, self.open = SortedBuffer(), SortedBuffer()
        self.progress: CompactionProgress | None = None
        #: Losses of damaged rows, each with the number of its row.
        self.losses: list[tuple[int, Loss]] = []
        #: The last row that this process wrote, and its samples.
        self.latest: tuple[int, LogBatch] | None = None
        self._seen = 0

    def follow(self, connection: sqlite3.Connection) -> CompactionProgress:
        """Update to this transaction's view of the log."""
        now, before = progress(connection), self.progress
        # the first time, or another process has moved samples: which ones is not known, so read the log again
        if before is None or (before.closed_to, before.closing_to) != (now.closed_to, now.closing_to):
            self.closing, self.open = SortedBuffer(), SortedBuffer()
            self.losses = []
            self._seen = now.closed_to
        for row, batch, losses in rows_after(connection, self._seen, now.written_to):
            # rows up to `closing_to` are being moved, and are in chunks in part
            (self.closing if row <= now.closing_to else self.open).add(batch)
            self.losses += [(row, loss) for loss in losses]
            self._seen = row
        self.progress = now
        return now

    def written(self, row: int, batch: LogBatch) -> None:
        """Add a row that this process has committed to the log."""
        self.latest = row, batch
        # a gap is filled by the next `follow`, which reads the rows of other processes
        if row == self._seen + 1 and self.progress is not None:
            self.open.add(batch)
            self._seen = row

    def advance(self, now: CompactionProgress) -> None:
        """Drop samples that this process has moved in a committed transaction."""
        before, self.progress = self.progress, now
        assert before is not None  # who moves samples has followed the log
        if now.closing_to > before.closing_to:
            self.closing, self.open = self.open, SortedBuffer()
        elif now.closed_to == now.closing_to > before.closed_to:
            self.closing = SortedBuffer()
            self.losses = [(row, loss) for row, loss in self.losses if row > now.closed_to]

    def of(self, series: int) -> LogBatch:
        """Return samples of one series that are in no chunk, in the order they were kept."""
        return joined([self.left_of(series), self.open.of(series)])

    def left_of(self, series: int) -> LogBatch:
        """Return those of them that are being moved and have not been yet."""
        now = self.progress
        # series are moved in the order of their ids
        if now is None or series < now.series:
            return joined([])
        batch = self.closing.of(series)
        if series == now.series and now.hour != FIRST_HOUR:
            return batch.picked(np.floor(batch.times / HOUR_S) >= now.hour)
        return batch

    def totals(self, size: int) -> Totals:
        """Return the totals of every series in no chunk; `size`: number of series."""
        totals = Totals.none(size)
        # in order of arrival
        if self.progress is not None and len(self.closing):
            self.closing.count(totals, first=self.progress.series + 1)
            totals.add(Run(self.left_of(self.progress.series)))
        self.open.count(totals)
        return totals


def _room(size: int) -> LogBatch:
    return LogBatch(ids=np.empty(size, np.int32), times=np.empty(size), values=np.empty(size))
