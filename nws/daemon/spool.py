"""Undelivered measurements: a numbered stream of samples in a SQLite file of bounded size.

Each sample gets the next number when it is added, and is removed when the server has acknowledged that number. When the
file is full the oldest are dropped first, and counted. Every step is one transaction in a write-ahead log: a process
killed at any moment loses the step under way only. The numbers jump each time the file is opened, so that a file whose
last steps were lost with the power never uses a number twice. Nothing here contacts a server.
"""

import contextlib
import logging
import threading
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from nws.base.closing import Closing
from nws.base.errors import StoreDamaged, StoreError
from nws.base.sealed import crc
from nws.base.sqlite import SqliteFile, SqliteFormat
from nws.series import Measurement, Series

_LOG = logging.getLogger(__name__)

#: Numbers left out when the file is opened: more than one file can hold.
_JUMP = 1 << 24
#: Part of all samples that goes at once when there is no room.
_CUT = 20
_PAGE_BYTES = 4096
_FORMAT = SqliteFormat(
    application_id=0,
    version=1,
    schema="""
CREATE TABLE series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE sample (
    number INTEGER PRIMARY KEY, series INTEGER NOT NULL, t REAL NOT NULL, value REAL NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE fact (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID
""",
    pragmas={
        # one process at a time: the second would send the same samples
        "locking_mode": "EXCLUSIVE",
        "synchronous": "NORMAL",
        "wal_autocheckpoint": 64,
        "journal_size_limit": 64 * _PAGE_BYTES,
        "cache_size": -256,
    },
    page_bytes=_PAGE_BYTES,
    error=StoreError,
    error_if_full=StoreError,
    error_if_damaged=StoreDamaged,
    elsewhere="name another spool (--spool)",
    loss="begin a new one; the samples in it are lost",
    in_use="another sensor uses this spool; name another (--spool), or end it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBatch:
    """Samples with the numbers `first`, `first` + 1, …, oldest first."""

    first: int
    samples: tuple[Measurement, ...]

    @property
    def next(self) -> int:
        """Return number after the last."""
        return self.first + len(self.samples)


class Spool(Closing):
    """The file; a context manager, safe from several threads, and open in one process at a time.

    host : owner of the samples; a file of another host is refused
    most_bytes : size above which the oldest samples are dropped
    stream : name of the numbered stream, new with every new file.  dropped : samples lost for lack of room
    """

    def __init__(self, path: Path, host: str, *, most_bytes: int = 64 << 20) -> None:
        self.path, self._host = path, host
        self._lock = threading.Lock()
        self._most_bytes = max(most_bytes, 16 * _PAGE_BYTES)
        self._places: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._file = SqliteFile(path, _FORMAT, busy_s=1.0)
        self._db = self._file.connection
        self._db.create_function(
            "sealed",
            4,
            lambda number, series, t, value: crc("sample", number, self._names.get(series), t, value),
        )
        try:
            with self._file.explained():
                self._load()
        except BaseException:
            self._file.close()
            raise

    def _load(self) -> None:
        db = self._db
        self._names = dict(db.execute("SELECT id, name FROM series"))
        self._places = {name: number for number, name in self._names.items()}
        facts = dict(db.execute("SELECT name, value FROM fact"))
        for name in ("next", "dropped"):
            if not isinstance(facts.get(name, 0), int):
                raise StoreDamaged(
                    f"{self.path}: damaged: {name} is {facts[name]!r}, expected a whole number; move it away to begin "
                    "a new one; the samples in it are lost"
                )
        self._waiting = int(db.execute("SELECT count(*) FROM sample").fetchone()[0])
        owner = facts.get("host", self._host)
        if owner != self._host and self._waiting:
            raise StoreError(
                f"{self.path}: this spool holds {self._waiting} samples of host {owner}; name another for "
                f"{self._host} (--spool), or run the sensor of {owner} until they are delivered"
            )
        stream = facts.get("stream") if owner == self._host else None
        self.stream = str(stream or uuid.uuid4().hex)
        self.dropped: int = facts.get("dropped", 0)
        self._next: int = facts.get("next", 1 - _JUMP) + _JUMP
        (last,) = db.execute("SELECT max(number) FROM sample").fetchone()
        if last is not None and last >= self._next:
            self._next = int(last) + 1
        self._opened_at = self._next
        with self._file.writing():
            db.executemany(
                "INSERT OR REPLACE INTO fact VALUES (?, ?)",
                [
                    ("host", self._host),
                    ("stream", self.stream),
                    ("dropped", self.dropped),
                    ("next", self._next),
                ],
            )

    def __len__(self) -> int:
        return self._waiting

    def add(self, measurements: Sequence[Measurement]) -> None:
        """Keep these, in this order; on a full disk the oldest make room. Raises `StoreError` when nothing helps."""
        if not measurements:
            return
        with self._lock:
            try:
                self._insert(measurements)
            except StoreError:
                # a full disk, most likely: make room once; a second failure has another reason
                self._cut()
                try:
                    self._insert(measurements)
                except StoreError:
                    self.dropped += len(measurements)
                    raise
            if self._used_bytes() > self._most_bytes:
                self._cut()

    def oldest(self, most: int) -> SampleBatch | None:
        """Return the oldest samples without a gap in their numbers, `most` at most; None when nothing waits.

        Samples that do not match their checksum are dropped and counted.
        """
        with self._lock:
            with self._file.explained():
                rows = self._db.execute(
                    "SELECT number, series, t, value, crc FROM sample ORDER BY number LIMIT ?", (most,)
                ).fetchall()
            sound = [
                row for row in rows if row[4] == crc("sample", row[0], self._names.get(row[1]), *row[2:4])
            ]
            if len(sound) < len(rows):
                self._drop({row[0] for row in rows} - {row[0] for row in sound})
            if not sound:
                return None
            first = sound[0][0]
            samples = tuple(
                Measurement(Series.parse(self._names[series]), t, value)
                for index, (number, series, t, value, _) in enumerate(sound)
                if number == first + index
            )
        return SampleBatch(first=first, samples=samples)

    def _drop(self, numbers: Collection[int]) -> None:
        """Remove damaged samples."""
        _LOG.error("%s: %d samples are damaged and dropped", self.path, len(numbers))
        with self._file.writing():
            self._db.executemany("DELETE FROM sample WHERE number = ?", [(number,) for number in numbers])
            self._keep_dropped(self.dropped + len(numbers))
        self._waiting -= len(numbers)
        self.dropped += len(numbers)

    def _keep_dropped(self, count: int) -> None:
        self._db.execute("UPDATE fact SET value = ? WHERE name = 'dropped'", (count,))

    def acknowledge(self, following: int) -> int:
        """Forget everything numbered below `following`: the server has it; how many. Raises `StoreError`."""
        with self._lock:
            with self._file.writing():
                gone = self._db.execute("DELETE FROM sample WHERE number < ?", (following,)).rowcount
                if following > self._next:
                    # numbers that the server has seen, and this file has forgotten, are used up
                    self._next = following
                    self._db.execute("UPDATE fact SET value = ? WHERE name = 'next'", (self._next,))
            self._waiting -= gone
        return gone

    def shift(self, seconds: float) -> int:
        """Move the times of undelivered samples added since the file was opened; return their number."""
        with self._lock, self._file.writing():
            return self._db.execute(
                "UPDATE sample SET t = round(t + ?1, 3), crc = sealed(number, series, round(t + ?1, 3), value) "
                "WHERE number >= ?2 AND crc = sealed(number, series, t, value)",
                (seconds, self._opened_at),
            ).rowcount

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._file.close()

    def _insert(self, measurements: Sequence[Measurement]) -> None:
        names = dict.fromkeys(str(m.series) for m in measurements)
        with self._file.writing():
            fresh = {name: self._new_place(name) for name in names if name not in self._places}
            places = self._places | fresh
            rows = [
                (number, places[name], t, value, crc("sample", number, name, t, value))
                for number, (name, t, value) in enumerate(
                    ((str(m.series), float(m.t), float(m.value)) for m in measurements), self._next
                )
            ]
            self._db.executemany("INSERT INTO sample VALUES (?, ?, ?, ?, ?)", rows)
            self._db.execute(
                "UPDATE fact SET value = ? WHERE name = 'next'", (self._next + len(measurements),)
            )
        for name, index in fresh.items():
            self._names[index], self._places[name] = name, index
        self._next += len(measurements)
        self._waiting += len(measurements)

    def _new_place(self, name: str) -> int:
        (number,) = self._db.execute("INSERT INTO series (name) VALUES (?) RETURNING id", (name,)).fetchone()
        return int(number)

    def _used_bytes(self) -> int:
        (pages,) = self._db.execute("PRAGMA page_count").fetchone()
        (free,) = self._db.execute("PRAGMA freelist_count").fetchone()
        return int(pages - free) * _PAGE_BYTES

    def _cut(self) -> None:
        """Drop the oldest part of all samples."""
        many = -(-self._waiting // _CUT)
        if not many:
            return
        with contextlib.suppress(StoreError):
            with self._file.writing():
                gone = self._db.execute(
                    "DELETE FROM sample WHERE number IN (SELECT number FROM sample ORDER BY number LIMIT ?)",
                    (many,),
                ).rowcount
                self._keep_dropped(self.dropped + gone)
            # after the step: one that fails removes nothing
            self._waiting -= gone
            self.dropped += gone
