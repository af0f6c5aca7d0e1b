"""The name server: names are held by keys, silence is noticed, and clocks that step lose nobody."""

import json

import pytest

from nws.base.errors import KeyRefused, NameTaken, Refused, StoreError, TooMany, UnknownHost
from nws.messages.encoding import encode
from nws.service.serviceconfig import Limits

from .helpers import START, batch, registered, registration, settings

ALPHA = "cpu.new@alpha"


def kinds(service):
    return [(e.kind, e.host) for e in service.events(0, 4e9)]


def test_host_registers_and_is_told_what_to_do(service):
    told = service.register("alpha", registration(site="east"), None)
    assert told.key
    assert told.now == START
    document = json.loads(encode(told))
    assert document["every"] == {"cpu": 10.0, "memory": 10.0, "deliver": 10.0}
    assert document["grid"] == "grid"
    assert document["peers"] == {}
    state = service.host("alpha")
    assert (state.address, state.port, state.site, state.cpus) == ("alpha.example", 4000, "east", 4)
    assert (state.registered_at, state.last_seen, state.lost, state.series) == (START, START, False, 0)


def test_name_is_held_by_its_key(service):
    key = registered(service, "alpha")["alpha"]
    with pytest.raises(
        NameTaken, match=r"alpha belongs to the host at alpha.example.*DELETE /v1/hosts/alpha"
    ):
        service.register("alpha", registration(address="elsewhere"), None)
    with pytest.raises(NameTaken):
        service.register("alpha", registration(), "another key")
    assert service.host("alpha").address == "alpha.example"
    again = service.register("alpha", registration(address="moved.example"), key)
    assert again.key is None
    assert "key" not in json.loads(encode(again))
    assert service.host("alpha").address == "moved.example"


def test_key_opens_its_own_host_only(service):
    keys = registered(service, "alpha", "beta")
    service.check_key("alpha", keys["alpha"])
    with pytest.raises(KeyRefused, match="alpha: another key came"):
        service.check_key("alpha", keys["beta"])
    with pytest.raises(KeyRefused, match="alpha: no key came"):
        service.check_key("alpha", None)
    with pytest.raises(UnknownHost, match="no host 'gamma' is registered"):
        service.check_key("gamma", keys["alpha"])


def test_host_may_bring_its_key_so_that_a_lost_answer_locks_nobody_out(service):
    own = "k" * 32
    service.register("alpha", registration(), own)
    assert service.register("alpha", registration(), own).key is None
    service.check_key("alpha", own)


def test_key_that_is_too_short_is_replaced(service):
    assert service.register("alpha", registration(), "short").key != "short"


def test_keys_are_not_in_the_store(service, store):
    key = registered(service, "alpha")["alpha"]
    service.close()
    assert key.encode() not in store.read_bytes()


@pytest.mark.parametrize("name", ["", "-a", "a b", "a@b", "a>b", "ä", "a" * 65, "../a", "a\n"])
def test_names_that_are_none_are_refused(service, name):
    with pytest.raises(Refused, match="is not a host name; legal are"):
        service.register(name, registration(), None)


def test_there_is_room_for_so_many_hosts(start):
    service = start(settings(limits=Limits(hosts=2)))
    keys = registered(service, "a", "b")
    with pytest.raises(TooMany, match=r"c cannot register: this service takes 2 hosts"):
        service.register("c", registration(), None)
    service.register("a", registration("a"), keys["a"])
    service.forget("b")
    registered(service, "c")


def test_who_is_silent_is_lost_and_comes_back(service, clock):
    registered(service, "alpha", "beta")
    for _ in range(5):
        clock.advance(10)
        service.put(batch((ALPHA, clock(), 0.5)), as_host="alpha")
        service.tick()
    assert not service.host("alpha").lost
    assert service.host("beta").lost
    assert service.host("beta").last_seen == START
    clock.advance(10)
    service.put(batch(status={"done": 3.0}), as_host="beta")
    assert not service.host("beta").lost
    assert service.host("beta").status == {"done": 3.0}
    assert kinds(service) == [
        ("host registered", "alpha"),
        ("host registered", "beta"),
        ("host lost", "beta"),
        ("host returned", "beta"),
    ]
    (lost,) = [e for e in service.events(0, 4e9) if e.kind == "host lost"]
    assert lost.text == "no contact for 50 s"


@pytest.mark.parametrize("hours", [-1, 1])
def test_clock_that_steps_loses_nobody(service, clock, hours):
    registered(service, "alpha")
    clock.advance(10)
    clock.step(3600 * hours)
    service.tick()
    state = service.host("alpha")
    assert not state.lost
    assert state.last_seen == clock() - 10
    clock.advance(50)
    service.tick()
    assert service.host("alpha").lost


def test_after_a_restart_hosts_are_known_and_have_time_to_report(start, clock):
    first = start()
    keys = registered(first, "alpha", "beta")
    clock.advance(30)
    first.put(batch((ALPHA, clock(), 0.5)), as_host="alpha")
    first.close()
    clock.step(3600)
    second = start()
    second.tick()
    assert [(h.name, h.lost, h.last_seen) for h in second.hosts()] == [
        ("alpha", False, START + 30),
        ("beta", False, START),
    ]
    second.check_key("alpha", keys["alpha"])
    clock.advance(44)
    second.tick()
    assert not second.host("alpha").lost
    clock.advance(2)
    second.tick()
    assert second.host("alpha").lost


def test_what_is_lost_stays_lost_over_a_restart_and_is_told_once(start, clock):
    first = start()
    registered(first, "alpha")
    clock.advance(60)
    first.tick()
    first.close()
    second = start()
    clock.advance(60)
    second.tick()
    assert second.host("alpha").lost
    assert [kind for kind, _ in kinds(second)] == ["host registered", "host lost"]


def test_clock_set_back_over_a_restart_leaves_no_host_in_the_future(start, clock):
    first = start()
    registered(first, "alpha")
    first.close()
    clock.step(-3600)
    assert start().host("alpha").last_seen == clock()


def test_forgotten_host_is_gone_with_its_series_until_it_returns(start):
    service = start()
    registered(service, "alpha", "beta")
    service.put(batch((ALPHA, START, 0.5), ("network.latency@alpha>beta", START, 1e-4)), as_host="alpha")
    service.put(batch(("cpu.new@beta", START, 0.7)), as_host="beta")
    service.forget("beta")
    with pytest.raises(UnknownHost):
        service.host("beta")
    with pytest.raises(UnknownHost):
        service.put(batch(("cpu.new@beta", START, 0.7)), as_host="beta")
    assert [s.series for s in service.series()] == [ALPHA]
    service.close()
    service = start()
    assert [s.series for s in service.series()] == [ALPHA]
    assert service.register("beta", registration("beta"), None).key
    assert len(service.series()) == 3


def test_forgotten_host_returns_when_an_administrator_writes_its_series(service):
    registered(service, "alpha")
    service.put(batch((ALPHA, START, 0.5)), as_host="alpha")
    service.forget("alpha")
    assert service.hosts() == []
    service.put(batch((ALPHA, START + 1, 0.6)), as_host=None)
    (state,) = service.hosts()
    assert (state.name, state.address, state.registered_at, state.last_seen, state.series) == (
        "alpha",
        None,
        None,
        START + 1,
        1,
    )


def test_nobody_forgets_a_host_that_is_not_there(service):
    with pytest.raises(UnknownHost, match="no host 'alpha' here"):
        service.forget("alpha")


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
