"""Reads all of a store, and names the damage in it."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nws.base.errors import StoreError
from nws.base.sealed import crc
from nws.memory.database import KINDS, refuse_missing_events
from nws.memory.headblock import HeadBlock
from nws.memory.integrity import DamagedRows, get_losses, sound_rows
from nws.memory.names import Names
from nws.memory.reading import blocks_of
from nws.memory.store import Memory
from nws.memory.totals import read_total

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
    tail, names = HeadBlock(), Names(memory.path)
    with part("log") as connection:
        tail.follow(connection)
        report.damage += [f"log, row {row}: {loss}" for row, loss in tail.losses]
    with part("losses found before") as connection:
        report.damage += [str(loss) for loss in get_losses(connection)]
    for table, columns in (
        ("source", "name, next, heard"),
        ("host", "name, document"),
        ("forecaster", "name, data"),
    ):
        with part(f"table {table}") as connection:
            sound_rows(connection, table, columns)
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
    rows = connection.execute("SELECT t, kind, host, text, crc FROM event NOT INDEXED").fetchall()
    for *values, check_ in rows:
        if crc("event", *values) != check_:
            raise DamagedRows("an event")
    refuse_missing_events(connection)
