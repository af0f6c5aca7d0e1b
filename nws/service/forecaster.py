"""The forecaster: a battery for every series, always as far as the store's log.

Whatever is in the log is what the batteries have seen, in the order of the log, whoever wrote it: so forecasts after a
restart are those of a service that never stopped. The state is saved beside the store now and then; a restart reads
it and the log after it. Without it the last day is replayed, as many samples of each series as can be replayed in
some seconds. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import numpy as np

from nws.base.errors import StoreError
from nws.forecasting.bank import LARGEST, BatteryBank, Columns, Pick
from nws.memory import DAY_S, Memory
from nws.series import Forecast
from nws.service import batteryfile
from nws.service.batteryfile import Seen
from nws.service.catalogue import Catalogue
from nws.service.logreader import samples_since
from nws.service.records import Ints

_LOG = logging.getLogger(__name__)

#: Without a saved state: how far back, samples of one series, and samples of all series together.
REPLAY_S = DAY_S
REPLAY_SAMPLES = 2000
REPLAY_TOTAL = 1_500_000
#: The state is saved no more often than this, and no faster than so many bytes a second, but this often at least.
SAVE_EVERY_S = 30.0
SAVE_BPS = 2e6
SAVE_AT_LEAST_EVERY_S = 300.0


class Forecaster:
    """Batteries of all series of a memory; safe from several threads.

    file : where the state is saved, None for nowhere.  identity : of the store
    lock : held while batteries or catalogue change; take it to read several things that belong together
    last_t : float64[series], when each was measured last, -inf where it never was
    """

    def __init__(self, memory: Memory, *, file: Path | None, identity: str, now: float) -> None:
        self.lock = threading.RLock()
        self.catalogue = Catalogue()
        self.last_t = np.empty(0)
        self.saves = 0
        self.save_failures = 0
        self.save_s = 0.0
        self._memory = memory
        self._file = file
        self._identity = identity
        self._bank = BatteryBank()
        self._cursor = 0
        self._saved_cursor: int | None = None
        self._saved_at: float | None = None
        self._saving = threading.Lock()
        start = time.perf_counter()
        self.restored = self._restore(now)
        self.restore_s = time.perf_counter() - start

    def follow(self, now: float) -> None:
        """Take what has come into the log since; raises `StoreError` when it cannot be read.

        now : seconds since the epoch, for how far back to look where the log does not reach back
        """
        with self.lock:
            fresh = samples_since(self._memory, self._cursor)
            if fresh is None:
                self._replay(now)
                return
            batch, cursor = fresh
            if len(batch):
                if int(batch.ids.max()) >= len(self.catalogue):
                    self.learn_names()
                # what other programs wrote may be what no battery takes
                legal = np.abs(batch.values) <= LARGEST
                if not legal.all():
                    batch = batch.picked(legal)
                self._bank.update_many(batch.ids, batch.values, batch.times)
                # late samples make no series old
                np.maximum.at(self.last_t, batch.ids, batch.times)
            self._cursor = cursor

    def learn_names(self) -> None:
        """Take in series that the memory knows and the catalogue does not."""
        with self.lock:
            self.catalogue.extend(self._memory.names()[len(self.catalogue) :])
            missing = len(self.catalogue) - len(self._bank)
            if missing > 0:
                self._bank.add(missing)
            self._count()

    def columns(self, numbers: Ints, pick: Pick = Pick.MAE) -> Columns:
        """Forecasts of some series as arrays; 0 samples where nothing was measured."""
        with self.lock:
            return self._bank.columns(numbers, pick)

    def forecasts(self, numbers: Ints) -> list[Forecast]:
        """Forecasts of some series, all of which have measurements."""
        with self.lock:
            return self._bank.forecasts(numbers.tolist())

    def save_when_due(self, monotonic: float) -> None:
        """Save the state when it is time to; a failure is logged and counted, and tried again later."""
        size = len(self._bank) * self._bank.bytes_per_series
        every_s = min(max(SAVE_EVERY_S, size / SAVE_BPS), SAVE_AT_LEAST_EVERY_S)
        if self._saved_at is None:
            self._saved_at = monotonic
        if monotonic - self._saved_at >= every_s:
            self._saved_at = monotonic
            try:
                self.save()
            except StoreError as error:
                _LOG.warning("%s", error)

    def save(self) -> None:
        """Save the state now, unless that was done since the last change; raises `StoreError`."""
        if self._file is None:
            return
        with self._saving:
            with self.lock:
                cursor = self._cursor
                if cursor == self._saved_cursor:
                    return
                states, names = self._bank.states(), self.catalogue.names[: len(self._bank)]
            seen = Seen(identity=self._identity, cursor=cursor, names=batteryfile.digest(names))
            start = time.perf_counter()
            try:
                batteryfile.write(self._file, states, seen)
            except StoreError:
                self.save_failures += 1
                raise
            self.saves += 1
            self.save_s = time.perf_counter() - start
            self._saved_cursor = cursor

    def _restore(self, now: float) -> str:
        """``saved``, ``replayed`` or ``empty``: what the batteries start from."""
        self.learn_names()
        saved = None if self._file is None else batteryfile.read(self._file)
        if saved is not None:
            states, seen = saved
            names = self.catalogue.names
            fits = seen.identity == self._identity and seen.names == batteryfile.digest(names[: len(states)])
            # a store that lost its end to a power failure is behind what the batteries have seen
            fresh = samples_since(self._memory, seen.cursor) if fits and len(states) <= len(names) else None
            if fresh is not None and fresh[1] >= seen.cursor:
                self._bank = BatteryBank.restored(states)
                self._bank.add(len(names) - len(states))
                self._count(afresh=True)
                self._cursor = self._saved_cursor = seen.cursor
                self.follow(now)
                return "saved"
            _LOG.info("%s: not the state of this store as it is; replaying the last day", self._file)
        self._replay(now)
        return "replayed" if self._cursor else "empty"

    def _replay(self, now: float) -> None:
        """Start afresh from the samples of the last day."""
        self.learn_names()
        series = max(len(self.catalogue), 1)
        most = min(REPLAY_SAMPLES, max(REPLAY_TOTAL // series, 100))
        history = self._memory.history(since=now - REPLAY_S, most=most)
        self._bank = BatteryBank()
        self.learn_names()
        for one, samples in history.samples.items():
            values = np.asarray(samples.values)
            legal = np.abs(values) <= LARGEST
            numbers = np.full(np.count_nonzero(legal), self.catalogue.number(str(one)))
            self._bank.update_many(numbers, values[legal], np.asarray(samples.times)[legal])
        self._count(afresh=True)
        self._cursor = history.cursor

    def _count(self, *, afresh: bool = False) -> None:
        """Make `last_t` as long as there are series."""
        first = 0 if afresh else len(self.last_t)
        if first < len(self._bank):
            columns = self._bank.columns(np.arange(first, len(self._bank)))
            fresh = np.where(columns.samples > 0, columns.measured_at, -np.inf)
            self.last_t = np.concatenate((self.last_t[:first], fresh))
