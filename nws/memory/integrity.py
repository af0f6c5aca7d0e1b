"""Checksums of the store's rows, and the known losses.

Each row carries a CRC-32 of its content and of its key, so that a row with altered bytes, or found under another key,
is recognised on reading. Missing rows are recognised by counts and sums that triggers keep (`database`). Samples that
damage took away are `Loss`es: queries that would need them fail, until `nws repair` forgets them.
"""

import logging
import math
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from nws.base.sealed import crc

_LOG = logging.getLogger(__name__)
# a command prints the error that it gets
_LOG.addHandler(logging.NullHandler())

#: The columns of each table that its rows' checksums cover, in this order; a checksum also covers the table's name.
COLUMNS = {
    "series": "id, name",
    "total": "id, samples, last_t, last_value",
    "source": "name, next, heard",
    "host": "name, document",
    "forecaster": "name, data",
    "event": "t, kind, host, text",
    "loss": "kind, series, since, until, samples",
}

#: Texts of damage that are kept; further damage is counted.
_MOST_TEXTS = 100


class DamagedRows(ValueError):
    """The content of the store differs from what was written; the text names the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Samples that are lost.

    kind : length of the roll-up's buckets that lack them, 0 for samples as measured, -1 for both
    series : id, -1 if any series may be meant.  since, until : first and last time, seconds since the epoch; infinite
    if unknown.  samples : their number, 0 if unknown
    """

    kind: int
    series: int
    since: float
    until: float
    samples: int

    def touches(self, kind: int, series: int, span: tuple[float, float]) -> bool:
        """Return whether an answer about a series and span may lack some of them."""
        return (
            (self.kind < 0 or self.kind == kind)
            and (self.series in (-1, series) or series < 0)
            and self.since <= span[1] + kind
            and span[0] <= self.until + kind
        )

    def __str__(self) -> str:
        what = f"roll-ups of {self.kind} s with samples" if self.kind > 0 else "samples"
        count = f"{self.samples} " if self.samples else ""
        series = "any series" if self.series < 0 else f"series {self.series}"
        return f"{count}{what} of {series}, {span_text(self.since, self.until)}, are lost"


#: The loss of anything.
EVERYTHING = Loss(kind=-1, series=-1, since=-math.inf, until=math.inf, samples=0)


def span_text(since: float, until: float) -> str:
    """Return a span of time as text, in UTC."""
    if math.isinf(since) and math.isinf(until):
        return "at any time"
    first, last = (
        "any time" if math.isinf(t) else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(t))
        for t in (since, until)
    )
    return f"{first} to {last} UTC"


def put_losses(connection: sqlite3.Connection, losses: Iterable[Loss]) -> None:
    """Store losses."""
    rows = [(o.kind, o.series, float(o.since), float(o.until), o.samples) for o in losses]
    put_rows(connection, "loss", rows)


def get_losses(connection: sqlite3.Connection) -> list[Loss]:
    """Return the stored losses; `EVERYTHING` if the table is damaged."""
    try:
        rows = sound_rows(connection, "loss")
    except DamagedRows:
        return [EVERYTHING]
    return [Loss(**dict(zip(Loss.__slots__, row, strict=True))) for row in rows]


def put_rows(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[object]]) -> None:
    """Store rows of a table of `COLUMNS` with their checksums; a row of the same id or name is replaced."""
    sealed = [(*row, crc(table, *row)) for row in rows]
    connection.executemany(_insertion(table), sealed)


@cache
def _insertion(table: str) -> str:
    key, *others = names = COLUMNS[table].split(", ")
    # an update keeps the rowid of the row, so that the triggers, which see insertions only, count it once
    updates = ", ".join(f"{name} = excluded.{name}" for name in (*others, "crc"))
    upsert = f" ON CONFLICT ({key}) DO UPDATE SET {updates}" if key in ("id", "name") else ""
    return f"INSERT INTO {table} ({', '.join(names)}, crc) VALUES (?{', ?' * len(names)}){upsert}"


def is_complete(connection: sqlite3.Connection, table: str, ids: Sequence[int]) -> bool:
    """Return whether a table's count and sum are those of the rows that were found."""
    # either copy may be the damaged one
    known = connection.execute(f"SELECT {table}_rows, {table}_sum FROM progress").fetchall()
    return (len(ids), sum(ids)) in known


def sound_rows(connection: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    """Return all rows of a small table, without checksum and id; `DamagedRows` if one is damaged or missing."""
    # NOT INDEXED: an index that is damaged apart from its table would hide rows, or show them twice
    rows = connection.execute(
        f"SELECT {COLUMNS[table]}, crc, id FROM {table} NOT INDEXED ORDER BY id"
    ).fetchall()
    for *values, check, _ in rows:
        if crc(table, *values) != check:
            raise DamagedRows(f"a row of the table {table}")
    # a checksum cannot tell that a row is missing, but the count and the sum of ids can
    if not is_complete(connection, table, [row[-1] for row in rows]):
        raise DamagedRows(f"rows of the table {table} are missing")
    return [tuple(row[:-2]) for row in rows]


class DamageLog:
    """The damage found since a store was opened, each logged once as an error; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, None] = {}
        self._more = 0

    def note(self, text: str) -> None:
        """Log damage if it is new."""
        # a damaged chunk is met at each query, and must not fill the disk with log lines
        with self._lock:
            if text in self._found:
                return
            if len(self._found) >= _MOST_TEXTS:
                self._more += 1
                return
            self._found[text] = None
        _LOG.error("%s", text)

    def summary(self) -> str | None:
        """Return the first damage and the number of the others; None if there is none."""
        with self._lock:
            problems, more = list(self._found), len(self._found) - 1 + self._more
        if not problems:
            return None
        return problems[0] if not more else f"{problems[0]} (and {more} more; see the log)"
