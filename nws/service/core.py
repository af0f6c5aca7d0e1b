"""The weather service as one object: name server, memory and forecaster.

Every method may be called from any thread. Nothing here listens or speaks HTTP; whoever does calls `tick` about once
a second. The clock is passed in. While the store cannot be written everything that only reads goes on.
Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeVar

from nws.base.errors import StoreError, WeatherError
from nws.base.paths import state_dir
from nws.links.cliques import Schedule
from nws.memory import Memory
from nws.series import Forecast, Series
from nws.service.config import ServiceConfig
from nws.service.directory import Directory
from nws.service.events import Events
from nws.service.forecaster import Forecaster
from nws.service.housekeeping import Housekeeping, StoreStatus
from nws.service.ingestion import Ingestion, IngestResult
from nws.service.keyvalues import KeyValueTable
from nws.service.lock import store_lock
from nws.service.queries import Queries
from nws.service.records import (
    Batch,
    Counters,
    Event,
    Health,
    HostState,
    Peers,
    PlotDocument,
    PutReceipt,
    Registered,
    Registration,
    SampleDocument,
    SeriesState,
)
from nws.service.samples import checked_span
from nws.service.scheduling import ScheduleVersions
from nws.service.snapshot import SnapshotDocument

T = TypeVar("T")


class WeatherService:
    """A weather service; a context manager. Raises `StoreError` when its store cannot be opened, or another
    service runs on it.

    config : what its user sets.  store : file of the memory; by default the one of `config`, else `service.db` in
    the state directory.  clock : seconds since the epoch.  monotonic : seconds that never step, for leases; by
    default the system's, or `clock` where that is not the system's.  in_memory : keep nothing on disk
    """

    def __init__(
        self,
        config: ServiceConfig,
        *,
        store: Path | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] | None = None,
        in_memory: bool = False,
    ) -> None:
        self.config = config
        self._clock = clock
        self._steady = monotonic or (time.monotonic if clock is time.time else clock)
        self.path = store or config.store or (Path(":memory:") if in_memory else state_dir() / "service.db")
        with ExitStack() as opened:
            if not in_memory:
                opened.enter_context(store_lock(self.path))
            self._memory = Memory(self.path, keep=config.keep, clock=clock, in_memory=in_memory)
            opened.callback(self._memory.close)
            self._open(in_memory)
            # all is well: it stays open until `close`
            self._opened = opened.pop_all()

    def _open(self, in_memory: bool) -> None:
        config, database = self.config, self._memory.database
        # directory and timetable; taken before the forecaster's, never while holding that
        self._lock = threading.RLock()
        self._status = StoreStatus()
        keyvalues = KeyValueTable(database)
        self._file = None if in_memory else self.path.with_name(self.path.name + ".battery")
        self._forecaster = Forecaster(
            self._memory, file=self._file, identity=keyvalues.identity(), now=self._clock()
        )
        self._directory = Directory(config, database, self._clock, self._steady)
        self._schedules = ScheduleVersions(
            config, keyvalues, clock=self._clock, steady=self._steady, members=self._members()
        )
        self._ingestion = Ingestion(config, self._memory, self._forecaster, self._clock)
        self._queries = Queries(
            config,
            (self._memory, self._directory, self._schedules, self._forecaster),
            lock=self._lock,
            clock=self._clock,
        )
        self._events = Events(database, ahead_s=config.limits.ahead_s)
        self._housekeeping = Housekeeping(
            config,
            (self._memory, self._directory, self._schedules, self._forecaster, self._events, keyvalues),
            lock=self._lock,
            status=self._status,
            clock=self._clock,
            steady=self._steady,
        )

    # name server

    def register(self, host: str, registration: Registration, key: str | None) -> Registered:
        """Take a host in, or take its new address. Raises `NameTaken`, `TooMany`, `Refused`, `StoreError`.

        key : what the host was given at its first registration, or brings to it; None to be given one
        """
        with self._lock:
            given, event = self._written(lambda: self._directory.register(host, registration, key))
            self._events.enqueue([] if event is None else [event])
            try:
                self._schedules.changed(self._members())
            except StoreError as error:
                # the host is registered and must learn its key; the schedule follows at a later tick
                self._status.record_failure(error)
            return Registered(
                now=self._clock(),
                key=given,
                every=self.config.every,
                schedule=self._schedules.schedule.seen_by(host),
                peers=self._schedules.peers_of(host),
                grid=self.config.grid,
            )

    def check_key(self, host: str, key: str | None) -> None:
        """Raise `KeyRefused` when the key is not the host's, `UnknownHost` when it has none."""
        with self._lock:
            self._directory.check_key(host, key)

    def hosts(self) -> list[HostState]:
        """Every host, by name: registered ones, and those whose series come from elsewhere."""
        return self._queries.hosts()

    def host(self, name: str) -> HostState:
        """One host; raises `UnknownHost`."""
        return self._queries.host(name)

    def forget(self, name: str) -> None:
        """Free a name and hide its series until somebody measures them again; raises `UnknownHost`."""
        with self._lock:
            self.host(name)
            self._written(lambda: self._directory.forget(name))
            self._events.enqueue([Event(t=self._clock(), kind="host forgotten", host=name)])
            try:
                self._schedules.changed(self._members())
            except StoreError as error:
                self._status.record_failure(error)

    def schedule(self) -> Schedule:
        """Who probes whom, and when."""
        return self._schedules.schedule

    def peers(self) -> Peers:
        """Address and port of every host in the schedule that answers probes."""
        return self._schedules.peers

    # memory

    def put(self, batch: Batch, *, as_host: str | None) -> PutReceipt:
        """Keep a batch. as_host : the host whose series alone are legal; None: anything.

        Raises `Refused`, `ForeignSeries`, `TooManySeries`, `UnknownHost`, with nothing kept; `StoreError`
        """
        (result,) = self.put_many([(batch, as_host)])
        if isinstance(result, WeatherError):
            raise result
        return result

    def put_many(self, batches: Sequence[tuple[Batch, str | None]]) -> list[PutReceipt | WeatherError]:
        """As `put` for each, in one transaction; one batch's error is no other's."""
        unknown: dict[int, WeatherError] = {}
        with self._lock:
            for i, (batch, host) in enumerate(batches):
                if host is None:
                    continue
                try:
                    # somebody who cannot be stored is there all the same
                    event = self._directory.renew_lease(host, batch.status)
                    self._events.enqueue([] if event is None else [event])
                except WeatherError as error:
                    unknown[i] = error
        legal = [i for i in range(len(batches)) if i not in unknown]
        taken = dict(zip(legal, self._ingestion.put_many([batches[i] for i in legal]), strict=True))
        for one in taken.values():
            if isinstance(one, StoreError):
                self._status.record_failure(one)
        self._recall(taken.values())
        now, version = self._clock(), self._schedules.schedule.version
        results: list[PutReceipt | WeatherError] = []
        for i in range(len(batches)):
            result = unknown[i] if i in unknown else taken[i]
            results.append(
                result if isinstance(result, WeatherError) else self._receipt(result, now, version)
            )
        return results

    def series(self, *, host: str | None = None, resource: str | None = None) -> list[SeriesState]:
        """Series of a host (either end of a pair), of a resource, by name; raises `Refused` for no resource."""
        return self._queries.series(host=host, resource=resource)

    def samples(
        self, name: str, *, since: float, until: float, resolution: str = "auto", most: int = 10_000
    ) -> SampleDocument:
        """Samples of one series. resolution : auto, raw, 60 or 600. Raises `UnknownSeries`, `Refused`."""
        return self._queries.samples(name, since=since, until=until, resolution=resolution, most=most)

    def plot(self, name: str, *, since: float, until: float, points: int = 600) -> PlotDocument:
        """One series ready to be drawn. Raises `UnknownSeries`, `Refused`."""
        return self._queries.plot(name, since=since, until=until, points=points)

    # forecaster

    def forecasts(self, names: Sequence[str] | None = None) -> dict[Series, Forecast]:
        """Forecasts of some series, or of all, by name; raises `UnknownSeries`."""
        return self._queries.forecasts(names)

    def snapshot(self, *, hosts: Sequence[str] | None = None, composed: bool = False) -> SnapshotDocument:
        """All hosts and series, or some hosts and what is between them; unknown names are left out.

        composed : with the pairs that nobody measures. Raises `TooMany` when those are too many.
        """
        return self._queries.snapshot(hosts=hosts, composed=composed)

    # events, care

    def event(self, event: Event) -> None:
        """Keep an event; raises `Refused`, `StoreError`."""
        self._written(lambda: self._events.add(event, self._clock()))

    def events(self, since: float, until: float, most: int = 1000) -> list[Event]:
        """The newest `most` events of a time, oldest first."""
        checked_span(since, until)
        return self._events.between(since, until, most)

    def tick(self) -> None:
        """Everything that has to happen now and then; to be called about once a second. Raises nothing."""
        self._housekeeping.tick()

    def health(self) -> Health:
        """Whether the service can do its work."""
        return self._status.health()

    def counters(self) -> Counters:
        """Counts for supervision."""
        counts, forecaster = self._ingestion.counts, self._forecaster
        with self._lock:
            entries = list(self._directory.entries.values())
        return Counters(
            batches=counts.batches,
            batches_failed=counts.failed,
            samples_accepted=counts.accepted,
            samples_refused=counts.refused,
            samples_repeated=counts.repeated,
            hosts=len(entries),
            hosts_lost=sum(entry.lost for entry in entries),
            series=len(forecaster.catalogue),
            schedule_version=self._schedules.schedule.version,
            events=self._events.taken,
            store_bytes=self._bytes(),
            battery_saves=forecaster.saves,
            battery_save_failures=forecaster.save_failures,
            battery_save_s=forecaster.save_s,
            restored=forecaster.restored,
            restore_s=forecaster.restore_s,
        )

    def now(self) -> float:
        """Seconds since the epoch, as the service counts them."""
        return self._clock()

    def close(self) -> None:
        """Save the forecasters' state and let go of the store."""
        self._housekeeping.close()
        self._opened.close()

    def __enter__(self) -> WeatherService:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _members(self) -> dict[str, Registration]:
        return self._directory.members()

    def _receipt(self, taken: IngestResult, now: float, version: int) -> PutReceipt:
        return PutReceipt(
            now=now, accepted=taken.accepted, next=taken.next, schedule=version, refused=taken.refused
        )

    def _recall(self, results: Iterable[IngestResult | WeatherError]) -> None:
        """Hosts that were forgotten and are measured again are not forgotten any more."""
        forgotten = self._directory.forgotten
        if not forgotten:
            return
        owners = {
            owner
            for one in results
            if not isinstance(one, WeatherError) and one.accepted
            for owner in one.owners
        }
        try:
            with self._lock:
                self._directory.recall(owners)
        except StoreError as error:
            self._status.record_failure(error)

    def _written(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except StoreError as error:
            self._status.record_failure(error)
            raise

    def _bytes(self) -> int:
        """Size of the store's files."""
        names = (self.path.name, f"{self.path.name}-wal", f"{self.path.name}.battery")
        total = 0
        for name in names:
            with suppress(OSError):
                total += self.path.with_name(name).stat().st_size
        return total
