"""Salvage of a damaged store: a new file from every sound row that SQLite still reads.

Rows are read one by one in the order of their ids. Where SQLite meets a damaged page, the next id that it reads is
searched for, so the page costs its own rows. Totals and counts are made anew, and roll-ups from chunks where a chunk
has more samples. The caller holds the store's lock; no other program may use the store.

Reads all of a store, and names the damage in it.
"""

import os
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nws.base.errors import StoreError
from nws.base.files import flush_to_disk, put_in_place, set_aside
from nws.base.lock import ByteLocks
from nws.base.sealed import crc
from nws.base.sqlite import open_damaged
from nws.memory import chunks, log
from nws.memory.database import KINDS, Database, refuse_missing_events, store_progress
from nws.memory.headblock import HOUR_S, HeadBlock
from nws.memory.integrity import COLUMNS, DamagedRows, get_losses, sound_rows
from nws.memory.log import joined
from nws.memory.rollups import SPANS_S, pack_buckets, summed_up
from nws.memory.seriesnames import Names, sound_names
from nws.memory.seriesreading import blocks_of
from nws.memory.store import Memory
from nws.memory.totals import Total, read_total, write_block, write_name, write_total

#: Tables of rows that stand alone; events are checked and copied as well, and found by their times.
_COPIED = ("source", "host", "forecaster")

#: Problems of SQLite's structure that are listed.
_MOST_PROBLEMS = 20


@dataclass(slots=True, kw_only=True)
class CheckReport:
    """damage : a line for each damaged thing.  series, samples : that are sound"""

    damage: list[str] = field(default_factory=list)
    series: int = 0
    samples: int = 0


def check(memory: Memory) -> CheckReport:
    """Return the damage in a store; other processes may use it meanwhile."""
    report = CheckReport()
    database = memory.database

    @contextmanager
    def part(name: str) -> Iterator[sqlite3.Connection]:
        try:
            with database.reading() as connection:
                yield connection
        except StoreError as error:
            report.damage.append(f"{name}: {error.__cause__ or error}")

    with part("file") as connection:
        problems = connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})").fetchall()
        report.damage += [f"file: {text}" for (text,) in problems if text != "ok"]
    # apart from those of the memory, which may have read the log before it was damaged
    tail, names = HeadBlock(), Names(memory.path)
    with part("log") as connection:
        tail.follow(connection)
        report.damage += [f"log, row {row}: {loss}" for row, loss in tail.losses]
    with part("losses found before") as connection:
        report.damage += [str(loss) for loss in get_losses(connection)]
    for table in _COPIED:
        with part(f"table {table}") as connection:
            sound_rows(connection, table)
    with part("table event") as connection:
        _check_events(connection)
    with part("names of series") as connection:
        names.follow(connection)
    report.series = len(names)
    if names.is_read and tail.progress is not None:
        report.samples += int(tail.totals(len(names)).samples.sum())
    for series in range(len(names)):
        _check_series(part, names.all()[series], series, report)
    return report


def _check_series(part: Callable[[str], object], name: str, series: int, report: CheckReport) -> None:
    with part(name) as connection:  # type: ignore[attr-defined]
        damage: list[str] = []
        for bucket_s in KINDS:
            for _ in blocks_of(connection, bucket_s, series, damaged=damage):
                pass
        report.damage += [f"{name}: {reason}" for reason in damage]
        report.samples += read_total(connection, series).samples


def _check_events(connection: sqlite3.Connection) -> None:
    # NOT INDEXED: the index is checked by `integrity_check`, the rows here
    rows = connection.execute("SELECT t, kind, host, text, crc FROM event NOT INDEXED").fetchall()
    for *values, check_ in rows:
        if crc("event", *values) != check_:
            raise DamagedRows("an event")
    refuse_missing_events(connection)


#: Byte of the shared memory that each connection locks (SQLite: UNIX_SHM_DMS).
_OPEN_BYTE = 128
#: Ids are below this one.
_MOST_IDS = 1 << 62


@dataclass(slots=True, kw_only=True)
class RepairReport:
    """lost : a line for each loss.  series, samples : that were kept.  aside : the damaged file"""

    lost: list[str] = field(default_factory=list)
    series: int = 0
    samples: int = 0
    aside: str = ""


def repair(path: Path) -> RepairReport:
    """Replace a store by its sound rows; raises `StoreError` with the store as it was."""
    _refuse_in_use(path)
    fresh = path.with_name(f"{path.name}-repairing")
    _remove(fresh)
    try:
        with (
            # opened without the checks of `Database`, which refuses a damaged file
            closing(open_damaged(path)) as damaged,
            closing(Database(fresh)) as database,
            database.writing() as connection,
        ):
            salvage = _Salvage(damaged, connection)
            salvage.run()
        # an empty store in place of a file of another program would be no repair
        if not salvage.rows:
            raise StoreError(f"{path}: has no sound row of a store of this release; it is left as it is")
        if path.with_name(f"{path.name}-wal").exists():
            # SQLite would apply it to the new file
            raise StoreError(
                f"{path}: its write-ahead log cannot be applied; end other programs, then repair"
            )
        if os.geteuid() == 0:
            # the server may be another user
            about = path.stat()
            os.chown(fresh, about.st_uid, about.st_gid)
        # data before the name: after a power failure the name must not show an empty file
        flush_to_disk(fresh)
        # a second name for the damaged file: at no moment is there no store
        salvage.report.aside = set_aside(path, keep=True)
        put_in_place(fresh, path, sync=True)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be repaired: {error.strerror or error}; make room for a second file, in a directory that "
            "you may write to"
        ) from error
    finally:
        _remove(fresh)
    return salvage.report


def _refuse_in_use(path: Path) -> None:
    """Raise `StoreError` if another process has the store open: its writes would be lost."""
    shared = path.with_name(f"{path.name}-shm")
    if not shared.exists():
        return
    # SQLite's own locks on this file are of the same kind (POSIX), so they exclude each other
    locks = ByteLocks(shared)
    try:
        if locks.held(_OPEN_BYTE):
            raise StoreError(f"{path}: another program has it open; end it (fuser '{path}'), then repair")
    finally:
        locks.close()


class _Salvage:
    """Sound rows of a damaged store, written to a new one in one transaction. rows : number of sound rows"""

    def __init__(self, damaged: sqlite3.Connection, fresh: sqlite3.Connection) -> None:
        self._damaged, self._fresh = damaged, fresh
        self.report, self.rows = RepairReport(), 0
        self._names: dict[int, str] = {}
        # id of a series in the log
        self._highest = -1

    def run(self) -> None:
        """Copy the rows, make everything that follows from them, and complete the report."""
        with suppress(sqlite3.DatabaseError):
            self.report.lost += [str(loss) for loss in get_losses(self._damaged)]
        # blocks first: their highest series tells how many names there must be
        self._copy_blocks()
        progress = self._copy_log()
        self._write_names()
        self._write_totals()
        for table in (*_COPIED, "event"):
            self._copy_table(table)
        store_progress(self._fresh, progress)
        # last, as it needs chunks and totals
        _rebuild_rollups(self._fresh)
        for kind in KINDS:
            # the triggers counted while totals did not exist yet
            self._fresh.execute(
                f"UPDATE total SET (rows_{kind}, sum_{kind}) = (SELECT count(*), coalesce(sum(span), 0) FROM block "
                f"WHERE bucket_s = {kind} AND series = total.id)"
            )

    def _copy_table(self, table: str) -> None:
        columns = COLUMNS[table]
        marks = ", ".join("?" * (columns.count(",") + 3))
        lost = self._count(table)
        for key, *values, check in readable_rows(self._damaged, table, f"{columns}, crc"):
            with suppress(TypeError, ValueError, OverflowError, sqlite3.IntegrityError):
                if crc(table, *values) == check:
                    self._fresh.execute(
                        f"INSERT INTO {table} (id, {columns}, crc) VALUES ({marks})", (key, *values, check)
                    )
                    self.rows += 1
                    lost -= 1
        if lost > 0:
            self.report.lost.append(f"{lost} rows of the table {table}")

    def _count(self, table: str) -> int:
        """Return the number of rows that a table should have; 0 if unknown."""
        with suppress(sqlite3.DatabaseError):
            for (count,) in self._damaged.execute(f"SELECT {table}_rows FROM progress"):
                if isinstance(count, int):
                    return count
        return 0

    def _copy_blocks(self) -> None:
        columns = "bucket_s, series, span, samples, crc, data"
        for _, *key, check, data in readable_rows(self._damaged, "block", columns):
            with suppress(TypeError, ValueError, OverflowError):
                if crc("block", *key, data=data) == check:
                    bucket_s, series, span, samples = key
                    write_block(self._fresh, bucket_s, series, span, samples, data)
                    self.rows += 1

    def _copy_log(self) -> log.CompactionProgress:
        """Copy the rows of the log that are not in chunks, under their numbers; return the progress."""
        try:
            progress = log.progress(self._damaged)
        except (ValueError, TypeError, sqlite3.DatabaseError):
            self.report.lost.append("the progress of the log: all samples that are in no chunk")
            return log.CompactionProgress()
        batches = {}
        columns = "received, data, times_crc, values_crc, ids_crc"
        for row, received, data, *checks in readable_rows(self._damaged, "log", columns):
            with suppress(TypeError, ValueError, OverflowError):
                batches[row] = (float(received), *log.unpack(row, float(received), data, checks))
        for row in range(progress.closed_to + 1, progress.written_to + 1):
            received, batch, losses = batches.get(row, (0.0, joined([]), ("cannot be read",)))
            self.report.lost += [f"row {row} of the log: {loss}" for loss in losses]
            # rows have numbers without gaps: an empty one replaces a damaged one
            log.put(self._fresh, row, batch, received)
            self.report.samples += len(batch)
            self._highest = max(self._highest, int(batch.ids.max(initial=-1)))
            self.rows += not losses
        return replace(progress, deleted_to=progress.closed_to)

    def _write_names(self) -> None:
        for table in ("series_copy", "series"):
            self._names |= sound_names(readable_rows(self._damaged, table, "name, crc"))
        self.rows += len(self._names)
        (used,) = self._fresh.execute("SELECT coalesce(max(series), -1) FROM block").fetchone()
        self.report.series = max(used, self._highest, *self._names) + 1
        for number in range(self.report.series):
            name = self._names.get(number)
            if name is None:
                name = self._names[number] = f"x.lost@series-{number}"
                self.report.lost.append(f"the name of series {number}, which is {name} now")
            write_name(self._fresh, number, name)

    def _write_totals(self) -> None:
        columns = "samples, last_t, last_value, crc"
        stored: dict[int, int] = {}
        for series, samples, *end, check in readable_rows(self._damaged, "total", columns):
            with suppress(TypeError, ValueError, OverflowError):
                if crc("total", series, samples, *end) == check:
                    stored[series] = samples
        for series, name in sorted(self._names.items()):
            newest, samples = self._fresh.execute(
                "SELECT max(span), total(samples) FROM block WHERE bucket_s = 0 AND series = ?", (series,)
            ).fetchone()
            self.report.samples += int(samples)
            if (missing := stored.get(series, 0) - int(samples)) > 0:
                self.report.lost.append(f"{name}: {missing} of {stored[series]} samples")
            if newest is not None:
                times, values = _chunk(self._fresh, series, newest)
                last = int(len(times) - 1 - np.argmax(times[::-1]))
                total = Total(samples=int(samples), last_t=float(times[last]), last=float(values[last]))
                write_total(self._fresh, series, total)


def readable_rows(connection: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield id and columns of each row that SQLite reads, by id."""
    # one row each: of a longer answer, Python's module drops the row before the damaged one
    # without the index, as a damaged one would lead past sound rows
    query = f"SELECT rowid, {columns} FROM {table} NOT INDEXED WHERE rowid >= ? ORDER BY rowid LIMIT 1"

    def first_row(least: int) -> tuple[Any, ...] | None:
        """Return the first row with this id or a higher one; `sqlite3.DatabaseError` if it is damaged."""
        row: tuple[Any, ...] | None = connection.execute(query, (least,)).fetchone()
        # a damaged inner page may lead anywhere; ids that fall would never end
        if row is not None and row[0] < least:
            raise sqlite3.DatabaseError("order of the rows")
        return row

    def is_readable(least: int) -> bool:
        try:
            first_row(least)
        except sqlite3.DatabaseError:
            return False
        return True

    least = 0
    while True:
        try:
            row = first_row(least)
        except sqlite3.DatabaseError:
            # the length of the gap is unknown: double the step until a row is read, then halve it
            step = 1
            while not is_readable(least + step):
                step *= 2
                if least + step > _MOST_IDS:
                    return
            least = bisect_left(range(least + step), True, least + step // 2 + 1, key=is_readable)
        else:
            if row is None:
                return
            yield row
            least = row[0] + 1


def _rebuild_rollups(connection: sqlite3.Connection) -> None:
    """Make the roll-ups anew that have fewer samples than the chunks of their span."""
    for kind in KINDS[1:]:
        hours = int(SPANS_S[kind] // HOUR_S)
        outdated = connection.execute(
            "SELECT c.series, c.day, group_concat(c.span) FROM (SELECT series, span, samples, "
            "CAST(floor(span / ?) AS INTEGER) AS day FROM block WHERE bucket_s = 0) AS c LEFT JOIN block AS r "
            "ON r.bucket_s = ? AND r.series = c.series AND r.span = c.day "
            "GROUP BY c.series, c.day HAVING sum(c.samples) > coalesce(max(r.samples), 0)",
            (float(hours), kind),
        ).fetchall()
        for series, span, numbers in outdated:
            parts = [
                _chunk(connection, series, int(number)) for number in sorted(map(int, numbers.split(",")))
            ]
            times = np.concatenate([part[0] for part in parts])
            buckets = summed_up(times, np.concatenate([part[1] for part in parts]), kind)
            write_block(connection, kind, series, span, len(times), pack_buckets(buckets, kind))


def _chunk(connection: sqlite3.Connection, series: int, hour: int) -> tuple[chunks.Floats, chunks.Floats]:
    (data,) = connection.execute(
        "SELECT data FROM block WHERE bucket_s = 0 AND series = ? AND span = ?", (series, hour)
    ).fetchone()
    return chunks.unpack(data)


def _remove(fresh: Path) -> None:
    for name in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            fresh.with_name(f"{fresh.name}{name}").unlink()
