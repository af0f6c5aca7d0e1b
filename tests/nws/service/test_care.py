"""What a service does of its own accord, and what it does when its disk is full."""

import os
import sqlite3
import threading

import numpy as np
import pytest

from nws.base.errors import Refused, StoreError
from nws.memory import Keep
from nws.messages.weatherdocuments import Event
from nws.server.encoding import encode
from tests.transcripts import recorded

from .helpers import START, batch, kill, registered, settings

ALPHA = "cpu.new@alpha"


def events(service, since=0.0, until=4e9, **options):
    return [(e.t, e.kind, e.host, e.text) for e in service.events(since, until, **options)]


class FullDisk:
    """A disk that takes nothing more until there is room again."""

    def __init__(self, service, monkeypatch):
        self.full = True
        database = service._parts.memory.database
        writing = database.writing

        def refuse():
            if self.full:
                raise StoreError(f"{service.path}: no room left on its disk")
            return writing()

        monkeypatch.setattr(database, "writing", refuse)


def test_events_are_kept_and_read_by_time(start):
    first = start()
    first.event(Event(t=START - 5, kind="plan made", host="alpha", text="heat 1024 on 4 hosts"))
    first.event(Event(t=START - 9, kind="note", text="earlier"))
    first.close()
    second = start()
    assert events(second) == [
        (START - 9, "note", None, "earlier"),
        (START - 5, "plan made", "alpha", "heat 1024 on 4 hosts"),
    ]
    assert events(second, START - 6, START) == [(START - 5, "plan made", "alpha", "heat 1024 on 4 hosts")]
    assert events(second, most=1) == [(START - 5, "plan made", "alpha", "heat 1024 on 4 hosts")]
    assert events(second, most=0) == []


@recorded("nws/service/event_problems.txt", "changes")
def test_events_that_are_none_are_refused(service, answered, changes):
    with pytest.raises(Refused) as caught:
        service.event(Event(**({"t": START, "kind": "note"} | changes)))
    answered(str(caught.value))
    assert events(service) == []


def test_events_of_the_service_are_seen_before_they_are_written(service, clock):
    registered(service, "alpha")
    assert [e[1] for e in events(service)] == ["host registered"]
    service.tick()
    assert [e[1] for e in events(service)] == ["host registered"]
    assert service.counters().events == 1


def test_old_events_are_forgotten(start, clock):
    service = start(settings(keep=Keep(samples_s=60, minutes_s=600, ten_minutes_s=7200)))
    service.event(Event(t=START, kind="note"))
    clock.advance(7300)
    service.event(Event(t=clock(), kind="note"))
    service.tick()
    assert [e[0] for e in events(service)] == [START + 7300]


def test_while_the_disk_is_full_reading_goes_on(service, clock, monkeypatch, caplog):
    registered(service, "alpha", "beta")
    service.put(batch((ALPHA, START, 0.5)), as_host="alpha")
    before = encode(service.snapshot())
    disk = FullDisk(service, monkeypatch)
    with pytest.raises(StoreError, match="no room left"):
        service.put(batch((ALPHA, START + 1, 0.6)), as_host="alpha")
    health = service.health()
    assert (health.ok, health.status, health.store) == (False, "degraded", "not writable")
    assert "no room left" in health.reason
    assert service.counters().batches_failed == 1
    with pytest.raises(StoreError):
        service.event(Event(t=START, kind="note"))
    assert encode(service.snapshot()) == before
    assert service.plot(ALPHA, since=START, until=START + 10).value.tolist() == [0.5]
    assert service.forecasts([ALPHA]).popitem()[1].samples == 1
    assert [h.name for h in service.hosts()] == ["alpha", "beta"]
    for _ in range(6):
        clock.advance(10)
        with pytest.raises(StoreError):
            service.put(batch((ALPHA, clock(), 0.6)), as_host="alpha")
        service.tick()
    assert not service.health().ok
    assert [(h.name, h.lost) for h in service.hosts()] == [("alpha", False), ("beta", True)]
    assert caplog.text.count("it cannot write its store") == 1

    disk.full = False
    clock.advance(1)
    service.tick()
    assert service.health().ok
    assert "the store can be written again" in caplog.text
    assert service.put(batch((ALPHA, clock(), 0.7)), as_host="alpha").accepted == 1
    # what happened meanwhile was not forgotten
    assert [e[1] for e in events(service)] == ["host registered", "host registered", "host lost"]


def test_what_a_full_disk_refused_is_delivered_later_and_once(service, monkeypatch):
    registered(service, "alpha")
    stream = [batch((ALPHA, START + i, i / 10), source="alpha/1", first=i) for i in range(5)]
    service.put(stream[0], as_host="alpha")
    disk = FullDisk(service, monkeypatch)
    with pytest.raises(StoreError):
        service.put(stream[1], as_host="alpha")
    disk.full = False
    for one in stream:
        service.put(one, as_host="alpha")
    found = service.samples(ALPHA, since=0, until=4e9, resolution="raw")
    assert found.value.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert service.forecasts([ALPHA]).popitem()[1].samples == 5


def test_really_full_store_degrades_and_recovers(service, clock):
    """SQLite itself refuses: the file may not grow by another page."""
    registered(service, "alpha")
    service.put(batch((ALPHA, START, 0.5)), as_host="alpha")
    connection = service._parts.memory.database.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    many = [(ALPHA, START + i / 10, 0.5) for i in range(5000)]
    with pytest.raises(StoreError, match="no room left on its disk"):
        service.put(batch(*many), as_host="alpha")
    service.tick()
    assert not service.health().ok
    assert len(service.samples(ALPHA, since=0, until=4e9, resolution="raw").t) == 1
    connection.execute("PRAGMA max_page_count=1000000")
    clock.advance(1)
    service.tick()
    assert service.health().ok
    assert service.put(batch(*many), as_host="alpha").accepted == 5000


def test_hours_are_closed_and_old_samples_forgotten_as_time_goes_by(start, clock, store):
    service = start(settings(keep=Keep(samples_s=4 * 3600, minutes_s=86400, ten_minutes_s=10 * 86400)))
    for _ in range(8 * 6):
        clock.advance(600)
        service.put(batch(*((ALPHA, clock() - 60 * k, 0.5) for k in range(10))), as_host=None)
        service.tick()
    for _ in range(20):
        service.tick()
    with sqlite3.connect(store) as connection:
        assert connection.execute("SELECT count(*) FROM block WHERE bucket_s = 0").fetchone()[0] >= 3
    connection.close()
    raw = service.samples(ALPHA, since=0, until=4e9, resolution="raw")
    assert START + 2 * 3600 < raw.t[0] <= START + 4 * 3600
    assert service.samples(ALPHA, since=START, until=4e9, resolution="600").t[0] <= START + 600


def test_hosts_last_seen_are_kept_while_the_service_lives(start, clock):
    first = start()
    registered(first, "alpha")
    for _ in range(13):
        clock.advance(10)
        first.put(batch((ALPHA, clock(), 0.5)), as_host="alpha")
        first.tick()
    # as after a kill: nothing is saved at the end
    kill(first)
    assert start().host("alpha").last_seen >= START + 60


def test_tick_never_raises(service, clock, monkeypatch):
    registered(service, "alpha", "beta")
    service.put(batch((ALPHA, START, 0.5)), as_host="alpha")
    FullDisk(service, monkeypatch)

    def broken(*_, **__):
        raise StoreError("gone")

    monkeypatch.setattr(service._parts.memory, "tend", broken)
    monkeypatch.setattr(service._parts.forecaster, "follow", broken)
    for _ in range(5):
        clock.advance(3601)
        service.tick()
    assert not service.health().ok
    service.close()


def test_counters_count(service, clock):
    registered(service, "alpha", "beta")
    service.put(batch((ALPHA, START, 0.5), (ALPHA, START, np.nan)), as_host="alpha")
    clock.advance(46)
    service.tick()
    counts = service.counters()
    assert (counts.batches, counts.samples_accepted, counts.samples_refused) == (1, 1, 1)
    assert (counts.hosts, counts.hosts_lost, counts.series) == (2, 2, 1)
    assert counts.schedule_version == service.schedule().version
    assert counts.store_bytes > 0
    assert (counts.restored, counts.batches_failed, counts.samples_repeated) == ("empty", 0, 0)


def test_many_threads_at_once(start, clock):
    """Sensors deliver, pages read and the clock ticks, all at once: nothing is lost and nobody waits for ever."""
    service = start()
    keys = registered(service, *(f"h{i}" for i in range(6)))
    stop, faults = threading.Event(), []

    def guarded(work):
        def run():
            try:
                work()
            except Exception as error:
                faults.append(error)

        return threading.Thread(target=run)

    def deliver(host):
        def work():
            service.check_key(host, keys[host])
            for i in range(40):
                samples = [(f"x.s{k}@{host}", START + i, float(i)) for k in range(20)]
                service.put(batch(*samples, source=f"{host}/1", first=20 * i), as_host=host)

        return work

    def read():
        while not stop.is_set():
            encode(service.snapshot(composed=True))
            for state in service.series()[:3]:
                service.plot(state.series, since=START, until=START + 100)
            service.hosts(), service.schedule(), service.counters(), service.events(0, 4e9)

    def tick():
        while not stop.is_set():
            service.tick()

    writers = [guarded(deliver(host)) for host in keys]
    others = [guarded(read), guarded(tick)]
    for thread in writers + others:
        thread.start()
    for thread in writers:
        thread.join(60)
    stop.set()
    for thread in others:
        thread.join(60)
    assert faults == []
    assert not any(thread.is_alive() for thread in writers + others)
    assert service.counters().samples_accepted == 6 * 40 * 20
    assert all(f.samples == 40 and f.last == 39.0 for f in service.forecasts().values())


def test_one_service_runs_on_a_store(start, store):
    first = start()
    with pytest.raises(
        StoreError, match=rf"service.db: another weather service runs on this store, process {os.getpid()}"
    ):
        start()
    registered(first, "alpha")
    kill(first)
    assert [h.name for h in start().hosts()] == ["alpha"]


def test_what_is_no_store_is_let_go_of(start, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a store, and long enough to be taken for one" * 20)
    for _ in range(2):
        with pytest.raises(StoreError, match="not an SQLite database"):
            start(store=path)
    with pytest.raises(StoreError, match="cannot be made"):
        start(store=path / "inside.db")
