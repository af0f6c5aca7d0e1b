"""Opening and writing SQLite files: identification, write-ahead log, transactions, and one sentence for each failure.

A file with another header or schema is never written to. Every failure of SQLite becomes an error that names the file,
the reason and the remedy.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from nws.base.errors import ReportedError
from nws.base.files import make_private


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteFormat:
    """A kind of SQLite file, and its words in error messages.

    application_id, version : values in the file's header
    schema : statements that create the tables, separated by a semicolon and a line break
    pragmas : settings of each connection.  page_bytes : page size of a new file
    error, error_if_full, error_if_damaged : classes of errors; the second if there is no space to write
    elsewhere : how to use another file.  loss : the next step after moving the file away, and the lost data
    repair : the command that repairs a file, without its name; empty if there is none
    in_use : description of a file that another process has locked
    """

    application_id: int
    version: int
    schema: str
    pragmas: Mapping[str, int | str] = field(default_factory=dict)
    page_bytes: int = 4096
    error: type[ReportedError]
    error_if_full: type[ReportedError]
    error_if_damaged: type[ReportedError]
    elsewhere: str
    loss: str
    repair: str = ""
    in_use: str = "held by another process all the time; find it (fuser) or try again later"


class SqliteFile:
    """One connection to an SQLite file, for all threads, one at a time.

    path : the file; created with its directory if absent.  busy_s : seconds to wait for other processes
    in_memory : keep the content in memory, under the name `path` in messages
    """

    def __init__(self, path: Path, kind: SqliteFormat, *, busy_s: float, in_memory: bool = False) -> None:
        self.path = path
        #: Held in every transaction; hold it for several that belong together.
        self.lock = threading.RLock()
        self._format, self._busy_s = kind, busy_s
        if not in_memory:
            _make_directory(self.path, self._format)
            _make_private(self.path)
        with self.explained():
            self.connection = sqlite3.connect(
                ":memory:" if in_memory else path,
                timeout=busy_s,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            with self.explained():
                self._prepare()
        except BaseException:
            self.connection.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a transaction that reads one state of the file."""
        with self._transaction("BEGIN"):
            yield self.connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a transaction that writes all of the block, or nothing if it raises."""
        with self._transaction("BEGIN IMMEDIATE"):
            yield self.connection

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn each `sqlite3.Error` of the block into an error of the format."""
        try:
            yield
        except sqlite3.Error as error:
            kind = self._format.error
            if _is_full(error):
                kind = self._format.error_if_full
            elif _is_damage(error):
                kind = self._format.error_if_damaged
            raise kind(f"{self.path}: {self._explanation(error)}") from error
        except MemoryError as error:
            raise self._format.error(
                f"{self.path}: no memory is left; nothing of this step was kept; end other programs, or try again"
            ) from error
        except UnicodeDecodeError as error:
            # text of the file, or of a message that quotes it
            raise self._format.error_if_damaged(
                f"{self.path}: damaged ({error}); {self._move_away()}"
            ) from error

    def copy_to(self, path: str) -> None:
        """Copy the content of one instant to an empty file, while other processes write on; raises as `explained`."""
        with self.explained(), closing(sqlite3.connect(path)) as copy:
            self.connection.backup(copy)
            # one file, without a write-ahead log beside it
            copy.execute("PRAGMA journal_mode=DELETE")

    def in_memory(self) -> SqliteFile:
        """Return a copy of the content in memory, for a process that goes on where a file cannot be written."""
        memory = SqliteFile(self.path, self._format, busy_s=self._busy_s, in_memory=True)
        with self.explained():
            self.connection.backup(memory.connection)
        return memory

    def close(self) -> None:
        """Close the connection."""
        with self.lock:
            self.connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self.lock, self.explained():
            self.connection.execute(begin)
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                # a full disk, for example, has ended the transaction already
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def _prepare(self) -> None:
        kind = self._format
        if "locking_mode" in kind.pragmas:
            # before the write-ahead log, which then needs no shared memory
            self.connection.execute(f"PRAGMA locking_mode={kind.pragmas['locking_mode']}")
        if self._pragma("application_id") in (0, kind.application_id) and _is_empty(self.connection):
            self._create()
        application = self._pragma("application_id")
        if application != kind.application_id:
            raise kind.error(
                f"{self.path}: an SQLite database of another program (application id {application:#x}, "
                f"expected {kind.application_id:#x}); {kind.elsewhere}"
            )
        version = self._pragma("user_version")
        if version != kind.version:
            age = "a newer" if version > kind.version else "an older"
            raise kind.error(
                f"{self.path}: written by {age} release (schema {version}, this one reads {kind.version}); "
                "use that release, or move the file away to start with an empty one"
            )
        self._write_ahead()
        for name, value in kind.pragmas.items():
            self.connection.execute(f"PRAGMA {name}={value}")
        # Opening reads little. Take the write lock once, so that a read-only file fails now and not after a run.
        with self._transaction("BEGIN IMMEDIATE"):
            pass

    def _create(self) -> None:
        kind = self._format
        self.connection.execute(f"PRAGMA page_size={kind.page_bytes}")
        self._write_ahead()
        with self._transaction("BEGIN IMMEDIATE"):
            # of two processes that come here at once, the second finds the tables of the first
            if _is_empty(self.connection):
                for statement in kind.schema.strip().split(";\n"):
                    self.connection.execute(statement)
                self.connection.execute(f"PRAGMA application_id={kind.application_id}")
                self.connection.execute(f"PRAGMA user_version={kind.version}")

    def _write_ahead(self) -> None:
        """Switch to a write-ahead log. SQLite's own waiting does not cover this step, so it is repeated here."""
        give_up = time.monotonic() + self._busy_s
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
            else:
                return

    def _pragma(self, name: str) -> int:
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _move_away(self) -> str:
        repair = f"; or run `{self._format.repair} '{self.path}'`" if self._format.repair else ""
        return f"move it away (mv '{self.path}' '{self.path}.broken') and {self._format.loss}{repair}"

    def _explanation(self, error: sqlite3.Error) -> str:
        name = str(getattr(error, "sqlite_errorname", ""))
        elsewhere = self._format.elsewhere
        if name.startswith("SQLITE_NOTADB"):
            return f"not an SQLite database; {self._move_away()}, or {elsewhere}"
        if _is_damage(error):
            return f"damaged ({error}); {self._move_away()}"
        if _is_full(error):
            limit = "" if name == "SQLITE_FULL" else " or within a quota or limit"
            return (
                f"no room left on its disk{limit}; nothing of this step was kept; make room, or {elsewhere}"
            )
        if name.startswith("SQLITE_READONLY"):
            return f"may not be written to; make file and directory writable, or {elsewhere}"
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return self._format.in_use
        if name.startswith("SQLITE_CANTOPEN"):
            kind = (
                "it is a directory"
                if self.path.is_dir()
                else "it or its directory may not be opened or written to"
            )
            return f"cannot be opened: {kind}; {elsewhere}"
        return f"{name or 'SQLite'}: {error}; check the disk, or {self._move_away()}"


def open_damaged(path: Path) -> sqlite3.Connection:
    """Return a connection to a file that need not be sound; its write-ahead log is copied into it if possible."""
    connection = sqlite3.connect(path, isolation_level=None)
    with suppress(sqlite3.DatabaseError):
        # SQLite reads a file that was cut
        connection.execute("PRAGMA writable_schema=ON")
    with suppress(sqlite3.DatabaseError):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return connection


def _is_of(connection: sqlite3.Connection, kind: SqliteFormat) -> bool:
    """Return whether a file has the format of this release."""
    numbers = [
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    ]
    return numbers == [kind.application_id, kind.version]


def readable_rows(path: Path, kind: SqliteFormat, orders: Mapping[str, str]) -> SqliteFile:
    """Return, in memory, the rows that can be read of a file that is damaged, or cannot be written.

    Of each table these are the rows before its first and after its last damaged page.

    orders : table → column by which its rows are stored
    """
    memory = SqliteFile(path, kind, busy_s=0.0, in_memory=True)
    if not path.is_file():
        # a pipe would block
        return memory
    # The second way needs neither a lock nor a shared index, for which the directory would have to be writable.
    for option in ("mode=ro", "immutable=1"):
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(f"file:{path}?{option}", uri=True)) as source,
        ):
            if _is_of(source, kind):
                with memory.writing() as connection:
                    _copy_rows(source, connection, orders)
                break
    return memory


def _copy_rows(source: sqlite3.Connection, target: sqlite3.Connection, orders: Mapping[str, str]) -> None:
    for table, column in orders.items():
        for direction in ("ASC", "DESC"):
            # it ends at a damaged page
            with suppress(sqlite3.Error):
                for row in source.execute(f"SELECT * FROM {table} NOT INDEXED ORDER BY {column} {direction}"):
                    places = ", ".join("?" * len(row))
                    target.execute(f"INSERT OR IGNORE INTO {table} VALUES ({places})", row)


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None


def _make_directory(path: Path, kind: SqliteFormat) -> None:
    try:
        make_private(path.parent)
    except OSError as error:
        raise kind.error(
            f"{path}: its directory cannot be made: {error.strerror or error}; {kind.elsewhere}"
        ) from error
    # SQLite would read from a pipe or device, and wait
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise kind.error(f"{path}: it is no regular file; remove it, or {kind.elsewhere}")


def _make_private(path: Path) -> None:
    """Create an absent file for this user alone; SQLite gives its log and shared index the same permissions."""
    # a failure is SQLite's as well, which explains it
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _is_full(error: sqlite3.Error) -> bool:
    # a quota and a limit of the file's length are write errors to SQLite, and so is the shared index of the log
    name = str(getattr(error, "sqlite_errorname", ""))
    return name in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE")


def is_unwritable(error: BaseException | None) -> bool:
    """Return whether an error of opening or writing a file is for lack of space or rights."""
    if not isinstance(error, sqlite3.Error):
        return isinstance(error, OSError)
    return _is_full(error) or str(getattr(error, "sqlite_errorname", "")).startswith(
        ("SQLITE_READONLY", "SQLITE_CANTOPEN")
    )


def _is_damage(error: sqlite3.Error) -> bool:
    # a damaged schema has no such table; a text that is no UTF-8 has no error code
    name = str(getattr(error, "sqlite_errorname", ""))
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")) or "decode to UTF-8" in str(
        error
    )
