"""What a service does of its own accord: hosts that went silent, hours to close, state to save, old things to forget.

`Housekeeping.tick` is called about once a second and does a bounded share each time. It never raises: what the store
refuses is tried again, and until it succeeds the service is degraded, which `StoreStatus` tells.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from nws.base.errors import StoreError
from nws.memory import Memory
from nws.memory.database import Database
from nws.service.config import ServiceConfig
from nws.service.directory import Directory
from nws.service.events import Events
from nws.service.forecaster import Forecaster
from nws.service.keyvalues import KeyValueTable
from nws.service.records import Health
from nws.service.scheduling import ScheduleVersions

_LOG = logging.getLogger(__name__)

#: Seconds of one tick for closing hours, between when hosts were last seen is kept, between sweeps of what is old.
_TEND_S = 0.05
_KEEP_SEEN_EVERY_S = 60.0
_SWEEP_EVERY_S = 3600.0
_PROBE = "probe"
_PROBE_BYTES = 1 << 16


class StoreStatus:
    """Whether the store could be written when that was last tried."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None

    @property
    def degraded(self) -> bool:
        """Whether writing failed last."""
        return self._reason is not None

    def record_failure(self, error: StoreError) -> None:
        """Writing failed."""
        with self._lock:
            if self._reason is None:
                _LOG.error("degraded, reading goes on: %s", error)
            self._reason = str(error)

    def record_success(self) -> None:
        """Writing succeeded."""
        with self._lock:
            if self._reason is not None:
                _LOG.warning("the store can be written again")
            self._reason = None

    def health(self) -> Health:
        """For those who supervise."""
        reason = self._reason
        if reason is None:
            return Health(status="ok", store="writable")
        return Health(status="degraded", store="not writable", reason=reason)


@dataclass(slots=True, kw_only=True)
class _Due:
    """Steady seconds of the next time."""

    seen: float
    sweep: float


class Housekeeping:
    """The parts of a service that need care. lock : of directory and schedules.  steady : seconds that never step"""

    def __init__(
        self,
        config: ServiceConfig,
        parts: tuple[Memory, Directory, ScheduleVersions, Forecaster, Events, KeyValueTable],
        *,
        lock: threading.RLock,
        status: StoreStatus,
        clock: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._config, self._lock, self._status = config, lock, status
        self._memory, self._directory, self._schedules, self._forecaster, self._events, self._keyvalues = (
            parts
        )
        self._clock, self._steady = clock, steady
        self._turn = threading.Lock()
        self._due = _Due(seen=steady() + _KEEP_SEEN_EVERY_S, sweep=steady())

    def tick(self) -> None:
        """Do what is due; two at once are one."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            with self._lock:
                self._events.enqueue(self._directory.expire())
            steps: tuple[Callable[[], None], ...] = (
                self._probe,
                self._schedule,
                self._events.flush,
                self._follow,
                self._tend,
                self._keep_seen,
                self._sweep,
            )
            for step in steps:
                try:
                    step()
                except StoreError as error:
                    self._status.record_failure(error)
            self._forecaster.save_when_due(self._steady())
        finally:
            self._turn.release()

    def close(self) -> None:
        """Keep what can be kept; raises nothing."""
        with suppress(StoreError):
            self._events.flush()
        with suppress(StoreError), self._lock:
            self._directory.save()
        with suppress(StoreError):
            self._forecaster.follow(self._clock())
        try:
            self._forecaster.save()
        except StoreError as error:
            _LOG.warning("%s", error)

    def _probe(self) -> None:
        """While writing fails, try it: nobody else may."""
        if self._status.degraded:
            # as large as what sensors deliver, or the service would be well until the next of them
            self._keyvalues.put(_PROBE, "." * _PROBE_BYTES)
            self._status.record_success()

    def _schedule(self) -> None:
        with self._lock:
            self._schedules.update_when_due(self._directory.members())

    def _follow(self) -> None:
        self._forecaster.follow(self._clock())

    def _tend(self) -> None:
        self._memory.tend(budget_s=_TEND_S)

    def _keep_seen(self) -> None:
        if self._steady() >= self._due.seen:
            self._due.seen = self._steady() + _KEEP_SEEN_EVERY_S
            with self._lock:
                self._directory.save()

    def _sweep(self) -> None:
        if self._steady() >= self._due.sweep:
            self._due.sweep = self._steady() + _SWEEP_EVERY_S
            self._events.forget(self._clock() - self._config.keep.ten_minutes_s)
            with self._lock:
                hosts = frozenset(self._directory.entries)
            forget_streams(self._memory.database, hosts, self._config.limits.streams_per_host)


def forget_streams(database: Database, hosts: Collection[str], most: int) -> None:
    """Keep the `most` streams of each of these hosts that were heard last; raises `StoreError`.

    The host of a stream is what stands before the first slash of its name. Streams of nobody, such as an
    administrator's inserted files, stay until the memory finds them too old: a file inserted again is known.
    """
    with database.writing() as connection:
        rows = connection.execute("SELECT name FROM source ORDER BY heard DESC").fetchall()
        count: dict[str, int] = {}
        old = []
        for (name,) in rows:
            host = name.partition("/")[0]
            if host not in hosts:
                continue
            count[host] = count.get(host, 0) + 1
            if count[host] > most:
                old.append((name,))
        connection.executemany("DELETE FROM source WHERE name = ?", old)
