"""Tasks without hurry are done with a heartbeat."""

import select
import time

import pytest

from apples.daemons.ipc.timer import Timer, now, with_heartbeat


@pytest.mark.parametrize(("when", "beat"), [(11.0, 11.0), (11.04, 11.0), (11.099, 11.1), (9.99, 10.0)])
def test_with_heartbeat_returns_the_closest_heartbeat(when, beat):
    assert with_heartbeat(10.0, 0.1, when) == pytest.approx(beat)


def test_beats_further_apart_than_a_second_are_not_waited_for():
    assert with_heartbeat(10.0, 1.0, 11.0) == pytest.approx(11.0)
    assert with_heartbeat(10.0, 30.0, 11.0) == 11.0


def test_drum_tells_how_often_it_was_missed():
    drum = Timer()
    try:
        first = now() + 0.02
        drum.set(first, 0.01)
        assert drum.expired() == 0
        select.select([drum.fileno()], [], [], 5.0)
        assert drum.expired() >= 1
        time.sleep(0.1)
        assert drum.expired() >= 8
        drum.set(now() + 0.01)
        time.sleep(0.05)
        assert drum.expired() == 1, "set once, it is no drum any more"
    finally:
        drum.close()
