"""Who probes whom: the schedule follows the hosts, in good time, and its version never goes back."""

import itertools

import orjson
import pytest

from nws.links.cliques import Schedule, pairs
from nws.service.serviceconfig import CliqueConfig

from .helpers import START, batch, registered, registration, settings


def settle(service, clock, seconds=3):
    clock.advance(seconds)
    service.tick()
    return service.schedule()


def members(schedule):
    return {c.name: c.members for c in schedule.cliques}


def test_hosts_that_register_make_cliques(service, clock):
    registered(service, "alpha", "beta", "gamma")
    schedule = settle(service, clock)
    assert set(pairs(schedule.cliques)) == set(itertools.permutations(["alpha", "beta", "gamma"], 2))
    assert service.peers() == {n: (f"{n}.example", 4000) for n in ("alpha", "beta", "gamma")}
    assert service.host("alpha").cliques == tuple(members(schedule))


def test_version_is_newer_than_the_one_before(service, clock):
    versions = [service.schedule().version]
    for i in range(5):
        registered(service, f"h{i}")
        versions.append(settle(service, clock).version)
    assert versions == sorted(versions)
    assert len(set(versions)) >= 4


def test_change_takes_effect_at_a_frame_that_every_sensor_can_know_of(service, clock):
    registered(service, "alpha", "beta")
    first = settle(service, clock)
    assert first.effective_from - clock() < first.frame_s
    clock.advance(0.5)
    registered(service, "gamma")
    second = settle(service, clock)
    assert second.version > first.version
    assert second.effective_from >= clock() + 2 * 10 - 3
    assert second.effective_from % second.frame_s == 0


def test_crowd_is_taken_together(service, clock):
    before = service.schedule().version
    for i in range(100):
        registered(service, f"h{i:03d}")
        clock.advance(0.01)
    schedule = settle(service, clock)
    assert schedule.version - before <= 3
    assert {m for c in schedule.cliques for m in c.members} == {f"h{i:03d}" for i in range(100)}


def test_host_hears_of_its_own_cliques_and_peers_only(start, clock):
    service = start(settings(clique_most=2, sites={"a1": "a", "a2": "a", "b1": "b", "b2": "b"}))
    keys = registered(service, "a1", "a2", "b1", "b2")
    settle(service, clock)
    told = service.register("a2", registration("a2"), keys["a2"])
    assert told.peers == {"a1": ("a1.example", 4000)}
    assert [c.members for c in told.schedule.cliques] == [("a1", "a2")]
    assert Schedule.from_json(orjson.loads(orjson.dumps(told.schedule))) == told.schedule


def test_sites_of_the_file_win_over_what_sensors_say(start, clock):
    service = start(settings(sites={"alpha": "east"}))
    registered(service, "alpha", "beta", site="west")
    assert {h.name: h.site for h in service.hosts()} == {"alpha": "east", "beta": "west"}


def test_host_without_an_echo_server_is_probed_by_nobody(service, clock):
    registered(service, "alpha", "beta")
    service.register("gamma", registration("gamma", port=0), None)
    assert "gamma" not in {m for c in settle(service, clock).cliques for m in c.members}
    assert "gamma" not in service.peers()


def test_new_address_is_a_new_version_at_once(service, clock):
    keys = registered(service, "alpha", "beta")
    before = settle(service, clock)
    clock.advance(60)
    told = service.register("beta", registration("beta", port=4001), keys["beta"])
    assert told.schedule.version == before.version + 1
    assert told.schedule.effective_from == before.effective_from
    assert service.peers()["beta"] == ("beta.example", 4001)
    clock.advance(60)
    same = service.register("beta", registration("beta", port=4001), keys["beta"])
    assert same.schedule.version == told.schedule.version


def test_forgotten_host_leaves_the_schedule(service, clock):
    registered(service, "alpha", "beta", "gamma")
    before = settle(service, clock)
    clock.advance(60)
    service.forget("gamma")
    after = settle(service, clock)
    assert after.version > before.version
    assert {m for c in after.cliques for m in c.members} == {"alpha", "beta"}


def test_lost_host_keeps_its_turns(service, clock):
    registered(service, "alpha", "beta")
    before = settle(service, clock)
    assert settle(service, clock, 100).version == before.version
    assert service.host("beta").lost


def test_host_that_is_gone_for_long_leaves_its_place_between_cliques_to_another(start, clock):
    service = start(settings(clique_most=2))
    hosts = ("a1", "a2", "b1", "b2")
    registered(service, *hosts)
    settle(service, clock)
    for _ in range(11):
        clock.advance(100)
        for name in hosts[1:]:
            service.put(batch(), as_host=name)
        service.tick()
    without = settle(service, clock)
    assert {m for c in without.cliques for m in c.members} == set(hosts[1:])
    assert {h for pair in pairs(without.cliques) for h in pair} == set(hosts[1:])
    service.put(batch(), as_host="a1")
    back = settle(service, clock)
    assert back.version > without.version
    assert {m for c in back.cliques for m in c.members} == set(hosts)


def test_configured_cliques_do_not_wait_for_hosts(start, clock):
    cliques = {
        "east": CliqueConfig(members=("e1", "e2"), every_s=60),
        "top": CliqueConfig(members=("e1", "w1")),
    }
    service = start(settings(cliques=cliques))
    schedule = service.schedule()
    assert members(schedule) == {"east": ("e1", "e2"), "top": ("e1", "w1")}
    assert schedule.round_s("east") == pytest.approx(56)
    assert service.peers() == {}
    registered(service, "e1")
    registered(service, "e2", "stranger")
    after = settle(service, clock)
    assert after.cliques == schedule.cliques
    assert after.version > schedule.version
    assert service.peers().keys() == {"e1", "e2"}
    assert service.host("stranger").cliques == ()


def test_frames_grow_when_the_turns_have_no_room(start, caplog):
    cliques = {f"c{i}": CliqueConfig(members=("hub", f"h{i}")) for i in range(10)}
    service = start(settings(cliques=cliques, frame_s=1.0))
    assert service.schedule().frame_s == 4.0
    assert service.schedule().colours == 10
    assert "is too short for 10 cliques" in caplog.text


def test_schedule_outlives_the_service(start, clock):
    first = start()
    registered(first, "alpha", "beta")
    before = settle(first, clock)
    first.close()
    second = start()
    assert second.schedule() == before
    assert second.peers().keys() == {"alpha", "beta"}
    second.tick()
    assert second.schedule() == before


def test_version_goes_on_when_settings_change(start, clock):
    first = start()
    registered(first, "alpha", "beta")
    before = settle(first, clock)
    first.close()
    second = start(settings(frame_s=8.0))
    assert second.schedule().version == before.version + 1
    assert second.schedule().frame_s == 8.0


def test_new_store_starts_beyond_the_versions_of_an_old_one(start, clock, tmp_path):
    first = start()
    for i in range(20):
        registered(first, f"h{i}")
        settle(first, clock)
    clock.advance(3600)
    assert start(store=tmp_path / "other.db").schedule().version > first.schedule().version


def test_clock_set_back_does_not_put_the_schedule_off(service, clock):
    registered(service, "alpha", "beta")
    settle(service, clock)
    clock.advance(60)
    registered(service, "gamma")
    before = settle(service, clock)
    clock.step(-3600)
    after = settle(service, clock, 1)
    assert after.version > before.version
    assert after.cliques == before.cliques
    assert after.effective_from <= clock() + 24
    assert settle(service, clock, 1) == after


def test_clock_set_forward_changes_nothing(service, clock):
    registered(service, "alpha", "beta")
    before = settle(service, clock)
    clock.step(3600)
    assert settle(service, clock, 1) == before


def test_kept_schedule_that_makes_no_sense_is_made_anew(start, clock):
    first = start()
    registered(first, "alpha", "beta")
    settle(first, clock)
    first._parts.schedules._keyvalues.put("schedule", {"version": "new"})
    first.close()
    second = start()
    assert second.schedule().version >= START
    assert members(second.schedule())
