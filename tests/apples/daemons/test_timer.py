"""What is in no hurry is put between beats."""

import select
import time

import pytest

from apples.ipc.timer import Timer, between_heartbeats, now


@pytest.mark.parametrize(("when", "middle"), [(11.0, 11.05), (11.04, 11.05), (11.099, 11.05), (9.99, 9.95)])
def test_what_is_in_no_hurry_waits_for_the_middle_of_its_slice(when, middle):
    assert between_heartbeats(10.0, 0.1, when) == pytest.approx(middle)


def test_beats_further_apart_than_a_second_are_not_waited_for():
    assert between_heartbeats(10.0, 1.0, 11.0) == pytest.approx(11.5)
    assert between_heartbeats(10.0, 30.0, 11.0) == 11.0


def test_a_drum_tells_how_often_it_was_missed():
    drum = Timer()
    try:
        first = now() + 0.02
        drum.every(first, 0.01)
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
