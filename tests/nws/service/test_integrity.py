"""A damaged store under a service: an error where it matters, health that names it, and everything else goes on."""

import logging
import sqlite3

import pytest
import requests

from nws.server.serve import ServerThread
from nws.server.tokens import Tokens

from .helpers import START, batch


def feed(service, name, values, start=START):
    """One sample each ten seconds."""
    service.put(batch(*((name, start + 10.0 * i, v) for i, v in enumerate(values))), as_host=None)


def change(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def settle(service, clock):
    clock.advance(2 * 3600.0)
    for _ in range(50):
        service.tick()


@pytest.fixture
def damaged(start, store, clock):
    """A service with two series of which one has lost its chunk."""
    first = start()
    feed(first, "cpu.new@alpha", [0.5] * 50)
    feed(first, "cpu.new@beta", [0.25] * 50)
    settle(first, clock)
    first.close()
    change(store, "UPDATE block SET data = x'07' WHERE bucket_s = 0 AND series = 0")
    return start()


def test_damaged_chunk_served_is_an_error_of_that_series(damaged, clock, caplog):
    assert damaged.health().ok
    with ServerThread(damaged, Tokens(digests={}), web=None) as server:
        url = f"{server.url}/v1/series/cpu.new@{{}}/samples?resolution=raw"
        wrong, right = requests.get(url.format("alpha")), requests.get(url.format("beta"))
        requests.get(url.format("alpha"))
        health = requests.get(f"{server.url}/healthz").json()
    assert (wrong.status_code, right.status_code) == (507, 200)
    assert "Retry-After" not in wrong.headers
    message = wrong.json()["error"]["message"]
    assert "damaged: cpu.new@alpha: samples of " in message
    assert "nws repair" in message
    assert len(right.json()["value"]) == 50
    assert (health["status"], health["store"]) == ("degraded", "writable")
    assert "cpu.new@alpha" in health["reason"]
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 1


def test_damaged_chunk_at_start_costs_its_own_samples(damaged, start, store):
    damaged.close()
    store.with_name("service.db.battery").unlink()
    again = start()
    assert again.counters().restored == "replayed"
    (found,) = again.forecasts(["cpu.new@beta"]).values()
    assert (found.samples, found.last) == (50, 0.25)
    assert "cpu.new@alpha: samples of" in again.health().reason


def test_damaged_battery_is_kept_aside_and_reported(start, store, caplog):
    for turn in range(5):
        service = start()
        feed(service, "cpu.new@alpha", [0.5] * 5, START + 60.0 * turn)
        service.close()
        battery = store.with_name("service.db.battery")
        content = bytearray(battery.read_bytes())
        content[-1] ^= 1
        battery.write_bytes(content)
    service = start()
    assert service.counters().restored == "replayed"
    assert "service.db.battery: damaged: its checksum is wrong; kept as" in service.health().reason
    aside = sorted(path.name for path in store.parent.glob("*.damaged-*"))
    assert aside == [f"service.db.battery.damaged-{n}" for n in (3, 4, 5)]


def test_emptied_store_is_reported_and_serves_what_is_new(start, store):
    service = start()
    feed(service, "cpu.new@alpha", [0.5] * 20)
    service.close()
    store.write_bytes(b"")
    again = start()
    assert "of another store, or later than this one" in again.health().reason
    assert store.with_name("service.db.battery.damaged-1").exists()
    feed(again, "cpu.new@beta", [0.25] * 20)
    with ServerThread(again, Tokens(digests={}), web=None) as server:
        answer = requests.get(f"{server.url}/v1/series/cpu.new@beta/samples?resolution=raw")
    assert answer.json()["value"] == [0.25] * 20
