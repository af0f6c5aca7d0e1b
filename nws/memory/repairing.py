"""Repair of a store: a new file from every sound row of a damaged one.

Rows are found without SQLite's b-trees (`carving`), so that a damaged page costs the rows whose bytes were hit and no
others. Totals and counts are made anew, and roll-ups from chunks where a chunk has more samples. The caller holds the
store's lock; no other program may use the store.
"""

import json
import math
import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nws.base.errors import StoreError
from nws.base.files import flush_to_disk, put_in_place, set_aside
from nws.base.lock import ByteLocks
from nws.base.sealed import crc
from nws.memory import chunks, log
from nws.memory.carving import Pages, Values, carved
from nws.memory.database import FORMAT, KINDS, Database, next_step
from nws.memory.headblock import HOUR_S
from nws.memory.integrity import Loss
from nws.memory.log import CompactionProgress, joined
from nws.memory.rollups import SPANS_S, pack_buckets, summed_up
from nws.memory.totals import Total, write_block, write_name, write_total

#: Byte of the shared memory that each connection locks (SQLite: UNIX_SHM_DMS).
_OPEN_BYTE = 128


@dataclass(slots=True, kw_only=True)
class RepairReport:
    """lost : a line for each loss.  series, samples : that were kept.  aside : the damaged file"""

    lost: list[str] = field(default_factory=list)
    series: int = 0
    samples: int = 0
    aside: str = ""


def repair(path: Path) -> RepairReport:
    """Replace a store by its sound rows; raises `StoreError` with the store as it was."""
    fresh, ready = (path.with_name(f"{path.name}-{stage}") for stage in ("repairing", "repaired"))
    try:
        _refuse_in_use(path)
        _finish(path, ready)
        _remove(fresh)
        pages = Pages(path, FORMAT.page_bytes)
        try:
            with closing(Database(fresh)) as database, database.writing() as connection:
                rebuilt = _Rebuilt(connection)
                carved(pages, FORMAT.page_bytes, rebuilt.take)
                if not rebuilt.found:
                    raise StoreError(
                        f"{path}: has no sound row of a store of this release; it is left as it is"
                    )
                report = rebuilt.finish()
        finally:
            pages.close()
        if os.geteuid() == 0:
            # the server may be another user
            about = path.stat()
            os.chown(fresh, about.st_uid, about.st_gid)
        flush_to_disk(fresh)
        report.aside = _exchange(path, fresh, ready)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be repaired: {error.strerror or error}; make room for a second file, in a directory that "
            "you may write to"
        ) from error
    finally:
        _remove(fresh)
    return report


def _refuse_in_use(path: Path) -> None:
    """Raise `StoreError` if another process has the store open: what it writes would be lost."""
    shared = path.with_name(f"{path.name}-shm")
    if not shared.exists():
        return
    locks = ByteLocks(shared)
    try:
        if locks.held(_OPEN_BYTE):
            raise StoreError(f"{path}: another program has it open; end it (fuser '{path}'), then repair")
    finally:
        locks.close()


class _Rebuilt:
    """The rows of the new file, in one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        #: A row was kept.
        self.found = False
        self._names: dict[int, str] = {}
        self._totals: dict[int, int] = {}
        self._progress: CompactionProgress | None = None
        self._logged: dict[int, tuple[Loss, ...]] = {}
        # id of a series in the log
        self._highest = -1
        self._losses: list[Loss] = []
        self._documents: dict[tuple[str, str], tuple[float, Any]] = {}

    def take(self, key: int, row: Values) -> bool:
        """Keep a row if it is one of the store and sound; return whether it is."""
        try:
            sound = self._take(key, row)
            self.found = self.found or sound
            return sound
        except (TypeError, ValueError, OverflowError, sqlite3.Error):
            # the bytes were no row of this table
            return False

    def _take(self, key: int, row: Any) -> bool:
        if len(row) == 6 and isinstance(row[5], bytes):
            return self._take_block(row)
        if len(row) == 6 and isinstance(row[2], bytes):
            return self._take_log(key, float(row[1]), row[2], row[3:])
        if len(row) == 3 and crc("series", key, row[1]) == row[2]:
            self._names[key] = row[1]
        elif len(row) == 5 and crc("source", row[1], row[2], float(row[3])) == row[4]:
            self._connection.execute(
                "INSERT INTO source (name, next, heard, crc) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                "next = excluded.next, heard = excluded.heard, crc = excluded.crc WHERE excluded.next > next",
                (row[1], row[2], float(row[3]), row[4]),
            )
        elif len(row) == 4 and crc("host", row[1], row[2]) == row[3]:
            self._document("host", row[1], row[2])
        elif len(row) == 4 and crc("forecaster", row[1], row[2]) == row[3]:
            self._document("forecaster", row[1], row[2])
        elif len(row) == 6 and crc("event", float(row[1]), *row[2:5]) == row[5]:
            self._connection.execute(
                "INSERT OR IGNORE INTO event (id, t, kind, host, text, crc) VALUES (?, ?, ?, ?, ?, ?)",
                (key, float(row[1]), *row[2:]),
            )
        elif len(row) == 7 and crc("loss", row[1], row[2], float(row[3]), float(row[4]), row[5]) == row[6]:
            self._losses.append(
                Loss(kind=row[1], series=row[2], since=float(row[3]), until=float(row[4]), samples=row[5])
            )
        elif len(row) == 5 + 2 * len(KINDS) and crc("total", key, row[1], *map(_real, row[2:4])) == row[4]:
            self._totals[key] = max(row[1], self._totals.get(key, 0))
        elif len(row) > 9 and crc("progress", *row[1:8]) == row[8]:
            self._take_progress(row[1:8])
        else:
            return False
        return True

    def _take_block(self, row: Any) -> bool:
        bucket_s, series, span, samples, check, data = row
        if crc("block", bucket_s, series, span, samples, data=data) != check:
            return False
        known = self._connection.execute(
            "SELECT samples FROM block WHERE bucket_s = ? AND series = ? AND span = ?",
            (bucket_s, series, span),
        ).fetchone()
        # an older copy may be left in a page that is free
        if known is None or known[0] < samples:
            write_block(self._connection, bucket_s, series, span, samples, data)
        return True

    def _take_log(self, key: int, received: float, data: bytes, checks: Any) -> bool:
        batch, losses = log.unpack(key, received, data, checks)
        if losses:
            self._logged.setdefault(key, losses)
            return False
        if self._logged.get(key) != ():
            self._logged[key] = ()
            log.put(self._connection, key, batch, received)
            self._highest = max(self._highest, int(batch.ids.max(initial=-1)))
        return True

    def _take_progress(self, values: Any) -> None:
        found = CompactionProgress(**dict(zip(CompactionProgress.__slots__, values, strict=False)))
        if self._progress is None or found.columns()[:6] > self._progress.columns()[:6]:
            self._progress = found

    def _document(self, table: str, name: str, document: Any) -> None:
        """Keep the latest document of a name: that of the last contact, or of the highest version."""
        content = json.loads(document)
        fields = content if isinstance(content, dict) else {}
        age = float(fields.get("last_seen") or fields.get("version") or 0.0)
        known = self._documents.get((table, name))
        if known is None or age >= known[0]:
            self._documents[table, name] = (age, document)

    def finish(self) -> RepairReport:
        """Make everything that follows from the rows, and return counts of kept and lost rows."""
        report, connection = RepairReport(), self._connection
        report.lost += [str(loss) for loss in dict.fromkeys(self._losses)]
        for (table, name), (_, document) in self._documents.items():
            column = "document" if table == "host" else "data"
            connection.execute(
                f"INSERT INTO {table} (name, {column}, crc) VALUES (?, ?, ?)",
                (name, document, crc(table, name, document)),
            )
        series = self._write_names(report)
        self._write_totals(series, report)
        at = self._write_log(report)
        next_step(connection, at)
        _rebuild_rollups(connection)
        for kind in KINDS:
            connection.execute(
                f"UPDATE total SET (rows_{kind}, sum_{kind}) = (SELECT count(*), coalesce(sum(span), 0) FROM block "
                f"WHERE bucket_s = {kind} AND series = total.id)"
            )
        report.series = series
        return report

    def _write_names(self, report: RepairReport) -> int:
        used: int
        (used,) = self._connection.execute("SELECT coalesce(max(series), -1) FROM block").fetchone()
        count = max(used, self._highest, *self._names, *self._totals, -1) + 1
        for number in range(count):
            name = self._names.get(number)
            if name is None:
                name = f"x.lost@series-{number}"
                report.lost.append(f"the name of series {number}, which is {name} now")
            write_name(self._connection, number, name)
        return count

    def _write_totals(self, series: int, report: RepairReport) -> None:
        for number in range(series):
            newest, samples = self._connection.execute(
                "SELECT max(span), total(samples) FROM block WHERE bucket_s = 0 AND series = ?", (number,)
            ).fetchone()
            report.samples += int(samples)
            if missing := self._totals.get(number, 0) - int(samples):
                name = self._names.get(number, f"series {number}")
                report.lost.append(f"{name}: {missing} of {self._totals.get(number, 0)} samples")
            if newest is not None:
                times, values = _chunk(self._connection, number, newest)
                last = int(len(times) - 1 - np.argmax(times[::-1]))
                total = Total(samples=int(samples), last_t=float(times[last]), last=float(values[last]))
                write_total(self._connection, number, total)

    def _write_log(self, report: RepairReport) -> CompactionProgress:
        """Fill gaps in the numbers of the log's rows, and return the progress."""
        connection, at = self._connection, self._progress
        if at is None:
            at = self._guess_progress(report)
        connection.execute("DELETE FROM log WHERE id <= ? OR id > ?", (at.closed_to, at.written_to))
        for row in range(at.closed_to + 1, at.written_to + 1):
            losses = self._logged.get(row)
            if losses != ():
                report.lost += [f"row {row} of the log: {loss}" for loss in losses or ()] or [
                    f"row {row} of the log"
                ]
                log.put(connection, row, joined([]), 0.0)
        for _, batch, _ in log.rows_after(connection, at.closed_to, at.written_to):
            report.samples += len(batch)
        return replace(at, deleted_to=at.closed_to)

    def _guess_progress(self, report: RepairReport) -> CompactionProgress:
        """Keep the samples of the log that are later than all in chunks, without knowing which have moved."""
        report.lost.append("the progress of the log: its samples up to the last of their series in chunks")
        rows = sorted(number for number, losses in self._logged.items() if losses == ())
        at = CompactionProgress(
            written_to=rows[-1] if rows else 0,
            deleted_to=0,
            closed_to=rows[0] - 1 if rows else 0,
            closing_to=rows[0] - 1 if rows else 0,
            series=0,
            hour=log.FIRST_HOUR,
            swept=None,
        )
        known = self._connection.execute("SELECT id, last_t FROM total ORDER BY id").fetchall()
        last_t = np.array([-math.inf if t is None else t for _, t in known])
        for row, batch, _ in list(log.rows_after(self._connection, at.closed_to, at.written_to)):
            self._connection.execute("DELETE FROM log WHERE id = ?", (row,))
            inside = batch.picked(batch.ids < len(last_t))
            log.put(self._connection, row, inside.picked(inside.times > last_t[inside.ids]), 0.0)
        return at


def _rebuild_rollups(connection: sqlite3.Connection) -> None:
    """Make the roll-ups anew that have fewer samples than the chunks of their span."""
    for kind in KINDS[1:]:
        hours = int(SPANS_S[kind] // HOUR_S)
        found = connection.execute(
            "SELECT c.series, c.day, group_concat(c.span) FROM (SELECT series, span, samples, "
            "CAST(floor(span / ?) AS INTEGER) AS day FROM block WHERE bucket_s = 0) AS c LEFT JOIN block AS r "
            "ON r.bucket_s = ? AND r.series = c.series AND r.span = c.day "
            "GROUP BY c.series, c.day HAVING sum(c.samples) > coalesce(max(r.samples), 0)",
            (float(hours), kind),
        ).fetchall()
        for series, span, numbers in found:
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


def _real(value: Any) -> float | None:
    return None if value is None else float(value)


def _finish(path: Path, ready: Path) -> None:
    """Finish a repair that was interrupted after the log was moved, unless the store was used since."""
    if not ready.exists():
        return
    used = path.stat().st_mtime_ns > ready.stat().st_mtime_ns
    if used or path.with_name(f"{path.name}-wal").exists():
        _remove(ready)
    else:
        _put(path, ready)


def _exchange(path: Path, fresh: Path, ready: Path) -> str:
    """Put the new file in place of the damaged one, which is kept; return its name. `ready`: its name meanwhile."""
    aside = set_aside(path, keep=True)
    put_in_place(fresh, ready, sync=True)
    log_file = path.with_name(f"{path.name}-wal")
    if log_file.exists():
        # SQLite must not apply it to the new file
        set_aside(log_file)
    _put(path, ready)
    return aside


def _put(path: Path, fresh: Path) -> None:
    put_in_place(fresh, path, sync=True)
    # last: until now the mark shows that the steps in the log are missing
    for name in ("-shm", "-mark"):
        with suppress(FileNotFoundError):
            path.with_name(f"{path.name}{name}").unlink()


def _remove(fresh: Path) -> None:
    for name in ("", "-wal", "-shm", "-mark"):
        with suppress(FileNotFoundError):
            fresh.with_name(f"{fresh.name}{name}").unlink()
