"""The name server: names are held by keys, silence is noticed, and clocks that step lose nobody."""

import numpy as np
import pytest

from nws.base.errors import StoreError, UsageError, WeatherError
from nws.service.serviceconfig import CliqueConfig, Limits
from tests.transcripts import replay, transcripts

from .helpers import START, batch, kill, registered, registration, settings


class Session:
    """Services one after the other on one clock; times are seconds from `START`. KEY is `own`, `none` or a text."""

    def __init__(self, start, clock, store):
        self._start, self._clock, self._store = start, clock, store
        self._service, self._keys, self._cases, self._first = None, {}, 0, None

    def case(self, *title):
        """Begin with an empty store."""
        self._cases, self._keys, self._first = self._cases + 1, {}, None
        self.life()

    def life(self, **limits):
        """Start the service, again after `close` or `kill`."""
        limits = {name: int(value) for name, value in limits.items()}
        store = self._store.with_name(f"service-{self._cases}.db")
        self._service = self._start(settings(limits=Limits(**limits)), store=store)

    def limited(self, **limits):
        self._service.close()
        self.life(**limits)

    def configured(self, **changes):
        """Start the service again. sites=HOST:SITE,…  cliques=NAME:HOST+HOST[:SECONDS],…"""
        self._service.close()
        made = {name: float(value) for name, value in changes.items() if name.endswith("_s")}
        made |= {name: int(value) for name, value in changes.items() if name.endswith("most")}
        if "sites" in changes:
            made["sites"] = dict(pair.split(":") for pair in changes["sites"].split(","))
        if "cliques" in changes:
            cliques = (clique.split(":") for clique in changes["cliques"].split(","))
            made["cliques"] = {
                name: CliqueConfig(
                    members=tuple(members.split("+")), every_s=float(every[0]) if every else None
                )
                for name, members, *every in cliques
            }
        store = self._store.with_name(f"service-{self._cases}.db")
        self._service = self._start(settings(**made), store=store)

    def schedule(self):
        """Tell the schedule in force; its version and its begin are counted from the first one of the case."""
        made = self._service.schedule()
        self._first = self._first or made
        return [
            f"version +{made.version - self._first.version}, from {made.effective_from - self._clock():+.1f} s, "
            f"frames of {made.frame_s:g} s, colours {made.colours}, peers {self._service.peers()}",
            *(f"{c.name}: {', '.join(c.members)}, one of {c.stride} frames" for c in made.cliques),
        ]

    def close(self):
        self._service.close()

    def kill(self):
        kill(self._service)

    def advance(self, seconds):
        self._clock.advance(float(seconds))
        self._service.tick()

    def step(self, seconds):
        self._clock.step(float(seconds))
        self._service.tick()

    def _tried(self, act):
        try:
            return act()
        except (WeatherError, UsageError) as error:
            return [f"{type(error).__name__}: {error}"]

    def _key(self, name, key):
        return {"own": self._keys.get(name), "none": None}.get(key, key)

    def register(self, name, key="none", **changes):
        changes = {field: int(value) if field == "port" else value for field, value in changes.items()}
        name = name.strip("'").encode().decode("unicode_escape") if "'" in name else name

        def act():
            receipt = self._service.register(name, registration(name, **changes), self._key(name, key))
            self._keys[name] = receipt.key or self._keys.get(name) or self._key(name, key)
            given = "none" if receipt.key is None else "its own" if receipt.key == key else "a new one"
            every, peers = receipt.every, receipt.peers
            cliques = [c.members for c in receipt.schedule.cliques]
            return [f"key {given}, every {every}, grid {receipt.grid}, peers {peers}, cliques {cliques}"]

        return self._tried(act)

    def check_key(self, name, key):
        return self._tried(lambda: self._service.check_key(name, self._keys.get(key, self._key(name, key))))

    def put(self, host, *words, source=None, first="0", **status):
        samples = [
            (words[i], self._clock() + float(words[i + 1]), float(words[i + 2]))
            for i in range(0, len(words), 3)
        ]
        status = {name: float(value) for name, value in status.items()} or None
        made = batch(*samples, source=source, first=int(first), status=status)

        def act():
            receipt = self._service.put(made, as_host=None if host == "admin" else host)
            refused = receipt.refused
            told = f"accepted {receipt.accepted}, next {receipt.next}, refused {refused.count}"
            return [told, *refused.reasons]

        return self._tried(act)

    def forget(self, name):
        return self._tried(lambda: self._service.forget(name))

    def hosts(self):
        return [
            f"{h.name} {h.address} {h.site} lost {h.lost} seen {self._from_start(h.last_seen)} "
            f"registered {self._from_start(h.registered_at)} series {h.series} status {h.status}"
            for h in self._service.hosts()
        ]

    @staticmethod
    def _from_start(t):
        return None if t is None else t - START

    def events(self):
        return [f"{e.kind}, {e.host} {e.text}".rstrip() for e in self._service.events(0, 4e9)]

    def series(self):
        return [f"{s.series} {s.samples} {s.last}" for s in self._service.series()]

    def stored(self, name):
        def act():
            samples = self._service.samples(name, since=0, until=4e9, resolution="raw")
            return [str(np.column_stack((samples.t - START, samples.value)).tolist())]

        return self._tried(act)

    def counted(self):
        counts = self._service.counters()
        return [
            f"refused {counts.samples_refused}, repeated {counts.samples_repeated}, batches {counts.batches}"
        ]


@transcripts("nws/service/conversations")
def test_service_conversation_is_the_recorded_one(start, clock, store, transcript, golden):
    golden(transcript, replay(transcript, Session(start, clock, store)))


def test_keys_are_not_in_the_store(service, store):
    key = registered(service, "alpha")["alpha"]
    service.close()
    assert key.encode() not in store.read_bytes()


def test_entry_that_makes_no_sense_costs_that_host_only(start):
    service = start()
    registered(service, "alpha", "beta")
    with service._parts.memory.database.writing() as connection:
        connection.execute("UPDATE host SET document = '{\"registration\": 3}' WHERE name = 'alpha'")
    service.close()
    assert [h.name for h in start().hosts()] == ["beta"]


def test_registration_that_cannot_be_kept_has_not_happened(service, monkeypatch):
    def full(*_):
        raise StoreError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(service._parts.directory, "_keep", full)
        with pytest.raises(StoreError):
            service.register("alpha", registration(), None)
    assert service.hosts() == []
    assert not service.health().ok
    registered(service, "alpha")


def test_schedule_that_cannot_be_kept_does_not_cost_a_host_its_key(service, clock, monkeypatch):
    def full(*_):
        raise StoreError("no room")

    before = service.schedule().version
    with monkeypatch.context() as patched:
        patched.setattr(service._parts.schedules._keyvalues, "put", full)
        keys = registered(service, "alpha", "beta")
    service.check_key("alpha", keys["alpha"])
    assert service.schedule().version == before
    clock.advance(3)
    service.tick()
    assert service.schedule().version > before
    assert service.peers().keys() == {"alpha", "beta"}
