"""History: one SQLite file with a record of every run and all benchmarks, from which the next prediction is made.

Each run is a row: its record (`apples.model.plan.Record`), the values that predictions are made from
(`apples.costs.runs`, `apples.costs.ranges`), and its launches. Queries use an index and read these values, not the
records. Each benchmark is a row as well. Values carry a checksum: a damaged one is left out and reported once.
"""

from __future__ import annotations

import math
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from apples.costs.ranges import JudgedRun, is_loaded, judged_run
from apples.costs.runs import TrainingRun, finished, training_run
from apples.errors import HistoryError, UnknownRun
from apples.model.launchrequest import Notify
from apples.model.plan import Record
from apples.model.template import Benchmark
from nws.base.sqlite import SqliteFile, SqliteFormat, is_unwritable, readable_rows
from nws.base.wording import counted
from nws.client import state_dir

T = TypeVar("T")

#: Rows and columns of the table of runs that a query chooses by: the key of the costs, or the kind of the run's range.
_SCHEMA = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, slab_rows INTEGER NOT NULL, application TEXT NOT NULL,
    world TEXT NOT NULL, loaded INTEGER,
    judged BLOB, training BLOB, launches BLOB NOT NULL, record BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_costs ON runs (key, slab_rows, id) WHERE training IS NOT NULL;
CREATE INDEX runs_by_range ON runs (world, loaded, id) WHERE judged IS NOT NULL;
CREATE TABLE benchmarks (
    key TEXT NOT NULL, slab_rows INTEGER NOT NULL, machine TEXT NOT NULL, ranks INTEGER NOT NULL,
    measured_at REAL NOT NULL, benchmark BLOB NOT NULL,
    PRIMARY KEY (key, slab_rows, machine, ranks)
)
"""

#: Column by which the rows of each table are stored.
_ORDERS = {"runs": "id", "benchmarks": "rowid"}

_FORMAT = SqliteFormat(
    application_id=0x41704869,
    version=1,
    schema=_SCHEMA,
    # A run that is reported as ended is on disk, also after a power failure.
    pragmas={"synchronous": "FULL"},
    error=HistoryError,
    error_if_full=HistoryError,
    error_if_damaged=HistoryError,
    elsewhere="set APPLES_STATE to another directory",
    loss="begin a new one; earlier runs are lost, and apples calibrate measures the benchmarks again",
)

#: Seconds to wait for other processes that write.
_BUSY_S = 30.0

#: Newest runs on slabs of one size that are read for a prediction; older ones have lost their weight.
_NEWEST = 200

_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}")


class Launch(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One launch of a run: its hosts, those that were lost, and seconds from its start to its end.

    checkpoint_s : of one of its checkpoints, None without.  checkpoint_bytes : size of one, 0 if unknown
    """

    hosts: tuple[str, ...]
    lost: tuple[str, ...]
    observed_s: float
    checkpoint_s: float | None = None
    checkpoint_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBenchmarks:
    """Benchmarks of slabs of one size on one kind of machine, by ascending ranks.

    measured_at : time of the newest, seconds since the epoch
    """

    measured_at: float
    benchmarks: tuple[Benchmark, ...]


class _Damaged(Exception):
    """A value does not match its checksum or its type."""


def new_id(made_at: float) -> str:
    """Return the id of a run made then (seconds since the epoch, of this machine): unique, and ids sort by time."""
    moment = datetime.fromtimestamp(made_at, UTC)
    return f"{moment:%Y%m%dT%H%M%S.%f}Z-{secrets.token_hex(3)}"


def open_history(notify: Notify, *, strict: bool = False) -> History:
    """Return the history of this user's runs. If the file cannot be written, it is read, and new runs are not kept.

    notify : receives a message on this, and on what is damaged
    strict : raise `HistoryError` for a damaged file; otherwise runs are planned without it
    """
    path = state_dir() / "history.db"
    try:
        return History(path, notify, strict=strict)
    except HistoryError as error:
        if strict and not is_unwritable(error.__cause__):
            raise
        notify(f"{error}; this run is planned, but leaves no record")
        return History(path, notify, read_only=True, strict=strict)


class History:
    """The runs and benchmarks in one file; other processes may add to it at any time.

    path : created with its directory if absent.  notify : receives a message on damaged records, once each
    read_only : copy the file, if it exists, to memory; what is added is lost
    strict : raise `HistoryError` if the file turns out to be damaged; otherwise go on without it
    """

    def __init__(
        self,
        path: Path,
        notify: Notify = lambda text: None,
        *,
        read_only: bool = False,
        strict: bool = True,
    ) -> None:
        self.path, self._notify, self._strict = path, notify, strict
        self._reported: set[str] = set()
        self._file = (
            readable_rows(path, _FORMAT, _ORDERS) if read_only else SqliteFile(path, _FORMAT, busy_s=_BUSY_S)
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def append(self, record: Record) -> None:
        """Store a record, or replace an earlier one of the same run.

        If it cannot be written for lack of space or rights, the run goes on without: a message says so once. Raises
        `HistoryError` for other reasons.
        """
        if not _ID.fullmatch(record.id):
            raise HistoryError(f"{record.id!r} is no id of a run; ids come from apples.costs.store.new_id")
        training = training_run(record) if finished(record) else None
        judged = judged_run(record)
        values = (
            record.id,
            record.key,
            record.slab_rows,
            record.plan.application,
            record.world,
            None if training is None else is_loaded(training.slowness),
            *(None if value is None else _packed(value) for value in (judged, training)),
            _packed(launches_of(record)),
            _packed(record),
        )
        self._write(f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * len(values))})", values)

    def records(
        self, key: str | None = None, newest: int | None = None, application: str | None = None
    ) -> list[Record]:
        """Return records by time, oldest first: of one key, of one application, only the `newest` of them."""
        given = {name: v for name, v in (("key", key), ("application", application)) if v is not None}
        where = " AND ".join(f"{name} = ?" for name in given) or "TRUE"
        limit = -1 if newest is None else newest
        statement = f"SELECT id, record FROM runs WHERE {where} ORDER BY id DESC LIMIT ?"
        return self._decoded(statement, (*given.values(), limit), Record)[::-1]

    def get(self, run_id: str) -> Record:
        """Return the record of one run; raise `UnknownRun` if there is none, `HistoryError` if it is damaged."""
        rows = self._rows("SELECT record FROM runs WHERE id = ?", (run_id,))
        if not rows:
            raise UnknownRun(f"{self.path}: no run {run_id!r}; `apples history` lists the runs")
        try:
            return _unpacked(rows[0][0], Record)
        except _Damaged as error:
            raise HistoryError(f"{self.path}: the record of run {run_id} is damaged ({error})") from None

    def training_runs(self, key: str) -> dict[int, list[TrainingRun]]:
        """Return rows of a slab → the newest finished runs of a key on such slabs, oldest first."""
        statement = (
            "SELECT id, training, slab_rows FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY slab_rows ORDER BY id DESC)"
            f" AS age FROM runs WHERE key = ? AND training IS NOT NULL) WHERE age <= {_NEWEST} ORDER BY id"
        )
        by_rows: dict[int, list[TrainingRun]] = {}
        for run_id, training, rows in self._rows(statement, (key,)):
            for run in self._sound([(run_id, training)], TrainingRun):
                by_rows.setdefault(rows, []).append(run)
        return by_rows

    def judged_runs(self, world: str, *, loaded: bool, newest: int) -> list[JudgedRun]:
        """Return the newest runs with a range, on a platform whose hosts were as loaded, oldest first."""
        statement = (
            "SELECT id, judged FROM runs WHERE world = ? AND loaded = ? AND judged IS NOT NULL "
            "ORDER BY id DESC LIMIT ?"
        )
        return self._decoded(statement, (world, loaded, newest), JudgedRun)[::-1]

    def judged_kinds(self, application: str | None) -> dict[tuple[str, bool], list[JudgedRun]]:
        """Return platform and whether hosts were loaded → the runs with a range, oldest first."""
        by_kind: dict[tuple[str, bool], list[JudgedRun]] = {}
        statement = (
            "SELECT id, judged, world, loaded FROM runs WHERE judged IS NOT NULL AND ? IN (application, '') "
            "ORDER BY world, loaded, id"
        )
        for run_id, judged, world, loaded in self._rows(statement, (application or "",)):
            by_kind.setdefault((world, bool(loaded)), []).extend(self._sound([(run_id, judged)], JudgedRun))
        return by_kind

    def launches(self, key: str | None, newest: int) -> list[Launch]:
        """Return the launches of the newest runs, oldest first; of one key if given."""
        statement = "SELECT id, launches FROM runs WHERE ? IN (key, '') ORDER BY id DESC LIMIT ?"
        by_run = self._decoded(statement, (key or "", newest), tuple[Launch, ...])
        return [launch for launches in reversed(by_run) for launch in launches]

    def benchmarks(self, key: str) -> dict[int, dict[str, MeasuredBenchmarks]]:
        """Return rows of a slab → kind of machine → the benchmarks of a key."""
        tables: dict[int, dict[str, MeasuredBenchmarks]] = {}
        statement = (
            "SELECT 'of ' || machine, benchmark, slab_rows, machine, measured_at FROM benchmarks WHERE key = ? "
            "ORDER BY slab_rows, machine, ranks"
        )
        for name, blob, rows, machine, measured_at in self._rows(statement, (key,)):
            table, sound = tables.setdefault(rows, {}), self._sound([(name, blob)], Benchmark)
            before = table.get(machine, MeasuredBenchmarks(measured_at=0.0, benchmarks=()))
            # Of a damaged or meaningless benchmark nothing is used: it is measured again.
            usable = [b for b in sound if 0 < b.seconds_per_row < math.inf]
            if usable and isinstance(measured_at, float):
                table[machine] = MeasuredBenchmarks(
                    measured_at=max(before.measured_at, measured_at),
                    benchmarks=(*before.benchmarks, *usable),
                )
        return tables

    def put_benchmark(
        self, key: str, slab_rows: int, machine: str, benchmark: Benchmark, measured_at: float
    ) -> None:
        """Store a benchmark in place of an earlier one of as many ranks; raises as `append` does."""
        values = (key, slab_rows, machine, benchmark.ranks, measured_at, _packed(benchmark))
        self._write("INSERT OR REPLACE INTO benchmarks VALUES (?, ?, ?, ?, ?, ?)", values)

    def _write(self, statement: str, values: Sequence[object]) -> None:
        """Write one row. If there is no space for it, go on in memory and report that once."""
        try:
            with self._file.writing() as connection:
                connection.execute(statement, values)
        except HistoryError as error:
            self._leave_file(error)
            self._write(statement, values)

    def _rows(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        try:
            with self._file.reading() as connection:
                return connection.execute(statement, values).fetchall()
        except HistoryError as error:
            self._leave_file(error)
            return self._rows(statement, values)

    def _leave_file(self, error: HistoryError) -> None:
        """Go on in memory, with the records that can be read."""
        unwritable = is_unwritable(error.__cause__)
        if self._strict and not unwritable:
            raise error
        if unwritable:
            self._file = self._file.in_memory()
        else:
            self._file = readable_rows(self.path, _FORMAT, _ORDERS)
        ((runs,),) = self._rows("SELECT COUNT(*) FROM runs")
        self._notify(f"{error}; this run goes on with {counted(runs, 'record')}, but its own is not kept")

    def _decoded(self, statement: str, values: Sequence[object], kind: type[T]) -> list[T]:
        return list(self._sound(self._rows(statement, values), kind))

    def _sound(self, rows: Iterable[tuple[str, object]], kind: type[T]) -> Iterator[T]:
        """Yield the values of (name, blob) that are undamaged; report the others."""
        for name, blob in rows:
            try:
                yield _unpacked(blob, kind)
            except _Damaged as error:
                self._report(name, f"{self.path}: the record {name} is damaged ({error}) and left out")

    def _report(self, name: str, text: str) -> None:
        if name not in self._reported:
            self._reported.add(name)
            self._notify(text)


def launches_of(record: Record) -> tuple[Launch, ...]:
    """Return the launches of a run that have ended."""
    ended = [(a.plan.hosts, a.outcome) for a in record.attempts]
    if not ended and record.outcome is not None:
        ended = [(record.plan.hosts, record.outcome)]
    size = record.options.get("checkpoint_bytes")
    return tuple(
        Launch(
            hosts=hosts,
            lost=tuple(outcome.lost),
            observed_s=outcome.observed_s,
            checkpoint_s=max(
                (o.checkpoint_s / o.checkpoints for o in outcome.observations if o.checkpoints > 0),
                default=None,
            ),
            checkpoint_bytes=float(size) if isinstance(size, int | float) else 0.0,
        )
        for hosts, outcome in ended
    )


def _plain(value: object) -> object:
    """Return a number of numpy as one of Python."""
    item: Callable[[], object] | None = getattr(value, "item", None)
    if item is None:
        raise NotImplementedError(f"{type(value).__name__} in a record")
    return item()


def _packed(value: object) -> bytes:
    """Return the value as MessagePack, behind its checksum of four bytes."""
    content = msgspec.msgpack.encode(value, enc_hook=_plain)
    return zlib.crc32(content).to_bytes(4, "big") + content


_decoders: dict[Any, Any] = {}


def _unpacked(blob: object, kind: type[T]) -> T:
    # A damaged page may hold a value of any type in the place of a blob.
    if not isinstance(blob, bytes):
        raise _Damaged("it is no sequence of bytes")
    content = blob[4:]
    if zlib.crc32(content).to_bytes(4, "big") != blob[:4]:
        raise _Damaged("its checksum does not match its content")
    if kind not in _decoders:
        _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        value: T = _decoders[kind].decode(content)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _Damaged(str(error)) from None
    return value
