"""How a run leaves a host: by moving rows, from a checkpoint, or not at all."""

import time
from types import SimpleNamespace

import pytest

from apples.model.drained import DrainedHost, DrainedHosts
from apples.model.progress import CheckpointAndEnd, NewSlabs
from apples.run.departures import Departures

MOVE = NewSlabs(rows=(0, 9), reader="b")
GO_ON = CheckpointAndEnd(why="a is drained: going on from the checkpoint without a")


@pytest.fixture
def departures(monkeypatch, tmp_path):
    """Makes departures of a run on a pool of hosts; said: its messages."""
    monkeypatch.setenv("APPLES_STATE", str(tmp_path))

    def make(*, order=None, keep=None, restarts=None, pool="ab", attempts=3):
        said = []
        template = SimpleNamespace(name="wave", restart=dict if restarts else None)
        request = SimpleNamespace(template=template, resilience=SimpleNamespace(attempts=attempts))
        hosts = [SimpleNamespace(name=name) for name in pool]
        decision = SimpleNamespace(keep=keep, snapshot=SimpleNamespace(hosts=hosts))
        controller = None if order is None else SimpleNamespace(leave=lambda hosts: order or None)
        return Departures(request, decision, controller, said.append), said

    return make


@pytest.mark.parametrize(
    ("run", "order"),
    [
        ({"order": MOVE, "restarts": False}, MOVE),
        ({"order": MOVE, "restarts": True}, MOVE),
        ({"order": (), "restarts": True}, GO_ON),
        ({"restarts": True}, GO_ON),
        ({"order": MOVE, "keep": "run.ckpt"}, GO_ON),
        ({"order": MOVE}, MOVE),
        ({"keep": "run.ckpt"}, GO_ON),
    ],
)
def test_departure_takes_the_way_that_loses_least(departures, run, order):
    leaving, said = departures(**run)
    assert leaving.leave({"a": "is drained"}) == order
    assert said == []


@pytest.mark.parametrize(
    ("run", "reason", "then"),
    [
        ({"restarts": False}, "wave neither moves rows in this run", "begins again on the others if"),
        ({"restarts": False, "attempts": 1}, "wave neither moves rows in this run", "fails if"),
        ({"restarts": True, "pool": "a"}, "no other host of the pool is usable", "fails if"),
    ],
)
def test_departure_that_is_impossible_is_explained(departures, run, reason, then):
    leaving, said = departures(**run)
    assert leaving.leave({"a": "is drained"}) is None
    (line,) = said
    assert line.startswith("a is drained, but the run stays: ")
    assert reason in line
    assert then in line


def test_drained_hosts_are_seen_while_a_run_goes_on(departures):
    leaving, said = departures()
    assert leaving.look() == {}
    DrainedHosts().change(time.time(), add=[DrainedHost(host="a", since=0.0)])
    assert leaving.look() == {"a": "is drained (apples drain --undo a)"}
    DrainedHosts().path.write_text("{}")
    assert (leaving.look(), leaving.look(), len(said)) == ({}, {}, 1)
