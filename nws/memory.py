"""The memory: every measurement kept on disk between runs, and read back in time order.

New measurements go to the end of one table in the order they come; once an hour is over, and another has passed,
its samples move into one compressed chunk for each series (`nws.chunks`). A row per sample keyed by series would
write a page for every sample; this writes a page for many. What is older than the retention is forgotten.
Several processes may use one memory; see `nws.database` for what happens when the file is unfit.
"""

from __future__ import annotations

import math
import sqlite3
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from nws.chunks import pack, unpack
from nws.database import Database, damaged
from nws.errors import UsageError
from nws.series import Measurement, Series

_HOUR_S = 3600.0
DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is kept of one series: number of samples, and the last of them (seconds since the epoch, its unit)."""

    series: Series
    samples: int
    last_t: float
    last: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Samples of one series, float64[n] each, oldest first."""

    times: array[float]
    values: array[float]

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Samples by series; `cursor` marks the last measurement that was known when it was read."""

    samples: Mapping[Series, Samples]
    cursor: int


class Memory:
    """The measurements in one file; a context manager. Raises `StoreError` wherever the file fails.

    retention_s : a sample older than the newest by that much may be forgotten
    """

    def __init__(self, path: Path, *, retention_s: float = 30 * DAY_S) -> None:
        self._database = Database(path)
        self._retention_s = retention_s

    @property
    def path(self) -> Path:
        """The file."""
        return self._database.path

    def append(self, measurements: Iterable[Measurement]) -> None:
        """Keep all of them, or none when this raises; `UsageError` for a value or time that is not finite."""
        rows = [(str(m.series), m.t, m.value) for m in measurements]
        for name, t, value in rows:
            if not (math.isfinite(t) and math.isfinite(value)):
                raise UsageError(f"{name}: {value} at {t} is not a measurement; both must be finite numbers")
        if not rows:
            return
        with self._database.writing() as connection:
            names = sorted({name for name, _, _ in rows})
            connection.executemany("INSERT OR IGNORE INTO series (name) VALUES (?)", [(n,) for n in names])
            ids = dict(connection.execute("SELECT name, id FROM series"))
            connection.executemany(
                "INSERT INTO hot (series, t, value) VALUES (?, ?, ?)", [(ids[n], t, v) for n, t, v in rows]
            )
            newest = max(t for _, t, _ in rows)
            first = connection.execute("SELECT t FROM hot ORDER BY id LIMIT 1").fetchone()
            if first[0] < _start_of_hour(newest) - _HOUR_S:
                self._move(connection, _start_of_hour(newest), newest - self._retention_s)

    def summaries(self) -> list[Summary]:
        """One for each series that has samples, by name."""
        with self._database.reading() as connection:
            names = self._names(connection)
            rows = connection.execute(
                "SELECT series, samples, last_t, last_value FROM chunk "
                "UNION ALL SELECT series, 1, t, value FROM hot"
            ).fetchall()
        known: dict[int, tuple[int, float, float]] = {}
        for key, samples, t, value in rows:
            count, last_t, last = known.get(key, (0, -math.inf, math.nan))
            known[key] = (count + samples, *((t, value) if t >= last_t else (last_t, last)))
        found = [Summary(series=names[k], samples=n, last_t=t, last=v) for k, (n, t, v) in known.items()]
        return sorted(found, key=lambda s: str(s.series))

    def history(self, *, since: float = -math.inf, most: int | None = None) -> History:
        """Samples measured at `since` (seconds since the epoch) or later, the newest `most` of each series."""
        times: dict[int, array[float]] = {}
        values: dict[int, array[float]] = {}
        with self._database.reading() as connection:
            names, cursor = self._names(connection), self._cursor(connection)
            hour = -(1 << 62) if since == -math.inf else math.floor(since / _HOUR_S)
            chunks = connection.execute(
                "SELECT series, data FROM chunk WHERE hour >= ? ORDER BY series, hour", (hour,)
            )
            for key, data in chunks:
                t, v = self._unpack(data)
                times.setdefault(key, array("d")).extend(t)
                values.setdefault(key, array("d")).extend(v)
            for key, t, v in connection.execute("SELECT series, t, value FROM hot ORDER BY id"):
                times.setdefault(key, array("d")).append(t)
                values.setdefault(key, array("d")).append(v)
        samples = {names[key]: _recent(times[key], values[key], since, most) for key in times}
        return History(samples={series: s for series, s in samples.items() if s}, cursor=cursor)

    def news(self, cursor: int) -> tuple[list[Measurement], int] | None:
        """Measurements kept since `cursor`, by any process, and the new cursor.

        None when some of them are in chunks already: read the `history` again.
        """
        with self._database.reading() as connection:
            if cursor < connection.execute("SELECT moved_to FROM progress").fetchone()[0]:
                return None
            names = self._names(connection)
            rows = connection.execute(
                "SELECT series, t, value FROM hot WHERE id > ? ORDER BY id", (cursor,)
            ).fetchall()
            return [Measurement(names[key], t, v) for key, t, v in rows], self._cursor(connection)

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _move(self, connection: sqlite3.Connection, before: float, oldest: float) -> None:
        """Samples measured before `before` into chunks; whole hours before `oldest` out of the memory."""
        rows = connection.execute("SELECT series, t, value, id FROM hot WHERE t < ?", (before,)).fetchall()
        moved_to = max(row[3] for row in rows)

        def place(row: tuple[int, float, float, int]) -> tuple[int, int]:
            return row[0], math.floor(row[1] / _HOUR_S)

        for (key, hour), group in groupby(sorted(rows, key=lambda r: (*place(r), r[1], r[3])), key=place):
            samples = [(t, value) for _, t, value, _ in group]
            there = connection.execute(
                "SELECT data FROM chunk WHERE series = ? AND hour = ?", (key, hour)
            ).fetchone()
            if there is not None:
                samples = sorted([*zip(*self._unpack(there[0]), strict=True), *samples], key=lambda s: s[0])
            connection.execute(
                "INSERT OR REPLACE INTO chunk (series, hour, samples, last_t, last_value, data) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (key, hour, len(samples), *samples[-1], pack(*zip(*samples, strict=True))),
            )
        connection.execute("DELETE FROM hot WHERE t < ?", (before,))
        connection.execute("UPDATE progress SET moved_to = max(moved_to, ?)", (moved_to,))
        connection.execute("DELETE FROM chunk WHERE hour < ?", (math.floor(oldest / _HOUR_S),))

    def _names(self, connection: sqlite3.Connection) -> dict[int, Series]:
        try:
            return {
                key: Series.parse(name) for key, name in connection.execute("SELECT id, name FROM series")
            }
        except UsageError as error:
            raise damaged(self.path, error) from error

    def _unpack(self, data: bytes) -> tuple[array[float], array[float]]:
        try:
            return unpack(data)
        except ValueError as error:
            raise damaged(self.path, error) from error

    @staticmethod
    def _cursor(connection: sqlite3.Connection) -> int:
        # the sequence remembers the last id given out even when the row has moved to a chunk
        row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'hot'").fetchone()
        return int(row[0]) if row else 0


def _start_of_hour(t: float) -> float:
    return math.floor(t / _HOUR_S) * _HOUR_S


def _recent(times: array[float], values: array[float], since: float, most: int | None) -> Samples:
    """Oldest first, as processes with clocks of their own may have written out of order."""
    order = sorted(range(len(times)), key=times.__getitem__)
    keep = [i for i in order if times[i] >= since]
    if most is not None:
        keep = keep[max(len(keep) - most, 0) :]
    return Samples(times=array("d", (times[i] for i in keep)), values=array("d", (values[i] for i in keep)))
