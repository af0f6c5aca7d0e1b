"""The SQLite file of the memory: its schema, and the settings of its connections.

One transaction for each step: a crash loses at most the step in progress. Several processes may use one file.
"""

from __future__ import annotations

from pathlib import Path

from nws.base.errors import StoreError
from nws.base.sqlite import SqliteFile, SqliteFormat

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

_LOSS = "measure again; the history in it is lost"


class StoreFull(StoreError):
    """The store has no space to write: a full disk, a quota, or the maximum length of a file. Reading works."""


_FORMAT = SqliteFormat(
    # "AppW"
    application_id=0x41707057,
    version=2,
    schema=_SCHEMA,
    pragmas={
        "synchronous": "NORMAL",
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
    elsewhere="name another file or set APPLES_STATE to a directory you may write to",
    loss=_LOSS,
)


class Database(SqliteFile):
    """The memory's file. `full_sync`: wait for the disk at each step, so that a power failure loses nothing."""

    def __init__(
        self, path: Path, *, busy_s: float = 10.0, in_memory: bool = False, full_sync: bool = False
    ) -> None:
        super().__init__(path, _FORMAT, busy_s=busy_s, in_memory=in_memory)
        if full_sync:
            with self.explained():
                self.connection.execute("PRAGMA synchronous=FULL")


def damaged(path: Path, reason: object) -> StoreError:
    """Return the error for a store whose content is not possible."""
    return StoreError(f"{path}: damaged: {reason}; move it away (mv '{path}' '{path}.broken') and {_LOSS}")
