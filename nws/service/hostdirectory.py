"""The table of hosts: addresses, keys that protect names, and leases that detect lost hosts.

A host receives a key at its first registration, or brings one, and sends it from then on; only a hash is stored.
Contact renews a lease. Leases run in steady time while the service runs, so that a clock step loses no host. After
a restart every lease starts anew, because the service could not receive anything meanwhile. `nws.service.ingestion`
decides which host may write which series. Not thread-safe.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from nws.base.durations import format_seconds
from nws.base.errors import KeyRefused, NameTaken, Refused, TooMany, UnknownHost
from nws.base.records import copied
from nws.base.sealed import crc
from nws.memory.database import Database
from nws.memory.integrity import is_complete, put_rows
from nws.messages.weatherdocuments import Event, Partial, Registration
from nws.series import HOST_NAME_LEGAL, is_host_name
from nws.service.serviceconfig import ServiceConfig

Clock = Callable[[], float]

#: A host that is silent for this many leases leaves the schedule until its next contact.
LEASES_OF_MEMBERS = 20

#: A host may bring its own key to its first registration; a shorter one is replaced by a generated key.
_SHORTEST_KEY = 22


class _StoredHost(Partial, frozen=True, kw_only=True):
    """A host as the store has it. registration : None for a forgotten one"""

    registration: Registration | None = None
    key_hash: str = ""
    registered_at: float = 0.0
    last_seen: float = 0.0
    lost: bool = False
    forgotten: bool = False


@dataclass(slots=True, kw_only=True)
class HostRegistration:
    """One host.

    registered_at, last_seen: seconds since the epoch; `last_seen` is stored for the time after a restart
    renewed_at: steady seconds of the last contact since the service started.  since: steady seconds of the lease's
    start
    """

    registration: Registration
    key_hash: str
    registered_at: float
    last_seen: float
    since: float
    renewed_at: float | None = None
    lost: bool = False
    status: Mapping[str, float] = field(default_factory=dict)
    changed: bool = False


class Directory:
    """Hosts by name, stored in the table `host`.

    clock: seconds since the epoch.  steady: seconds that never step
    forgotten: hosts with hidden series, until they have new measurements
    faults: by the name of another monitor, why it has no measurements of hosts
    """

    def __init__(self, config: ServiceConfig, database: Database, clock: Clock, steady: Clock) -> None:
        self._config, self._database = config, database
        self._clock, self._steady = clock, steady
        self.entries: dict[str, HostRegistration] = {}
        self.forgotten: set[str] = set()
        self.faults: dict[str, Mapping[str, str]] = {}
        self._load()

    def register(
        self, name: str, registration: Registration, key: str | None
    ) -> tuple[str | None, Event | None]:
        """Register a host; return its key if it is new, and an event to record.

        Raises `Refused` for an invalid name, `NameTaken` without the right key, `TooMany`, `StoreError`.
        """
        if not is_host_name(name):
            raise Refused(f"{name!r} is not a host name; legal are {HOST_NAME_LEGAL}")
        entry = self.entries.get(name)
        if entry is not None:
            self._must_hold(name, entry, key)
            if registration != entry.registration:
                self._keep({name: self._stored(entry, registration)})
                entry.registration = registration
            return None, self.renew_lease(name, None)
        if len(self.entries) >= self._config.limits.hosts:
            raise TooMany(
                f"{name} cannot register: this service takes {self._config.limits.hosts} hosts and has them; "
                "forget one, or raise limits.hosts"
            )
        now = self._clock()
        # with its own key a host can register again if the answer to its first registration was lost
        key = key if key is not None and len(key) >= _SHORTEST_KEY else secrets.token_urlsafe(24)
        entry = HostRegistration(
            registration=registration,
            key_hash=_hash(key),
            registered_at=now,
            last_seen=now,
            since=self._steady(),
            renewed_at=self._steady(),
        )
        self._keep({name: self._stored(entry, registration)})
        self.entries[name] = entry
        self.forgotten.discard(name)
        return key, Event(t=now, kind="host registered", host=name)

    def cpu_model(self, host: str) -> str:
        """Return the CPU model that a host has registered, empty if unknown; any thread may call it."""
        entry = self.entries.get(host)
        return "" if entry is None else entry.registration.cpu_model

    def check_key(self, name: str, key: str | None) -> None:
        """Raise `KeyRefused` for a wrong key, `UnknownHost` for a host that is not registered."""
        entry = self.entry(name)
        if key is None or not self._opens(entry, key):
            got = "no key" if key is None else "another key"
            raise KeyRefused(
                f"{name}: {got} came instead of the one this host was given when it registered; the sensor keeps it "
                "in its state directory. If that is lost, let an administrator forget the host"
            )

    def entry(self, name: str) -> HostRegistration:
        """Return the entry of a host; raises `UnknownHost`."""
        entry = self.entries.get(name)
        if entry is None:
            raise UnknownHost(f"no host {name!r} is registered here; a sensor registers before it delivers")
        return entry

    def renew_lease(self, name: str, status: Mapping[str, float] | None) -> Event | None:
        """Renew the lease of a host; return an event if it was lost.

        Args:
            name: the host
            status: the sensor's counts, None if unchanged
        """
        entry = self.entry(name)
        entry.renewed_at = entry.since = self._steady()
        entry.changed = True
        if status is not None:
            entry.status = status
        if not entry.lost:
            return None
        entry.lost = False
        return Event(t=self._clock(), kind="host returned", host=name)

    def members(self) -> dict[str, Registration]:
        """Return the hosts that take part in measuring: all but those silent for many leases."""
        steady, longest_s = self._steady(), LEASES_OF_MEMBERS * self._config.lost_after_s
        return {n: e.registration for n, e in self.entries.items() if steady - e.since <= longest_s}

    def expire(self) -> list[Event]:
        """Return an event for each lease that ran out since the last call."""
        now, steady, lost = self._clock(), self._steady(), []
        for name, entry in self.entries.items():
            silent_s = steady - entry.since
            if not entry.lost and silent_s > self._config.lost_after_s:
                entry.lost = entry.changed = True
                entry.last_seen = self.last_seen(entry)
                text = f"no contact for {format_seconds(silent_s)}"
                lost.append(Event(t=now, kind="host lost", host=name, text=text))
        return lost

    def last_seen(self, entry: HostRegistration) -> float:
        """Return the time of a host's last contact, seconds since the epoch by the present clock."""
        if entry.renewed_at is None:
            return min(entry.last_seen, self._clock())
        return self._clock() - max(self._steady() - entry.renewed_at, 0.0)

    def forget(self, name: str) -> None:
        """Free a name and hide its series; raises `StoreError`."""
        self._keep({name: _StoredHost(forgotten=True)})
        self.entries.pop(name, None)
        self.forgotten.add(name)

    def recall(self, names: Iterable[str]) -> None:
        """Show these hosts again if they were forgotten; raises `StoreError`."""
        back = [name for name in names if name in self.forgotten]
        if back:
            with self._database.writing() as connection:
                connection.executemany("DELETE FROM host WHERE name = ?", [(name,) for name in back])
            self.forgotten.difference_update(back)

    def save(self) -> None:
        """Store the times of last contact, for use after a restart; raises `StoreError`."""
        rows = {name: entry for name, entry in self.entries.items() if entry.changed}
        if not rows:
            return
        self._keep({name: self._stored(entry, entry.registration) for name, entry in rows.items()})
        for entry in rows.values():
            entry.changed = False

    @staticmethod
    def _opens(entry: HostRegistration, key: str) -> bool:
        return hmac.compare_digest(_hash(key), entry.key_hash)

    def _must_hold(self, name: str, entry: HostRegistration, key: str | None) -> None:
        if key is None or not self._opens(entry, key):
            silent = format_seconds(max(self._clock() - self.last_seen(entry), 0.0))
            raise NameTaken(
                f"the name {name} belongs to the host at {entry.registration.address}, last contact {silent} ago, and "
                "this registration does not show its key; name this host differently (--host), or let an administrator "
                f"forget the other one (DELETE /v1/hosts/{name})"
            )

    def _keep(self, hosts: Mapping[str, _StoredHost]) -> None:
        texts = {name: msgspec.json.encode(host).decode() for name, host in hosts.items()}
        with self._database.writing() as connection:
            put_rows(connection, "host", texts.items())

    def _stored(self, entry: HostRegistration, registration: Registration) -> _StoredHost:
        return copied(_StoredHost, entry, registration=registration, last_seen=self.last_seen(entry))

    def _load(self) -> None:
        with self._database.reading() as connection:
            rows = connection.execute("SELECT id, name, document, crc FROM host ORDER BY name").fetchall()
            if not is_complete(connection, "host", [row[0] for row in rows]):
                self._database.damage.note(
                    f"{self._database.path}: damaged: registrations of hosts are missing; these hosts have to "
                    "register again"
                )
        for _, name, text, check in rows:
            try:
                if crc("host", name, text) != check:
                    raise ValueError("its checksum is wrong")
                stored = msgspec.json.decode(text, type=_StoredHost)
                if stored.forgotten or stored.registration is None:
                    self.forgotten.add(name)
                    continue
                self.entries[name] = copied(HostRegistration, stored, since=self._steady())
            except ValueError as error:
                # skip an invalid entry: the host can register again, while a service that does not start
                # helps no host
                self._database.damage.note(
                    f"{self._database.path}: damaged: registration of host {name}: {error}; it has to register again"
                )


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
