"""The schedule follows the hosts; `conversations/schedules.txt` has its versions, here is what it holds out."""

from nws.service.serviceconfig import CliqueConfig

from .helpers import START, registered, settings


def settle(service, clock, seconds=3):
    clock.advance(seconds)
    service.tick()
    return service.schedule()


def members(schedule):
    return {c.name: c.members for c in schedule.cliques}


def test_crowd_is_taken_together(service, clock):
    before = service.schedule().version
    for i in range(100):
        registered(service, f"h{i:03d}")
        clock.advance(0.01)
    schedule = settle(service, clock)
    assert schedule.version - before <= 3
    assert {m for c in schedule.cliques for m in c.members} == {f"h{i:03d}" for i in range(100)}


def test_frames_grow_when_the_turns_have_no_room(start, caplog):
    cliques = {f"c{i}": CliqueConfig(members=("hub", f"h{i}")) for i in range(10)}
    service = start(settings(cliques=cliques, frame_s=1.0))
    assert service.schedule().frame_s == 4.0
    assert service.schedule().colours == 10
    assert "is too short for 10 cliques" in caplog.text


def test_new_store_starts_beyond_the_versions_of_an_old_one(start, clock, tmp_path):
    first = start()
    for i in range(20):
        registered(first, f"h{i}")
        settle(first, clock)
    clock.advance(3600)
    assert start(store=tmp_path / "other.db").schedule().version > first.schedule().version


def test_kept_schedule_that_makes_no_sense_is_made_anew(start, clock):
    first = start()
    registered(first, "alpha", "beta")
    settle(first, clock)
    first._parts.schedules._keyvalues.put("schedule", {"version": "new"})
    first.close()
    second = start()
    assert second.schedule().version >= START
    assert members(second.schedule())
