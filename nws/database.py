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

from nws.errors import StoreError

#: "AppW" in the file's header tells our files from other SQLite databases.
APPLICATION_ID = 0x41707057
SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE hot (
    id INTEGER PRIMARY KEY AUTOINCREMENT, series INTEGER NOT NULL, t REAL NOT NULL, value REAL NOT NULL
);
CREATE TABLE chunk (
    series INTEGER NOT NULL, hour INTEGER NOT NULL, samples INTEGER NOT NULL,
    last_t REAL NOT NULL, last_value REAL NOT NULL, data BLOB NOT NULL,
    UNIQUE (series, hour)
);
CREATE TABLE progress (moved_to INTEGER NOT NULL);
INSERT INTO progress VALUES (0);
"""


class Database:
    """One connection, usable from any thread, one at a time.

    path : the file; it and its directory are made when absent.  busy_s : how long to wait for other processes
    """

    def __init__(self, path: Path, *, busy_s: float = 10.0) -> None:
        self.path = path
        self._busy_s = busy_s
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{path}: its directory cannot be made: {error.strerror or error}; "
                "set APPLES_STATE to a directory you may write to"
            ) from error
        with self._explained():
            self._connection = sqlite3.connect(
                path, timeout=busy_s, isolation_level=None, check_same_thread=False
            )
        try:
            with self._explained():
                self._prepare()
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
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # some failures, a full disk among them, have ended the transaction already
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _prepare(self) -> None:
        if self._pragma("application_id") == 0 and self._is_empty():
            # two processes may come here at once; the second finds the first one's work
            self._write_ahead()
            with self._transaction("BEGIN IMMEDIATE") as connection:
                if self._is_empty():
                    for statement in _SCHEMA.strip().split(";\n"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        found = self._pragma("application_id")
        if found != APPLICATION_ID:
            raise StoreError(
                f"{self.path}: an SQLite database of another program (application id {found:#x}, "
                f"expected {APPLICATION_ID:#x}); name another file or set APPLES_STATE"
            )
        version = self._pragma("user_version")
        if version != SCHEMA_VERSION:
            age = "a newer" if version > SCHEMA_VERSION else "an older"
            raise StoreError(
                f"{self.path}: written by {age} release (schema {version}, this one reads "
                f"{SCHEMA_VERSION}); use that release, or move the file away to start afresh"
            )
        self._write_ahead()
        self._connection.execute("PRAGMA synchronous=NORMAL")
        # opening reads little; ask for the write lock once, so that a read-only file shows now and not after a run
        with self._transaction("BEGIN IMMEDIATE") as connection:
            connection.execute("UPDATE progress SET moved_to = moved_to WHERE 0")

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
            raise StoreError(f"{self.path}: {_explanation(self.path, error)}") from error


def damaged(path: Path, what: object) -> StoreError:
    """Error for a store whose content makes no sense."""
    return StoreError(f"{path}: damaged: {what}; {_move_away(path)}")


def _move_away(path: Path) -> str:
    return f"move it away (mv '{path}' '{path}.broken') and measure again; the history in it is lost"


def _explanation(path: Path, error: sqlite3.Error) -> str:
    name = str(getattr(error, "sqlite_errorname", ""))
    if name.startswith("SQLITE_NOTADB"):
        return f"not an SQLite database; {_move_away(path)}, or name another file"
    if name.startswith("SQLITE_CORRUPT"):
        return f"damaged ({error}); {_move_away(path)}"
    if name.startswith("SQLITE_FULL"):
        return "no room left on its disk; nothing of this step was kept; free some, or set APPLES_STATE"
    if name.startswith("SQLITE_READONLY"):
        return "may not be written to; make file and directory writable, or set APPLES_STATE"
    if name.startswith("SQLITE_BUSY"):
        return "held by another process all the time; find it (fuser) or try again later"
    if name.startswith("SQLITE_CANTOPEN"):
        kind = "it is a directory" if path.is_dir() else "it or its directory may not be opened or written to"
        return f"cannot be opened: {kind}; name another file or set APPLES_STATE"
    return f"{name or 'SQLite'}: {error}; check the disk, or {_move_away(path)}"
