"""The parts of an open weather service, and the order in which they are opened."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from nws.base.errors import StoreError
from nws.memory import Memory
from nws.memory.integrity import DamageLog
from nws.memory.keyvalues import KeyValueTable
from nws.messages.weatherdocuments import Health
from nws.service.batteryfile import battery_file
from nws.service.eventlog import Events
from nws.service.forecaster import Forecaster
from nws.service.hostdirectory import Directory
from nws.service.ingestion import IngestCounts
from nws.service.scheduling import ScheduleVersions
from nws.service.serviceconfig import ServiceConfig

Clock = Callable[[], float]
_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


class StoreStatus:
    """The outcome of the last write to the store, and the damage that was found; thread-safe."""

    def __init__(self, damage: DamageLog) -> None:
        self._damage = damage
        self._lock = threading.Lock()
        self._reason: str | None = None

    @property
    def degraded(self) -> bool:
        """Return whether the last write failed."""
        return self._reason is not None

    def record_failure(self, error: StoreError) -> None:
        """Note a failed write; the first of a row is logged."""
        with self._lock:
            if self._reason is None:
                _LOG.error("the service is degraded: it cannot write its store, reading continues: %s", error)
            self._reason = str(error)

    def record_success(self) -> None:
        """Note a write that succeeded."""
        with self._lock:
            if self._reason is not None:
                _LOG.warning("the store can be written again")
            self._reason = None

    def write(self, action: Callable[[], _T]) -> _T:
        """Return the result of a write; a `StoreError` is noted and raised again."""
        try:
            return action()
        except StoreError as error:
            self.record_failure(error)
            raise

    def health(self) -> Health:
        """Return the state of the service as a document."""
        reason, damage = self._reason, self._damage.summary()
        if reason is None and damage is None:
            return Health(status="ok", store="writable")
        store = "writable" if reason is None else "not writable"
        return Health(status="degraded", store=store, reason=reason or damage)


@dataclass(slots=True, kw_only=True)
class Counters(IngestCounts):
    """Counts since the service started, and its present content; for supervision.

    hosts, hosts_lost, series: now.  store_bytes: size of the store's files
    battery_saves, battery_save_s: number of saves of the forecasters' state, and duration of the last one
    restored: origin of the forecasters' state: ``saved``, ``replayed`` or ``empty``.  restore_s: time that took
    """

    hosts: int
    hosts_lost: int
    series: int
    schedule_version: int
    events: int
    store_bytes: int
    battery_saves: int
    battery_save_failures: int
    battery_save_s: float
    restored: str
    restore_s: float


class ServiceParts:
    """The parts of one service, over an open memory, shared by the classes that work on them.

    clock: seconds since the epoch.  steady: seconds that never step, for leases
    lock: protects directory and schedules; acquired before the forecaster's lock, never while holding that
    """

    def __init__(
        self,
        config: ServiceConfig,
        memory: Memory,
        path: Path,
        *,
        clock: Clock,
        steady: Clock,
        in_memory: bool,
    ) -> None:
        """Make the parts in this order; raises `StoreError` if the store cannot be read."""
        self.config, self.memory, self.path = config, memory, path
        self.clock, self.steady = clock, steady
        self.lock = threading.RLock()
        self.status = StoreStatus(memory.database.damage)
        self.keyvalues = KeyValueTable(memory.database)
        self.directory = Directory(config, memory.database, clock, steady)
        self.forecaster = Forecaster(
            memory,
            file=None if in_memory else battery_file(path),
            identity=self.keyvalues.identity(),
            now=clock(),
            cpu_model=self.directory.cpu_model,
        )
        self.schedules = ScheduleVersions(
            config, self.keyvalues, clock=clock, steady=steady, members=self.directory.members()
        )
        self.events = Events(memory.database, ahead_s=config.limits.ahead_s)

    def counters(self, counts: IngestCounts) -> Counters:
        """Return the counts for supervision, those of ingestion among them."""
        forecaster = self.forecaster
        with self.lock:
            entries = list(self.directory.entries.values())
        return Counters(
            **asdict(counts),
            hosts=len(entries),
            hosts_lost=sum(entry.lost for entry in entries),
            series=len(forecaster.catalogue),
            schedule_version=self.schedules.schedule.version,
            events=self.events.taken,
            store_bytes=self._store_bytes(),
            battery_saves=forecaster.saves,
            battery_save_failures=forecaster.save_failures,
            battery_save_s=forecaster.save_s,
            restored=forecaster.restored,
            restore_s=forecaster.restore_s,
        )

    def _store_bytes(self) -> int:
        """Return the size of the store's files."""
        total = 0
        for suffix in ("", "-wal", ".battery"):
            with suppress(OSError):
                total += self.path.with_name(f"{self.path.name}{suffix}").stat().st_size
        return total
