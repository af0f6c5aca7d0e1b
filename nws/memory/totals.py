"""The rows of one series: its name, its blocks, and its totals in them."""

import sqlite3
from dataclasses import astuple, dataclass

from nws.base.sealed import crc
from nws.memory.integrity import DamagedRows, put_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """samples : in blocks.  last_t, last : time (seconds since the epoch) and value of the last one, None for none"""

    samples: int = 0
    last_t: float | None = None
    last: float | None = None


def total_of(series: int, row: tuple[int, float | None, float | None, int] | None) -> Total:
    """Return the totals in a row with its checksum; `DamagedRows` if it is damaged or missing."""
    # the row is made with its series, so a missing one is damage
    if row is None or crc("total", series, *row[:3]) != row[3]:
        raise DamagedRows(f"the totals of series {series}")
    return Total(samples=row[0], last_t=row[1], last=row[2])


def write_name(connection: sqlite3.Connection, series: int, name: str) -> None:
    """Store a new series."""
    put_rows(connection, "series", [(series, name)])
    write_total(connection, series, Total())


def read_total(connection: sqlite3.Connection, series: int) -> Total:
    """Return the totals of a series; `DamagedRows` as `total_of`."""
    return total_of(
        series,
        connection.execute(
            "SELECT samples, last_t, last_value, crc FROM total WHERE id = ?", (series,)
        ).fetchone(),
    )


def write_total(connection: sqlite3.Connection, series: int, total: Total) -> None:
    """Store the totals of a series."""
    put_rows(connection, "total", [(series, *astuple(total))])


def write_block(
    connection: sqlite3.Connection, bucket_s: int, series: int, span: int, samples: int, data: bytes
) -> None:
    """Store a block in place of an older one."""
    # an update keeps the rowid, so that the triggers, which see insertions and deletions, count a block once
    connection.execute(
        "INSERT INTO block (bucket_s, series, span, samples, crc, data) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (bucket_s, series, span) DO UPDATE SET "
        "samples = excluded.samples, crc = excluded.crc, data = excluded.data",
        (bucket_s, series, span, samples, crc("block", bucket_s, series, span, samples, data=data), data),
    )
