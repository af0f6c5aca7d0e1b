"""Processes that ask for the processor (CMDSCH), and how often a node manager looks for what they ask."""

import time

import pytest

from apples.coscheduling.policies import POLICIES
from apples.daemons import nodedaemon
from apples.daemons.nodedaemon import NodeDaemon
from apples.daemons.settings import NodeSettings, SharingSettings


@pytest.fixture
def daemon(tmp_path):
    """A node manager whose looks and turns are counted. looks : when.  turns : how many"""
    settings = SharingSettings(policy=POLICIES["message-driven"])
    made = NodeDaemon(NodeSettings(name="a", sharing=settings, socket=tmp_path / "s"), log=lambda text: None)
    made.looks, made.turns, made.found = [], 0, True

    def look(now):
        made.looks.append(now)
        return made.found

    def enforce():
        made.turns += 1

    made.node.look_for_messages, made.timer._enforce = look, enforce
    yield made
    made.close()


def run(daemon, seconds):
    daemon._loop._stopped = False
    daemon._loop.after(seconds, daemon._loop.stop)
    daemon._loop.run()


def test_request_is_looked_for_at_once(daemon):
    asked = time.monotonic()
    daemon.requested()
    run(daemon, 0.01)
    (looked,) = daemon.looks
    assert looked - asked < nodedaemon.LOOK_S / 2
    assert daemon.turns == 1


def test_requests_that_come_close_together_are_looked_for_together_a_little_later(daemon, monkeypatch):
    monkeypatch.setattr(nodedaemon, "_REQUEST_S", 0.05)
    for _ in range(2):
        for _ in range(5):
            daemon.requested()
        run(daemon, 0.01)
    run(daemon, 0.1)
    first, second = daemon.looks
    assert second >= first + 0.05


def test_request_that_is_none_changes_nothing(daemon):
    daemon.found = False
    daemon.requested()
    run(daemon, 0.01)
    assert (len(daemon.looks), daemon.turns) == (1, 0)
