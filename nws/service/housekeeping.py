"""Periodic work of a service: expired leases, compaction, saved state, old data.

`Housekeeping.tick` runs about once a second and does a bounded share of the work. It never raises: a failed write
is tried again at the next tick, and until it succeeds `StoreStatus` is degraded.
"""

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import suppress

from nws.base.errors import StoreError
from nws.memory.database import Database
from nws.service.parts import ServiceParts

_LOG = logging.getLogger(__name__)

#: Seconds per tick for compaction, between writes of the last contacts, and between deletions of old data.
_TEND_S = 0.05
_KEEP_SEEN_EVERY_S = 60.0
_SWEEP_EVERY_S = 3600.0
_PROBE = "probe"
_PROBE_BYTES = 1 << 16


class Housekeeping:
    """The periodic work over the parts of a service; thread-safe."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts
        self._running = threading.Lock()
        # steady seconds of the next write and the next deletion
        self._sweep_due = parts.steady()
        self._seen_due = self._sweep_due + _KEEP_SEEN_EVERY_S

    def tick(self) -> None:
        """Do the work that is due; return at once if another thread is doing it."""
        if not self._running.acquire(blocking=False):
            return
        try:
            with self._parts.lock:
                self._parts.events.enqueue(self._parts.directory.expire())
            steps: tuple[Callable[[], object], ...] = (
                self._probe,
                self._schedule,
                self._parts.events.flush,
                lambda: self._parts.forecaster.follow(self._parts.clock()),
                lambda: self._parts.memory.tend(budget_s=_TEND_S),
                self._keep_seen,
                self._sweep,
            )
            for step in steps:
                try:
                    step()
                except StoreError as error:
                    self._parts.status.record_failure(error)
            self._parts.forecaster.save_when_due(self._parts.steady())
        finally:
            self._running.release()

    def close(self) -> None:
        """Save as much as possible; raises nothing."""
        with suppress(StoreError):
            self._parts.events.flush()
        with suppress(StoreError), self._parts.lock:
            self._parts.directory.save()
        with suppress(StoreError):
            self._parts.forecaster.follow(self._parts.clock())
        try:
            self._parts.forecaster.save()
        except StoreError as error:
            _LOG.warning("%s", error)

    def _probe(self) -> None:
        """Probe whether the store is writable again; until it is, all other writes are rejected."""
        if self._parts.status.degraded:
            # as large as a delivery of a sensor; a smaller write may succeed on a disk that is still full
            self._parts.keyvalues.put(_PROBE, "." * _PROBE_BYTES)
            self._parts.status.record_success()

    def _schedule(self) -> None:
        with self._parts.lock:
            self._parts.schedules.update_when_due(self._parts.directory.members())

    def _keep_seen(self) -> None:
        if self._parts.steady() >= self._seen_due:
            self._seen_due = self._parts.steady() + _KEEP_SEEN_EVERY_S
            with self._parts.lock:
                self._parts.directory.save()

    def _sweep(self) -> None:
        if self._parts.steady() >= self._sweep_due:
            self._sweep_due = self._parts.steady() + _SWEEP_EVERY_S
            self._parts.events.forget(self._parts.clock() - self._parts.config.keep.ten_minutes_s)
            with self._parts.lock:
                hosts = frozenset(self._parts.directory.entries)
            forget_streams(self._parts.memory.database, hosts, self._parts.config.limits.streams_per_host)


def forget_streams(database: Database, hosts: Collection[str], most: int) -> None:
    """Keep the `most` recently used streams of each of these hosts; raises `StoreError`.

    The host of a stream is the part of its name before the first slash. Other streams, such as those of inserted
    files, remain until the memory deletes them by age, so that a file inserted again is recognised.
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
