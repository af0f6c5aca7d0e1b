"""Piecewise-constant quantities: values, breaks, and means that are exact integrals."""

import numpy as np
from hypothesis import given, strategies as st

from apples.simulation.hostload import Steps

intervals = st.lists(
    st.tuples(st.integers(-50, 50), st.integers(1, 30), st.integers(1, 5)), min_size=0, max_size=20
)


def steps_of(found):
    begin, length, weight = (np.array(column, dtype=float) for column in zip(*found, strict=True))
    return Steps.of_intervals(begin, begin + length, weight)


def test_overlapping_intervals_add_up():
    steps = steps_of([(0, 10, 1), (5, 10, 2)])
    assert steps.at(np.array([-1.0, 0.0, 5.0, 10.0, 14.9, 15.0])).tolist() == [0, 1, 3, 2, 2, 0]


def test_no_intervals_is_nothing_for_ever():
    empty = np.empty(0)
    assert Steps.of_intervals(empty, empty, empty).at(np.array([-5.0, 5.0])).tolist() == [0, 0]


def test_breaks_are_strictly_inside():
    assert steps_of([(0, 10, 1), (5, 10, 2)]).breaks(0.0, 10.0).tolist() == [5.0]


@given(intervals.filter(bool), st.integers(-60, 80), st.integers(1, 50))
def test_mean_is_the_integral(found, begin, length):
    steps = steps_of(found)
    middles = np.arange(begin, begin + length) + 0.5
    covered = sum(
        weight * np.sum((middles > start) & (middles < start + duration)) for start, duration, weight in found
    )
    mean = steps.mean(np.array([float(begin)]), np.array([float(begin + length)]))[0]
    assert np.isclose(mean, covered / length)
