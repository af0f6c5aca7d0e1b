"""The store: every measurement on disk between runs, read in time order.

New measurements are appended to a log in order of arrival, a row for each step. After the end of an hour its samples
move into one compressed chunk for each series (`chunks`) and into roll-ups (`rollups`), a slice at a time
(`compaction`). Samples still in the log are in memory by series as well (`headblock`). Samples older than their
retention, by the clock, are deleted. Several threads and several processes may use one store; see `database` for
errors of the file. numpy is imported when the first store is opened: names from here are imported by commands that open
none.
"""

from __future__ import annotations

import math
import sqlite3
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nws.base.closing import Closing
from nws.base.durations import Period_s
from nws.base.errors import StoreError, UsageError
from nws.base.quantities import without_units
from nws.memory.database import Database
from nws.memory.integrity import DamagedRows
from nws.series import Measurement, Series

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nws.memory.deliveries import Delivery, Receipt
    from nws.memory.log import LogBatch
    from nws.memory.rollups import Buckets

DAY_S = 86400.0

#: Compaction that a writer does on its way, seconds.
_ON_THE_WAY_S = 0.005


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Retention of samples and roll-ups, in seconds by the clock."""

    samples_s: Period_s = 7 * DAY_S
    minutes_s: Period_s = 60 * DAY_S
    ten_minutes_s: Period_s = 730 * DAY_S

    def __post_init__(self) -> None:
        for name in ("samples_s", "minutes_s", "ten_minutes_s"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise UsageError(f"keep {name} = {value}: expected a positive, finite number of seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of one series: number of samples, and the last of them (seconds since the epoch, its unit)."""

    series: Series
    samples: int
    last_t: float
    last: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Samples of one series, float64[n] each, oldest first; numpy takes them without copying."""

    times: array[float]
    values: array[float]

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesHistory:
    """Samples by series; `cursor` marks the last measurement that was known when it was read."""

    samples: Mapping[Series, Samples]
    cursor: int


class Memory(Closing):
    """The measurements in one file; a context manager. Raises `StoreError` if the file fails.

    keep : retention.  clock : seconds since the epoch; decides which hours are over and which samples are outdated
    in_memory : no file, everything is lost when closed.  full_sync : survive a power failure at any moment
    """

    def __init__(
        self,
        path: Path,
        *,
        keep: Keep | None = None,
        clock: Callable[[], float] = time.time,
        in_memory: bool = False,
        full_sync: bool = False,
    ) -> None:
        # imported here and below: `apples-run` imports this package for its types before it needs numpy
        from nws.memory.compaction import Compaction, Horizon
        from nws.memory.headblock import HeadBlock
        from nws.memory.seriesnames import Names

        keep = keep or Keep()
        self._clock = clock
        self._database = Database(path, in_memory=in_memory, full_sync=full_sync)
        self._names = Names(path)
        self._tail = HeadBlock()
        horizon = Horizon(
            samples_s=keep.samples_s,
            rollups_s={60: keep.minutes_s, 600: keep.ten_minutes_s},
            sources_s=keep.ten_minutes_s,
        )
        self._housekeeping = Compaction(self._database, self._tail, horizon, clock)

    @property
    def path(self) -> Path:
        """Return the file."""
        return self._database.path

    @property
    def database(self) -> Database:
        """Return the file itself, for tables of others (`host`, `event`, `forecaster`)."""
        return self._database

    @property
    def latest(self) -> tuple[int, LogBatch] | None:
        """Return the last row of the log that this object wrote, and its samples."""
        return self._tail.latest

    def append(self, measurements: Iterable[Measurement]) -> None:
        """Keep all of them, or none when this raises; `UsageError` for a value or time that is not finite."""
        import numpy as np

        from nws.memory.deliveries import Delivery

        taken = list(measurements)
        for m in taken:
            if not (math.isfinite(m.t) and math.isfinite(m.value)):
                raise UsageError(
                    f"{m.series}: {m.value} at {m.t} is not a measurement; both must be finite numbers"
                )
        if not taken:
            return
        delivery = Delivery(
            ids=self.series_ids([str(m.series) for m in taken]),
            times=np.array([m.t for m in taken]),
            values=np.array([m.value for m in taken]),
            received=self._clock(),
        )
        self.deliver([delivery])
        try:
            self.tend(budget_s=_ON_THE_WAY_S)
        except StoreError:
            # the measurements are kept; a failure here is repeated, and reported, at the next step
            return

    def deliver(self, deliveries: Sequence[Delivery]) -> list[Receipt]:
        """Keep all deliveries in one step, or none when this raises; a receipt for each.

        Samples that a source has delivered before are left out, so a delivery may be repeated. `UsageError` for
        columns of different lengths, an unknown series, or a sample that is no finite number.
        """
        from nws.memory import log
        from nws.memory.deliveries import accept, check

        with self._database.lock:
            # another process may have made the series
            if any(len(d.ids) and int(d.ids.max()) >= len(self._names) for d in deliveries):
                self.names()
            for delivery in deliveries:
                check(delivery, self._names)
            with self._database.writing() as connection:
                receipts, batch = accept(connection, deliveries)
                # one row of the log for all deliveries of a step, and so one time of receipt
                received = max((d.received for d in deliveries), default=0.0)
                if len(batch):
                    at = self._database.progress = log.write(connection, batch, received)
            if len(batch):
                self._tail.written(at.written_to, batch)
        return receipts

    def series_ids(self, names: Sequence[str]) -> NDArray[np.int32]:
        """Return id of each name, int32[n]; makes those that are missing. Ids count from 0 and never change."""
        import numpy as np

        from nws.memory.totals import write_name

        with self._database.lock:
            # read again in the transaction below, as another process may make the same series now
            missing = self._names.missing(names)
            if missing:
                with self._database.writing() as connection:
                    self._names.follow(connection)
                    for number, name in enumerate(self._names.missing(names), len(self._names)):
                        write_name(connection, number, name)
                self.names()
            return np.fromiter((self._names.ids[n] for n in names), np.int32, len(names))

    def names(self) -> list[str]:
        """Return names of all series, in the order of their ids."""
        with self._reading():
            return self._names.all()

    def summaries(self) -> list[Summary]:
        """Return one for each series that has samples, by name."""
        from nws.memory.seriesreading import refuse_lost
        from nws.memory.totals import total_of

        with self._reading() as connection:
            self._tail.follow(connection)
            series = [self._names.series(i) for i in range(len(self._names))]
            # a sum over all series would lack what is lost of any of them
            refuse_lost(connection, self._tail)
            found_rows = connection.execute("SELECT id, samples, last_t, last_value, crc FROM total")
            rows = {number: row for number, *row in found_rows}
            sums = [total_of(i, rows.get(i)) for i in range(len(series))]
            totals = self._tail.totals(len(series))
        # lists of Python numbers: element by element, arrays would be several times slower
        columns = (totals.samples.tolist(), totals.last_t.tolist(), totals.last.tolist())
        states = []
        for one, total, more, t, value in zip(series, sums, *columns, strict=True):
            if total.samples + more:
                late = total.last_t is None or t >= total.last_t
                states.append(
                    Summary(
                        series=one,
                        samples=total.samples + more,
                        last_t=t if late or total.last_t is None else total.last_t,
                        last=value if late or total.last is None else total.last,
                    )
                )
        return sorted(states, key=lambda s: str(s.series))

    def history(
        self,
        *,
        since: float = -math.inf,
        until: float = math.inf,
        most: int | None = None,
        series: Iterable[Series] | None = None,
        sound: bool = False,
    ) -> SeriesHistory:
        """Return samples measured from `since` to `until` (seconds since the epoch), the newest `most` of each series.

        series : only these; a long history of many series is better read one by one, with `samples`
        sound : leave damaged samples out, and note them, instead of raising an error
        """
        from nws.memory.seriesreading import refuse_lost, samples_of

        with self._reading() as connection:
            cursor = self._tail.follow(connection).written_to
            numbers = range(len(self._names)) if series is None else self._names.known(series)
            if not sound and not numbers:
                # an empty answer would hide that series are lost
                refuse_lost(connection, self._tail, span=(since, until))
            samples = {}
            for i in numbers:
                damage: list[str] | None = [] if sound else None
                with self._about(i):
                    batch = samples_of(connection, self._tail, i, (since, until), most=most, damaged=damage)
                for reason in damage or ():
                    self._database.damage.note(f"{self.path}: damaged: {self._names.series(i)}: {reason}")
                if len(batch):
                    samples[self._names.series(i)] = _samples(batch.times, batch.values)
        return SeriesHistory(samples=samples, cursor=cursor)

    def news(self, cursor: int) -> tuple[list[Measurement], int] | None:
        """Return measurements kept since `cursor`, by any process, and the new cursor.

        None when some of them are in chunks only: read the `history` again.
        """
        from nws.memory import log

        with self._reading() as connection:
            at = log.progress(connection)
            # rows after the cursor were deleted, so their samples cannot be told from older ones
            if cursor < at.deleted_to:
                return None
            measurements = []
            for row, batch, losses in log.rows_after(connection, cursor, at.written_to):
                if losses:
                    raise DamagedRows(f"row {row} of its log: {losses[0]}")
                columns = (batch.ids.tolist(), batch.times.tolist(), batch.values.tolist())
                measurements += [
                    Measurement(self._names.series(i), t, v) for i, t, v in zip(*columns, strict=True)
                ]
            return measurements, at.written_to

    def samples(self, series: Series, *, since: float = -math.inf, until: float = math.inf) -> Samples:
        """Return samples of one series measured between two times, both included; none for an unknown series."""
        from nws.memory.seriesreading import refuse_lost, samples_of

        with self._reading() as connection:
            self._tail.follow(connection)
            if str(series) not in self._names.ids:
                refuse_lost(connection, self._tail, span=(since, until))
            for i in self._names.known([series]):
                with self._about(i):
                    batch = samples_of(connection, self._tail, i, (since, until))
                return _samples(batch.times, batch.values)
        return Samples(times=array("d"), values=array("d"))

    def rollup(
        self,
        series: Series,
        *,
        bucket_s: Literal[60, 600],
        since: float = -math.inf,
        until: float = math.inf,
    ) -> Buckets:
        """Return buckets of one series that begin between two times, both included.

        The open hour's samples are in them.
        """
        from nws.memory.rollups import SPANS_S, joined
        from nws.memory.seriesreading import buckets_of, refuse_lost

        if bucket_s not in SPANS_S:
            raise UsageError(
                f"roll-ups of {bucket_s} s are not kept; legal are {', '.join(map(str, SPANS_S))}"
            )
        with self._reading() as connection:
            self._tail.follow(connection)
            if str(series) not in self._names.ids:
                refuse_lost(connection, self._tail, bucket_s, span=(since, until))
            for i in self._names.known([series]):
                with self._about(i):
                    return buckets_of(connection, self._tail, i, bucket_s, (since, until))
        return joined([])

    def tend(self, *, budget_s: float = 0.02) -> bool:
        """Close hours and delete outdated samples, for about `budget_s`; return whether more is waiting."""
        # the lock and not a transaction: each step of the work is one of its own
        with self._database.lock:
            return self._housekeeping.tend(budget_s)

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._database.reading() as connection:
            self._names.follow(connection)
            yield connection

    @contextmanager
    def _about(self, series: int) -> Iterator[None]:
        """Name the series in errors about its content."""
        try:
            yield
        except DamagedRows as error:
            raise DamagedRows(f"{self._names.series(series)}: {error}") from error


def _samples(times: NDArray[np.float64], values: NDArray[np.float64]) -> Samples:
    return Samples(times=array("d", times.tobytes()), values=array("d", values.tobytes()))
