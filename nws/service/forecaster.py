"""The forecaster: one battery per series, in step with the store's log.

The batteries see every sample of the log in its order, from every writer. Forecasts after a restart therefore equal
those of a service that never stopped; only a series that is new since the last save borrows from others as they are in
the saved state. The state is saved beside the store at intervals; a restart reads it and the
log after it. Without a saved state the last day is replayed, with as many samples per series as a few seconds
allow. Source: Wolski et al. 2000, §2.4.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nws.base.errors import StoreDamaged, StoreError, UsageError
from nws.base.files import set_aside
from nws.forecasting.batteries import FEW_VALUES, LARGEST, Ahead, BatteryBank, Columns, Pick
from nws.memory import DAY_S, Memory, Samples
from nws.memory.log import LogBatch, joined, progress, rows_after
from nws.messages.fieldtypes import Floats, Ints
from nws.series import Forecast
from nws.service import batteryfile
from nws.service.batteryfile import Seen
from nws.service.seriescatalogue import Catalogue

_LOG = logging.getLogger(__name__)

#: Replay without a saved state: the period, the samples per series, and the samples in total.
REPLAY_S = DAY_S
REPLAY_SAMPLES = 2000
REPLAY_TOTAL = 1_500_000
#: Shortest interval between two saves, the maximum write rate in bytes per second, and the longest
#: interval.
SAVE_EVERY_S = 30.0
SAVE_BPS = 2e6
SAVE_AT_LEAST_EVERY_S = 300.0
#: Outlooks that are made without a pause, and the pause, seconds.
_OUTLOOKS, _PAUSE_S = 2048, 1e-4


def samples_since(
    memory: Memory, cursor: int, *, included: Ints | None = None
) -> tuple[LogBatch, int] | None:
    """Return the samples stored since `cursor` by any process, in order, and the new cursor.

    Returns None if the log does not reach back so far; then replay the history. Damaged rows are noted and left out.
    Raises `StoreError`.

    Args:
        memory: the store
        cursor: number of the last row of the log that is known
        included: int64[series], a later row for each series up to which its samples are known as well
    """
    known = None if included is None else np.append(included, cursor)
    batches = []
    with memory.database.reading() as connection:
        at = progress(connection)
        if at.deleted_to > cursor:
            return None
        for row, batch, losses in rows_after(connection, cursor, at.written_to):
            if known is not None:
                batch = batch.picked(known[np.minimum(batch.ids, len(known) - 1)] < row)
            batches.append(batch)
            for loss in losses:
                memory.database.damage.note(f"{memory.path}: damaged: row {row} of its log: {loss}")
    return joined(batches), at.written_to


class Forecaster:
    """Batteries of all series of a memory; thread-safe.

    file: where the state is saved, None for nowhere.  identity: of the store
    cpu_model: returns a host's CPU model, empty if unknown; called with the lock held
    lock: held while batteries or catalogue change; acquire it to read several consistent values
    last_t: float64[series], time of the last measurement of each, -inf for none
    """

    def __init__(
        self, memory: Memory, *, file: Path | None, identity: str, now: float, cpu_model: Callable[[str], str]
    ) -> None:
        self.lock = threading.RLock()
        self.catalogue = Catalogue()
        self.last_t = np.empty(0)
        self.saves = self.save_failures = 0
        self.save_s = 0.0
        self._memory = memory
        self._file = file
        self._identity = identity
        self._cpu_model = cpu_model
        self._bank = BatteryBank()
        self._cursor = 0
        self._saved_cursor: int | None = None
        self._saved_at: float | None = None
        self._saving = threading.Lock()
        start = time.perf_counter()
        self.restored = self._restore(now)
        self.restore_s = time.perf_counter() - start

    def follow(self, now: float, latest: tuple[int, LogBatch] | None = None) -> None:
        """Process new samples of the log; raises `StoreError` if it cannot be read.

        Args:
            now: seconds since the epoch, the end of the replayed period if the log does not reach back far enough
            latest: a row of the log and its samples; if it is the next one, nothing is read
        """
        with self.lock:
            if latest is not None and latest[0] == self._cursor + 1:
                self._take(latest[1], latest[0])
                return
            fresh = samples_since(self._memory, self._cursor)
            if fresh is None:
                self._replay(now)
                return
            self._take(*fresh)

    def _take(self, batch: LogBatch, cursor: int) -> None:
        """Update with samples of the log up to `cursor`."""
        if len(batch):
            if int(batch.ids.max()) >= len(self.catalogue):
                self.learn_names()
            try:
                self._bank.update_many(batch.ids, batch.values, batch.times)
            except UsageError:
                # other programs may have stored values that a battery rejects; nothing was updated
                batch = batch.picked(np.abs(batch.values) <= LARGEST)
                self._bank.update_many(batch.ids, batch.values, batch.times)
            # late samples do not move the last time backwards
            np.maximum.at(self.last_t, batch.ids, batch.times)
        self._cursor = cursor

    def learn_names(self) -> None:
        """Add the series that the memory knows and the catalogue does not."""
        with self.lock:
            self.catalogue.extend(self._memory.names()[len(self.catalogue) :])
            missing = len(self.catalogue) - len(self._bank)
            if missing > 0:
                self._lend(self._bank.add(missing))
            self._count()

    def _lend(self, borrowers: range) -> None:
        """Let series without measurements start from the errors of others of their kind."""
        self._bank.lend(borrowers, self.catalogue.kinds(self._cpu_model))

    def columns(self, numbers: Ints, pick: Pick = Pick.MAE) -> Columns:
        """Return forecasts of some series as arrays, with a sample count of 0 for series without measurements."""
        with self.lock:
            return self._bank.columns(numbers, pick)

    def forecasts(self, numbers: Ints, over_s: Sequence[float], now: float) -> list[Forecast]:
        """Return forecasts of some series, each of which has measurements, with outlooks over some spans."""
        forecasts: list[Forecast] = []
        for part in _parts_of(numbers, over_s):
            with self.lock:
                ahead = self._ahead(part, over_s, now) if over_s else None
                forecasts += self._bank.forecasts(part.tolist(), ahead=ahead)
        return forecasts

    def outlooks(self, numbers: Ints, over_s: Sequence[float], now: float) -> Floats:
        """Return the distributions of means of some series over some spans, as `BatteryBank.outlooks`."""
        outlooks = []
        for part in _parts_of(numbers, over_s):
            with self.lock:
                outlooks.append(self._bank.outlooks(part, self._ahead(part, over_s, now)))
        return np.concatenate(outlooks)

    def _ahead(self, numbers: Ints, over_s: Sequence[float], now: float) -> Ahead:
        least, most = self.catalogue.bounds[:, numbers]
        return Ahead(over_s=over_s, now=now, least=least, most=most)

    def save_when_due(self, monotonic: float) -> None:
        """Save the state if it is due; a failure is logged, counted and tried again later."""
        size = len(self._bank) * self._bank.bytes_per_series
        every_s = min(max(SAVE_EVERY_S, size / SAVE_BPS), SAVE_AT_LEAST_EVERY_S)
        self._saved_at = self._saved_at or monotonic
        if monotonic - self._saved_at >= every_s:
            self._saved_at = monotonic
            try:
                self.save()
            except StoreError as error:
                _LOG.warning("%s", error)

    def save(self) -> None:
        """Save the state now unless it is unchanged; raises `StoreError`."""
        if self._file is None:
            return
        with self._saving:
            with self.lock:
                cursor = self._cursor
                if cursor == self._saved_cursor:
                    return
                names = self.catalogue.names[: len(self._bank)]
            seen = Seen(identity=self._identity, cursor=cursor, names=batteryfile.digest(names))
            start = time.perf_counter()
            try:
                batteryfile.write(self._file, self._blocks(len(names)), len(names), seen)
            except StoreError:
                self.save_failures += 1
                raise
            self.saves += 1
            self.save_s = time.perf_counter() - start
            self._saved_cursor = cursor

    def _blocks(self, series: int) -> Iterator[tuple[NDArray[np.void], int]]:
        """Yield copies of so many series' states, and the cursor of each; samples may arrive between them."""
        for first in range(0, series, batteryfile.BLOCK):
            with self.lock:
                block = self._bank.states(first, min(batteryfile.BLOCK, series - first)), self._cursor
            yield block

    def _restore(self, now: float) -> str:
        """Return the origin of the batteries' state: ``saved``, ``replayed`` or ``empty``."""
        self.learn_names()
        saved = None
        try:
            saved = None if self._file is None else batteryfile.read(self._file)
        except StoreDamaged as error:
            self._set_aside(str(error))
        if saved is not None:
            bank, seen = saved
            names = self.catalogue.names
            fits = seen.identity == self._identity and seen.names == batteryfile.digest(names[: len(bank)])
            # a power failure may have cut the store's log before the position that the batteries include
            fresh = None
            if fits and len(bank) <= len(names):
                fresh = samples_since(self._memory, seen.cursor, included=seen.included(len(bank)))
            if fresh is not None and fresh[1] >= max(seen.cursors, default=seen.cursor):
                self._bank = bank
                self._lend(self._bank.add(len(names) - len(bank)))
                self._count(afresh=True)
                self._saved_cursor = seen.cursor
                self._take(*fresh)
                return "saved"
            if fits and fresh is None:
                _LOG.info("%s: older than the store's log; replaying the last day", self._file)
            else:
                self._set_aside(f"{self._file}: of another store, or later than this one")
        self._replay(now)
        return "replayed" if self._cursor else "empty"

    def _set_aside(self, reason: str) -> None:
        """Keep a file that is not used, and note it."""
        assert self._file is not None
        self._memory.database.damage.note(
            f"{reason}; {_moved_aside(self._file)}; forecasters learn from the last day"
        )

    def _replay(self, now: float) -> None:
        """Rebuild the batteries from the samples of the last day; short series borrow from long ones."""
        self.learn_names()
        most = min(REPLAY_SAMPLES, max(REPLAY_TOTAL // max(len(self.catalogue), 1), 100))
        history = self._memory.history(since=now - REPLAY_S, most=most, sound=True)
        self._bank = BatteryBank()
        self.learn_names()
        for short in (False, True):
            self._lend(range(len(self._bank)))
            for one, samples in history.samples.items():
                if (len(samples) < FEW_VALUES) == short:
                    _learn(self._bank, self.catalogue.number(str(one)), samples)
        self._count(afresh=True)
        self._cursor = history.cursor

    def _count(self, *, afresh: bool = False) -> None:
        """Extend `last_t` to the number of series."""
        first = 0 if afresh else len(self.last_t)
        if first < len(self._bank):
            columns = self._bank.columns(np.arange(first, len(self._bank)))
            fresh = np.where(columns.samples > 0, columns.measured_at, -np.inf)
            self.last_t = np.concatenate((self.last_t[:first], fresh))


def _moved_aside(file: Path) -> str:
    """Rename a file that is not used; return the outcome as text."""
    try:
        return f"kept as {set_aside(file)}"
    except OSError as error:
        return f"it cannot be kept: {error.strerror or error}"


def _learn(bank: BatteryBank, number: int, samples: Samples) -> None:
    """Update the battery of a series with its samples, without values that no battery takes."""
    values = np.asarray(samples.values)
    legal = np.abs(values) <= LARGEST
    bank.update_many(
        np.full(np.count_nonzero(legal), number), values[legal], np.asarray(samples.times)[legal]
    )


def _parts_of(numbers: Ints, over_s: Sequence[float]) -> Iterator[Ints]:
    """Yield the series in parts: between them other threads get the lock, which is not fair by itself."""
    size = max(_OUTLOOKS // max(len(over_s), 1), 1)
    yield numbers[:size]
    for first in range(size, len(numbers), size):
        time.sleep(_PAUSE_S)
        yield numbers[first : first + size]
