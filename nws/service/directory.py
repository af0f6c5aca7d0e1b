"""The name server: hosts, where they can be probed, whose key opens a name, and who has not been heard of.

A host gets a key when it registers first, or brings one, and shows it from then on; only its hash is kept. Being heard
of is a lease that runs out: in steady time while the service lives, so that a clock that steps loses nobody; after a
restart every lease begins anew, because nobody could be heard while the service was away. Who writes what into whose
series is decided in `nws.service.ingestion`. Not safe from several threads by itself.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from nws.base.durations import format_seconds
from nws.base.errors import KeyRefused, NameTaken, Refused, TooMany, UnknownHost
from nws.memory.database import Database
from nws.series import HOST_NAME_LEGAL, is_host_name
from nws.service.config import ServiceConfig
from nws.service.records import Event, Registration

_LOG = logging.getLogger(__name__)

Clock = Callable[[], float]

#: A host that was silent for so many leases is no member of the schedule until it comes back.
LEASES_OF_MEMBERS = 20

#: A host may bring a key of its own when it registers first; one shorter than this is replaced by ours.
_SHORTEST_KEY = 22


@dataclass(slots=True, kw_only=True)
class HostEntry:
    """One host.

    registered_at, last_seen : seconds since the epoch; `last_seen` is only kept for the time after a restart
    heard : when it was last heard of in this life, steady seconds.  since : when its lease began, steady seconds
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
    """Hosts by name, kept in the store's table `host`.

    clock : seconds since the epoch.  steady : seconds that never step
    forgotten : names whose series are hidden until somebody measures them again
    """

    def __init__(self, config: ServiceConfig, database: Database, clock: Clock, steady: Clock) -> None:
        self._config, self._database = config, database
        self._clock, self._steady = clock, steady
        self.entries: dict[str, HostEntry] = {}
        self.forgotten: set[str] = set()
        self._load()

    def register(
        self, name: str, registration: Registration, key: str | None
    ) -> tuple[str | None, Event | None]:
        """Take a host in: its key, when it is new, and what there is to tell. A new host may bring its key.

        Raises `Refused` for a name that is none, `NameTaken` without the right key, `TooMany`, `StoreError`.
        """
        if not is_host_name(name):
            raise Refused(f"{name!r} is not a host name; legal are {HOST_NAME_LEGAL}")
        entry = self.entries.get(name)
        if entry is not None:
            self._must_hold(name, entry, key)
            if registration != entry.registration:
                self._keep(name, self._document(entry, registration))
                entry.registration = registration
            return None, self.renew_lease(name, None)
        if len(self.entries) >= self._config.limits.hosts:
            raise TooMany(
                f"{name} cannot register: this service takes {self._config.limits.hosts} hosts and has them; "
                "forget one, or raise limits.hosts"
            )
        now = self._clock()
        # a key that the host brings is taken: then it does not matter when the answer to its registration gets lost
        key = key if key is not None and len(key) >= _SHORTEST_KEY else secrets.token_urlsafe(24)
        entry = HostEntry(
            registration=registration,
            key_hash=_hash(key),
            registered_at=now,
            last_seen=now,
            since=self._steady(),
            renewed_at=self._steady(),
        )
        self._keep(name, self._document(entry, registration))
        self.entries[name] = entry
        self.forgotten.discard(name)
        return key, Event(t=now, kind="host registered", host=name)

    def check_key(self, name: str, key: str | None) -> None:
        """Raise `KeyRefused` for a wrong key, `UnknownHost` for a host that is not registered."""
        entry = self.entry(name)
        if key is None or not self._opens(entry, key):
            got = "no key" if key is None else "another key"
            raise KeyRefused(
                f"{name}: {got} came instead of the one this host was given when it registered; the sensor keeps it "
                "in its state directory. If that is lost, let an administrator forget the host"
            )

    def entry(self, name: str) -> HostEntry:
        """What is known of a host; raises `UnknownHost`."""
        entry = self.entries.get(name)
        if entry is None:
            raise UnknownHost(f"no host {name!r} is registered here; a sensor registers before it delivers")
        return entry

    def renew_lease(self, name: str, status: Mapping[str, float] | None) -> Event | None:
        """The host is there; an event when it was lost. `status`: what its sensor counted, None for no news."""
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
        """Hosts that take part in measuring: all but those that have been silent for long."""
        steady, longest_s = self._steady(), LEASES_OF_MEMBERS * self._config.lost_after_s
        return {n: e.registration for n, e in self.entries.items() if steady - e.since <= longest_s}

    def expire(self) -> list[Event]:
        """Hosts whose lease has run out since the last call."""
        now, steady, found = self._clock(), self._steady(), []
        for name, entry in self.entries.items():
            silent_s = steady - entry.since
            if not entry.lost and silent_s > self._config.lost_after_s:
                entry.lost = entry.changed = True
                entry.last_seen = self.last_seen(entry)
                text = f"not heard of for {format_seconds(silent_s)}"
                found.append(Event(t=now, kind="host lost", host=name, text=text))
        return found

    def last_seen(self, entry: HostEntry) -> float:
        """When a host was last heard of, seconds since the epoch as the clock counts them now."""
        if entry.renewed_at is None:
            return min(entry.last_seen, self._clock())
        return self._clock() - max(self._steady() - entry.renewed_at, 0.0)

    def forget(self, name: str) -> None:
        """Free a name and hide its series; raises `StoreError`."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO host (name, document) VALUES (?, ?)",
                (name, json.dumps({"forgotten": True})),
            )
        self.entries.pop(name, None)
        self.forgotten.add(name)

    def recall(self, names: Iterable[str]) -> None:
        """Somebody measures these hosts again; those that were forgotten are not any more. Raises `StoreError`."""
        back = [name for name in names if name in self.forgotten]
        if back:
            with self._database.writing() as connection:
                connection.executemany("DELETE FROM host WHERE name = ?", [(name,) for name in back])
            self.forgotten.difference_update(back)

    def save(self) -> None:
        """Keep when hosts were last seen, for the time after a restart; raises `StoreError`."""
        rows = {name: entry for name, entry in self.entries.items() if entry.changed}
        if not rows:
            return
        with self._database.writing() as connection:
            connection.executemany(
                "UPDATE host SET document = ? WHERE name = ?",
                [(json.dumps(self._document(e, e.registration)), name) for name, e in rows.items()],
            )
        for entry in rows.values():
            entry.changed = False

    @staticmethod
    def _opens(entry: HostEntry, key: str) -> bool:
        return hmac.compare_digest(_hash(key), entry.key_hash)

    def _must_hold(self, name: str, entry: HostEntry, key: str | None) -> None:
        if key is None or not self._opens(entry, key):
            silent = format_seconds(max(self._clock() - self.last_seen(entry), 0.0))
            raise NameTaken(
                f"the name {name} belongs to the host at {entry.registration.address}, heard of {silent} ago, and this "
                "registration does not show its key; give this host another name (--host), or let an administrator "
                f"forget the other one (DELETE /v1/hosts/{name})"
            )

    def _keep(self, name: str, document: Mapping[str, Any]) -> None:
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO host (name, document) VALUES (?, ?)", (name, json.dumps(document))
            )

    def _document(self, entry: HostEntry, registration: Registration) -> dict[str, Any]:
        return {
            "registration": asdict(registration),
            "key_hash": entry.key_hash,
            "registered_at": entry.registered_at,
            "last_seen": self.last_seen(entry),
            "lost": entry.lost,
        }

    def _load(self) -> None:
        with self._database.reading() as connection:
            rows = connection.execute("SELECT name, document FROM host ORDER BY name").fetchall()
        for name, text in rows:
            try:
                document = json.loads(text)
                if document.get("forgotten"):
                    self.forgotten.add(name)
                    continue
                self.entries[name] = HostEntry(
                    registration=Registration(**document["registration"]),
                    key_hash=str(document["key_hash"]),
                    registered_at=float(document["registered_at"]),
                    last_seen=float(document["last_seen"]),
                    since=self._steady(),
                    lost=bool(document["lost"]),
                )
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                # a host that registers again is as good as new; a service that does not start is not
                _LOG.warning("host %s: its entry makes no sense (%s); it has to register again", name, error)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
