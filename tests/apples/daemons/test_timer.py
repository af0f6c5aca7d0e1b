"""What is in no hurry is put between beats."""

import pytest

from apples.daemons.timer import between_beats


@pytest.mark.parametrize(
    ("when", "middle"), [(11.0, 11.05), (11.04, 11.05), (11.099, 11.05), (9.99, 9.95)]
)
def test_what_is_in_no_hurry_waits_for_the_middle_of_its_slice(when, middle):
    assert between_beats(10.0, 0.1, when) == pytest.approx(middle)


def test_beats_further_apart_than_a_second_are_not_waited_for():
    assert between_beats(10.0, 1.0, 11.0) == pytest.approx(11.5)
    assert between_beats(10.0, 30.0, 11.0) == 11.0
