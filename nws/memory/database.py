"""The SQLite file behind the memory: opening it, its schema, and every way it can fail said in one sentence.

Write-ahead log and one transaction for each step, so that a crash at any moment loses at most the step under way;
several processes may use one file, and wait for each other some seconds. A file that is not ours is never
written to: what it is, and what to do, is in the `StoreError`.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nws.base.errors import StoreError

#: "AppW" in the file's header tells our files from other SQLite databases.
APPLICATION_ID = 0x41707057
SCHEMA_VERSION = 2

#: Large enough that chunks of some kB leave little of a page unused.
_PAGE_BYTES = 8192
_CACHE_KB = 8192
_WAL_BYTES = 32 << 20
#: The log goes into the file that often, which holds up whoever writes just then.
_WAL_PAGES = 256

# times in seconds since the epoch, hours counted from it; `series` and `progress` tell of samples in chunks only
_SCHEMA = """
CREATE TABLE series (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    samples INTEGER NOT NULL DEFAULT 0, last_t REAL, last_value REAL
);
CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, received REAL NOT NULL, data BLOB NOT NULL);
CREATE TABLE chunk (
    series INTEGER NOT NULL, hour INTEGER NOT NULL, samples INTEGER NOT NULL, data BLOB NOT NULL,
    UNIQUE (series, hour)
);
CREATE TABLE rollup (
    bucket_s INTEGER NOT NULL, series INTEGER NOT NULL, span INTEGER NOT NULL, data BLOB NOT NULL,
    UNIQUE (bucket_s, series, span)
);
CREATE TABLE source (name TEXT PRIMARY KEY, next INTEGER NOT NULL, heard REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE progress (
    deleted_to INTEGER NOT NULL DEFAULT 0, closed_to INTEGER NOT NULL DEFAULT 0,
    closing_to INTEGER NOT NULL DEFAULT 0, series INTEGER NOT NULL DEFAULT 0,
    hour INTEGER NOT NULL DEFAULT 0, swept INTEGER
);
INSERT INTO progress DEFAULT VALUES;
CREATE TABLE host (name TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT, t REAL NOT NULL, kind TEXT NOT NULL, host TEXT,
    text TEXT NOT NULL, document TEXT
);
CREATE INDEX event_by_time ON event (t);
CREATE TABLE forecaster (name TEXT PRIMARY KEY, data BLOB NOT NULL)
"""


class StoreFull(StoreError):
    """There is no room to write: disk full, quota used up, or file as long as it may be. Reading goes on."""


class Database:
    """One connection, usable from any thread, one at a time.

    path : the file; it and its directory are made when absent.  busy_s : how long to wait for other processes
    in_memory : keep everything in memory and only call it `path`; gone when closed
    full_sync : wait for the disk at each step, so that not even a power failure loses what was kept
    """

    def __init__(
        self, path: Path, *, busy_s: float = 10.0, in_memory: bool = False, full_sync: bool = False
    ) -> None:
        self.path = path
        #: Held in every transaction; take it to do several things in a row that belong together.
        self.lock = threading.RLock()
        self._busy_s = busy_s
        if not in_memory:
            _make_directory_of(path)
        with self._explained():
            self._connection = sqlite3.connect(
                ":memory:" if in_memory else path,
                timeout=busy_s,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            with self._explained():
                self._prepare(full_sync)
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of the file; `StoreError` when it cannot be read."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """All of the block or nothing of it; `StoreError` when it cannot be written."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def close(self) -> None:
        """Let go of the file."""
        with self.lock:
            self._connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self.lock, self._explained():
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # some failures, a full disk among them, have ended the transaction already
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _prepare(self, full_sync: bool) -> None:
        if self._pragma("application_id") == 0 and self._is_empty():
            self._create()
        found = self._pragma("application_id")
        if found != APPLICATION_ID:
            raise StoreError(
                f"{self.path}: an SQLite database of another program (application id {found:#x}, "
                f"expected {APPLICATION_ID:#x}); name another file or set APPLES_STATE"
            )
        if self._pragma("user_version") == 1:
            self._migrate()
        version = self._pragma("user_version")
        if version != SCHEMA_VERSION:
            age = "a newer" if version > SCHEMA_VERSION else "an older"
            raise StoreError(
                f"{self.path}: written by {age} release (schema {version}, this one reads "
                f"1 and {SCHEMA_VERSION}); use that release, or move the file away to start afresh"
            )
        self._write_ahead()
        self._connection.execute(f"PRAGMA synchronous={'FULL' if full_sync else 'NORMAL'}")
        self._connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
        self._connection.execute(f"PRAGMA wal_autocheckpoint={_WAL_PAGES}")
        # what a burst has made of the write-ahead log goes back to the disk
        self._connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES}")
        # opening reads little; ask for the write lock once, so that a read-only file shows now and not after a run
        with self._transaction("BEGIN IMMEDIATE") as connection:
            connection.execute("UPDATE progress SET closed_to = closed_to WHERE 0")

    def _create(self) -> None:
        self._connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        # two processes may come here at once; the second finds the first one's work
        self._write_ahead()
        with self._transaction("BEGIN IMMEDIATE") as connection:
            if self._is_empty():
                create_tables(connection)
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _migrate(self) -> None:
        from nws.memory.migration import migrate

        self._write_ahead()
        with self._transaction("BEGIN IMMEDIATE") as connection:
            # another process may have done it while this one waited
            if self._pragma("user_version") == 1:
                migrate(connection, self.path)
                connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _write_ahead(self) -> None:
        """Switch to a write-ahead log; SQLite's own waiting does not cover this step, so it is repeated here."""
        give_up = time.monotonic() + self._busy_s
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
            else:
                return

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _is_empty(self) -> bool:
        return self._connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            kind = StoreFull if _is_full(error) else StoreError
            raise kind(f"{self.path}: {_explanation(self.path, error)}") from error


def create_tables(connection: sqlite3.Connection) -> None:
    """The tables of the present schema, all empty."""
    for statement in _SCHEMA.strip().split(";\n"):
        connection.execute(statement)


def damaged(path: Path, what: object) -> StoreError:
    """Error for a store whose content makes no sense."""
    return StoreError(f"{path}: damaged: {what}; {_move_away(path)}")


def _move_away(path: Path) -> str:
    return f"move it away (mv '{path}' '{path}.broken') and measure again; the history in it is lost"


def _make_directory_of(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{path}: its directory cannot be made: {error.strerror or error}; "
            "set APPLES_STATE to a directory you may write to"
        ) from error


def _is_full(error: sqlite3.Error) -> bool:
    # a quota and a limit of the file's length are write errors to SQLite, and so is the shared index of the log
    name = str(getattr(error, "sqlite_errorname", ""))
    return name in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE")


def _explanation(path: Path, error: sqlite3.Error) -> str:
    name = str(getattr(error, "sqlite_errorname", ""))
    if name.startswith("SQLITE_NOTADB"):
        return f"not an SQLite database; {_move_away(path)}, or name another file"
    if name.startswith("SQLITE_CORRUPT"):
        return f"damaged ({error}); {_move_away(path)}"
    if _is_full(error):
        limit = "" if name == "SQLITE_FULL" else " or within a quota or limit"
        return (
            f"no room left on its disk{limit}; nothing of this step was kept; free some, or set APPLES_STATE"
        )
    if name.startswith("SQLITE_READONLY"):
        return "may not be written to; make file and directory writable, or set APPLES_STATE"
    if name.startswith("SQLITE_BUSY"):
        return "held by another process all the time; find it (fuser) or try again later"
    if name.startswith("SQLITE_CANTOPEN"):
        kind = "it is a directory" if path.is_dir() else "it or its directory may not be opened or written to"
        return f"cannot be opened: {kind}; name another file or set APPLES_STATE"
    return f"{name or 'SQLite'}: {error}; check the disk, or {_move_away(path)}"
