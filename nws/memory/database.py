"""The SQLite file of the memory: its schema, and the settings of its connections.

One transaction for each step: a crash loses at most the step in progress. Several processes may use one file.
Every row has a checksum (`integrity.crc`); triggers keep the count and the sum of keys of each table, so that a missing
row is noticed as well.

The lock that lets one service use a store: two would issue the same names with different keys.

Programs that only read or write measurements in the store need no lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING

from nws.base.errors import StoreDamaged, StoreError
from nws.base.files import Replacement, make_private, set_aside
from nws.base.lock import FileLock, LockHeld
from nws.base.oserrors import REASON, os_errors_as
from nws.base.sealed import crc
from nws.base.sqlite import SqliteFile, SqliteFormat
from nws.memory.integrity import DamagedRows, DamageLog, get_losses

if TYPE_CHECKING:
    from nws.memory.log import CompactionProgress

#: Lengths of the buckets of a table's blocks: 0 for samples as measured.
KINDS = (0, 60, 600)
#: Tables with a count and a sum of ids.
TALLIED = ("series", "source", "host", "event", "forecaster", "loss")

# times in seconds since the epoch, spans counted from it; `total` and `progress` count samples in blocks only.
# Names of series and the progress exist twice, as everything depends on them.
_TABLES = """
CREATE TABLE series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, crc INTEGER NOT NULL);
CREATE TABLE series_copy (id INTEGER PRIMARY KEY, name TEXT NOT NULL, crc INTEGER NOT NULL);
CREATE TRIGGER series_copied AFTER INSERT ON series BEGIN
    INSERT INTO series_copy VALUES (NEW.id, NEW.name, NEW.crc); END;
CREATE TABLE log (
    id INTEGER PRIMARY KEY, received REAL NOT NULL, data BLOB NOT NULL,
    times_crc INTEGER NOT NULL, values_crc INTEGER NOT NULL, ids_crc INTEGER NOT NULL
);
CREATE TABLE block (
    bucket_s INTEGER NOT NULL, series INTEGER NOT NULL, span INTEGER NOT NULL, samples INTEGER NOT NULL,
    crc INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE (bucket_s, series, span)
);
CREATE TABLE source (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, next INTEGER NOT NULL, heard REAL NOT NULL,
    crc INTEGER NOT NULL
);
CREATE TABLE host (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, document TEXT NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT, t REAL NOT NULL, kind TEXT NOT NULL, host TEXT,
    text TEXT NOT NULL, crc INTEGER NOT NULL
);
CREATE INDEX event_by_time ON event (t);
CREATE TABLE forecaster (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, data BLOB NOT NULL, crc INTEGER NOT NULL
);
CREATE TABLE loss (
    id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, series INTEGER NOT NULL, since REAL NOT NULL,
    until REAL NOT NULL, samples INTEGER NOT NULL, crc INTEGER NOT NULL
)
"""


def back_up(database: Database, target: Path) -> int:
    """Copy a store to a file, as it is at one instant, and return its length in bytes; raises `StoreError`."""
    if target.exists() and target.samefile(database.path):
        raise StoreError(f"{target}: it is the store itself; name another file")
    with (
        os_errors_as(
            StoreError, f"{target}: the copy cannot be written: {REASON}; make room, or name another file"
        ),
        Replacement(target, mode=0o600, sync=True) as temporary,
    ):
        # all pages in one step, so that they are of one instant; readers of a write-ahead log block no writer
        database.copy_to(temporary)
        return os.stat(temporary).st_size


def _schema() -> str:
    """Return the tables, and the triggers that count their rows."""
    sums = "".join(
        f", {t}_rows INTEGER NOT NULL DEFAULT 0, {t}_sum INTEGER NOT NULL DEFAULT 0" for t in TALLIED
    )
    spans = "".join(
        f", rows_{k} INTEGER NOT NULL DEFAULT 0, sum_{k} INTEGER NOT NULL DEFAULT 0" for k in KINDS
    )
    start = (0, 0, 0, 0, 0, 0, None)
    statements = [
        _TABLES.strip(),
        "CREATE TABLE total (id INTEGER PRIMARY KEY, samples INTEGER NOT NULL DEFAULT 0, last_t REAL, "
        f"last_value REAL, crc INTEGER NOT NULL{spans})",
        "CREATE TABLE progress (written_to INTEGER NOT NULL, deleted_to INTEGER NOT NULL, "
        "closed_to INTEGER NOT NULL, closing_to INTEGER NOT NULL, series INTEGER NOT NULL, hour INTEGER NOT NULL, "
        f"swept INTEGER, crc INTEGER NOT NULL{sums})",
        # two equal rows: either is enough
        *2
        * [
            "INSERT INTO progress (written_to, deleted_to, closed_to, closing_to, series, hour, crc) "
            f"VALUES (0, 0, 0, 0, 0, 0, {crc('progress', *start)})"
        ],
    ]
    for sign, event, row in (("+", "INSERT", "NEW"), ("-", "DELETE", "OLD")):
        for table in TALLIED:
            # a trigger in the same transaction as the row it counts: both are kept, or neither
            key = event_key(row) if table == "event" else f"{row}.id"
            statements.append(
                f"CREATE TRIGGER {table}_{event} AFTER {event} ON {table} BEGIN UPDATE progress SET "
                f"{table}_rows = {table}_rows {sign} 1, {table}_sum = {table}_sum {sign} ({key}); END"
            )
        for kind in KINDS:
            statements.append(
                f"CREATE TRIGGER block_{kind}_{event} AFTER {event} ON block WHEN {row}.bucket_s = {kind} BEGIN "
                f"UPDATE total SET rows_{kind} = rows_{kind} {sign} 1, sum_{kind} = sum_{kind} {sign} {row}.span "
                f"WHERE id = {row}.series; END"
            )
    return ";\n".join(statements)


def event_key(row: str) -> str:
    """Return the expression of an event in the sum: events are found by their times."""
    return f"{row}.id + CAST({row}.t * 1000 AS INTEGER)"


def store_progress(connection: Connection, at: CompactionProgress) -> None:
    """Store the progress in its rows; `DamagedRows` if they are missing."""
    # without WHERE: both copies
    updated = connection.execute(
        "UPDATE progress SET written_to = ?, deleted_to = ?, closed_to = ?, closing_to = ?, series = ?, hour = ?, "
        "swept = ?, crc = ?",
        (*at.columns(), crc("progress", *at.columns())),
    )
    if not updated.rowcount:
        raise DamagedRows("the progress of its log is missing")


def refuse_missing_events(connection: Connection) -> None:
    """Raise `DamagedRows` if rows of the table of events are missing."""
    newest = connection.execute(
        # not by the index, which would be what lost them
        f"SELECT count(*), coalesce(sum({event_key('event')}), 0) FROM event NOT INDEXED"
    ).fetchone()
    if newest not in connection.execute("SELECT event_rows, event_sum FROM progress").fetchall():
        raise DamagedRows("events are missing")


_LOSS = "measure again; the history in it is lost"


class StoreFull(StoreError):
    """The store has no space to write: a full disk, a quota, or the maximum length of a file. Reading works."""


FORMAT = SqliteFormat(
    # "AppW"
    application_id=0x41707057,
    version=3,
    schema=_schema(),
    pragmas={
        # No flush at each commit. A killed process loses nothing; a power failure may lose the last steps, but
        # the write-ahead log keeps the file consistent.
        "synchronous": "NORMAL",
        # negative: KiB instead of pages
        "cache_size": -8192,
        # The log is copied into the file every so many pages, which delays the writer of that moment.
        "wal_autocheckpoint": 256,
        # After a burst, the write-ahead log is cut to this length, bytes.
        "journal_size_limit": 32 << 20,
    },
    # Large enough that chunks of some kB leave little of a page unused.
    page_bytes=8192,
    error=StoreError,
    error_if_full=StoreFull,
    error_if_damaged=StoreDamaged,
    elsewhere="name another file or set APPLES_STATE to a directory you may write to",
    loss=_LOSS,
    repair="nws repair --store",
)


class Database(SqliteFile):
    """The memory's file. `full_sync`: wait for the disk at each step, so that a power failure loses nothing.

    damage : the damage found in it since it was opened
    progress : set it in a transaction that moves it; stored with the step
    """

    def __init__(
        self,
        path: Path,
        *,
        busy_s: float = 10.0,
        in_memory: bool = False,
        full_sync: bool = False,
    ) -> None:
        self.damage = DamageLog()
        self.progress: CompactionProgress | None = None
        if not in_memory:
            _keep_orphan(path, self.damage)
        super().__init__(path, FORMAT, busy_s=busy_s, in_memory=in_memory)
        try:
            # FULL flushes the write-ahead log at each commit
            if full_sync:
                with self.explained():
                    self.connection.execute("PRAGMA synchronous=FULL")
            # health names losses from the start, not only when a query meets them
            self._note_losses()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield the connection in a transaction that writes all of the block, or nothing if it raises."""
        with super().writing() as connection:
            try:
                yield connection
                # last in the transaction, so that it describes what the block has written
                if self.progress is not None:
                    store_progress(connection, self.progress)
            finally:
                self.progress = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of SQLite, and `DamagedRows`, into errors of the store; note damage."""
        try:
            with super().explained():
                yield
        except DamagedRows as error:
            damage = damaged(self.path, error)
            self.damage.note(str(damage))
            raise damage from error
        except StoreDamaged as error:
            self.damage.note(str(error))
            raise

    def _note_losses(self) -> None:
        """Note losses that were found earlier."""
        with self.reading() as connection:
            # a damaged cell may be a text
            (losses,) = connection.execute("SELECT max(loss_rows) FROM progress").fetchone()
            for loss in get_losses(connection) if losses else ():
                self.damage.note(f"{self.path}: {loss}; `nws repair` forgets this")


def damaged(path: Path, reason: object) -> StoreDamaged:
    """Return the error for a store whose content is not possible."""
    return StoreDamaged(
        f"{path}: damaged: {reason}; run `nws repair --store '{path}'`, which keeps everything else"
    )


def _keep_orphan(path: Path, damage: DamageLog) -> None:
    """Keep the write-ahead log of an emptied file aside: SQLite would delete it."""
    log = path.with_name(f"{path.name}-wal")
    try:
        # a write-ahead log beside an empty file is of a file that was cut, and may hold the last steps
        if path.stat().st_size or not log.stat().st_size:
            return
        damage.note(f"{path}: was emptied; its write-ahead log is kept as {set_aside(log)}")
    except OSError:
        # no such file; SQLite reports others
        return


def store_lock(store: Path) -> FileLock:
    """Return the lock of a store, held; raises `StoreError` if another service holds it."""
    path = store.with_name(f"{store.name}.lock")
    try:
        make_private(path.parent)
        return FileLock(path)
    except LockHeld as held:
        raise StoreError(
            f"{store}: another weather service runs on this store, {held.holder}; end it, or name another store"
        ) from None
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be made: {error.strerror or error}; set the store to a file in a writable directory"
        ) from error
