"""The name server: registration, keys and leases of hosts, and their effect on schedule and events."""

from collections.abc import Iterable, Sequence

from nws.base.errors import StoreError, WeatherError
from nws.messages.records import Batch, Event, Registered, Registration
from nws.service.ingestion import IngestResult
from nws.service.parts import ServiceParts


class NameServer:
    """Registration and leases over the parts of a service; thread-safe."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts

    def register(self, host: str, registration: Registration, key: str | None) -> Registered:
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
            return Registered(
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
