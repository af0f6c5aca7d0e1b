"""The weather service as one object: name server, memory and forecaster.

Every method may be called from any thread. This module does not listen and does not know HTTP; its caller calls
`tick` about once a second. The clock is an argument. While the store cannot be written, queries continue.
Source: Wolski et al. 2000, §2.4.

The name server: registration, keys and leases of hosts, and their effect on schedule and events.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from nws.base.closing import Closing
from nws.base.errors import StoreError, WeatherError
from nws.base.paths import state_dir
from nws.base.records import copied
from nws.links.cliques import Schedule
from nws.memory import Memory
from nws.memory.database import store_lock
from nws.messages.weatherdocuments import (
    Batch,
    Event,
    Health,
    Peers,
    PutReceipt,
    Registration,
    RegistrationReceipt,
)
from nws.service.housekeeping import Housekeeping
from nws.service.ingestion import Ingestion, IngestResult
from nws.service.parts import Counters, ServiceParts
from nws.service.queries import Queries
from nws.service.samples import checked_span
from nws.service.serviceconfig import ServiceConfig


class NameServer:
    """Registration and leases over the parts of a service; thread-safe."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts

    def register(self, host: str, registration: Registration, key: str | None) -> RegistrationReceipt:
        """Register a host or its new address, and return its key, peers and schedule.

        Raises `NameTaken`, `TooMany`, `Refused`, `StoreError`.

        Args:
            host: its name
            registration: address, port and description
            key: the host's key, or one it brings at its first registration; None to receive a new one
        """
        parts = self._parts
        with parts.lock:
            given, event = parts.status.write(lambda: parts.directory.register(host, registration, key))
            parts.events.enqueue([] if event is None else [event])
            self._update_schedule()
            return RegistrationReceipt(
                now=parts.clock(),
                key=given,
                every=parts.config.every.as_json(),
                schedule=parts.schedules.schedule.seen_by(host),
                peers=parts.schedules.peers_of(host),
                grid=parts.config.grid,
            )

    def check_key(self, host: str, key: str | None) -> None:
        """Raise `KeyRefused` for a wrong key, `UnknownHost` for a host that has none."""
        with self._parts.lock:
            self._parts.directory.check_key(host, key)

    def forget(self, name: str) -> None:
        """Free a name and hide its series until new measurements of the host arrive."""
        parts = self._parts
        with parts.lock:
            parts.status.write(lambda: parts.directory.forget(name))
            parts.events.enqueue([Event(t=parts.clock(), kind="host forgotten", host=name)])
            self._update_schedule()

    def renew_leases(self, batches: Sequence[tuple[Batch, str | None]]) -> dict[int, WeatherError]:
        """Renew the leases of the hosts that sent batches; return an error per batch of an unknown host."""
        unknown: dict[int, WeatherError] = {}
        with self._parts.lock:
            for i, (batch, host) in enumerate(batches):
                if host is None:
                    continue
                try:
                    # the host is alive, even if its batch cannot be stored
                    event = self._parts.directory.renew_lease(host, batch.status)
                    self._parts.events.enqueue([] if event is None else [event])
                except WeatherError as error:
                    unknown[i] = error
        return unknown

    def recall(self, results: Iterable[IngestResult | WeatherError]) -> None:
        """Show forgotten hosts again that have new measurements."""
        parts = self._parts
        if not parts.directory.forgotten:
            return
        owners = {
            owner for one in results if isinstance(one, IngestResult) and one.accepted for owner in one.owners
        }
        try:
            with parts.lock:
                parts.directory.recall(owners)
        except StoreError as error:
            parts.status.record_failure(error)

    def _update_schedule(self) -> None:
        """Start a new version of the schedule; if the store cannot be written, a later tick does it."""
        try:
            self._parts.schedules.changed(self._parts.directory.members())
        except StoreError as error:
            # the host is registered and must learn its key
            self._parts.status.record_failure(error)


class WeatherService(Closing):
    """A weather service; a context manager.

    The operations of `NameServer` (register, check_key) and `Queries` (hosts, host, series, samples, plot,
    forecasts, snapshot) are attributes of the service.
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
        """Open the store; raises `StoreError` if it cannot be opened or another service uses it.

        Args:
            config: the user's settings
            store: file of the memory; by default that of `config`, else `service.db` in the state directory
            clock: seconds since the epoch
            monotonic: seconds that never step, for leases; by default the system's, or `clock` if that is an argument
            in_memory: store nothing on disk
        """
        self.config = config
        self.path = store or config.store or (Path(":memory:") if in_memory else state_dir() / "service.db")
        with ExitStack() as opened:
            if not in_memory:
                opened.enter_context(store_lock(self.path))
            memory = Memory(self.path, keep=config.keep, clock=clock, in_memory=in_memory)
            opened.callback(memory.close)
            steady = monotonic or (time.monotonic if clock is time.time else clock)
            parts = self._parts = ServiceParts(
                config, memory, self.path, clock=clock, steady=steady, in_memory=in_memory
            )
            # opened without an error: `close` closes it
            self._opened = opened.pop_all()
        self._ingestion = Ingestion(config, memory, parts.forecaster, clock)
        self._housekeeping = Housekeeping(parts)
        self._names = NameServer(parts)
        self.register, self.check_key = self._names.register, self._names.check_key
        queries = Queries(parts)
        self.hosts, self.host, self.series = queries.hosts, queries.host, queries.series
        self.samples, self.plot = queries.samples, queries.plot
        self.forecasts, self.snapshot = queries.forecasts, queries.snapshot

    def forget(self, name: str) -> None:
        """Free a name and hide its series until new measurements arrive; raises `UnknownHost`."""
        with self._parts.lock:
            self.host(name)
            self._names.forget(name)

    def schedule(self) -> Schedule:
        """Return the measuring schedule, the hosts that probe each other at each time."""
        return self._parts.schedules.schedule

    def peers(self) -> Peers:
        """Return address and port of every host in the schedule that answers probes."""
        return self._parts.schedules.peers

    def put(self, batch: Batch, *, as_host: str | None) -> PutReceipt:
        """Store a batch and return its receipt.

        Raises `Refused`, `ForeignSeries`, `TooManySeries` or `UnknownHost`, with nothing stored, and `StoreError`.

        Args:
            batch: the measurements
            as_host: the host to which the series are restricted; None: every series is legal
        """
        (result,) = self.put_many([(batch, as_host)])
        if isinstance(result, WeatherError):
            raise result
        return result

    def put_many(self, batches: Sequence[tuple[Batch, str | None]]) -> list[PutReceipt | WeatherError]:
        """Return the receipt or error of each batch, as `put`; all are stored in one transaction."""
        parts = self._parts
        unknown = self._names.renew_leases(batches)
        legal = [i for i in range(len(batches)) if i not in unknown]
        ingested = dict(zip(legal, self._ingestion.put_many([batches[i] for i in legal]), strict=True))
        for one in ingested.values():
            if isinstance(one, StoreError):
                parts.status.record_failure(one)
        self._names.recall(ingested.values())
        now, version = parts.clock(), self.schedule().version
        results = [unknown[i] if i in unknown else ingested[i] for i in range(len(batches))]
        return [
            one if isinstance(one, WeatherError) else copied(PutReceipt, one, now=now, schedule=version)
            for one in results
        ]

    def note_faults(self, source: str, faults: Mapping[str, str]) -> None:
        """Replace the reasons why another monitor has no measurements. faults : by host"""
        with self._parts.lock:
            self._parts.directory.faults[source] = faults

    def event(self, event: Event) -> None:
        """Store an event; raises `Refused`, `StoreError`."""
        self._parts.status.write(lambda: self._parts.events.add(event, self.now()))

    def events(self, since: float, until: float, most: int = 1000) -> list[Event]:
        """Return the newest `most` events between two times, oldest first."""
        checked_span(since, until)
        return self._parts.events.between(since, until, most)

    def tick(self) -> None:
        """Run the housekeeping that is due; call it about once a second. Raises nothing."""
        self._housekeeping.tick()

    def health(self) -> Health:
        """Return whether the service can write its store."""
        return self._parts.status.health()

    def counters(self) -> Counters:
        """Return the counts for supervision."""
        return self._parts.counters(self._ingestion.counts)

    def now(self) -> float:
        """Return the service's time, seconds since the epoch."""
        return self._parts.clock()

    def close(self) -> None:
        """Save the forecasters' state and close the store."""
        self._housekeeping.close()
        self._opened.close()
