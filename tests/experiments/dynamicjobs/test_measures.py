"""What a dynamic workload tells, on courses small enough to count by hand; where a machine saturates."""

import numpy as np
import pytest

from apples.errors import ConfigError
from apples_experiments.dynamicjobs.measures import (
    Saturation,
    accepted_load,
    backlog,
    backlog_growth,
    ideal,
    measure,
    offered_load,
    saturation,
    throughput,
)


def test_offered_load_is_work_over_processors_times_last_arrival(course):
    alone = course((0, 0, 10, 10, 4), (10, 10, 15, 5, 4), (20, 20, 25, 5, 4))
    assert offered_load(alone) == pytest.approx(80 / (4 * 20))


def test_backlog_is_what_has_come_and_is_not_done(course):
    two = course((0, 0, 10, 10, 4), (4, 10, 20, 10, 2))
    assert backlog(two, 0.0) == pytest.approx(40)
    assert backlog(two, 3.0) == pytest.approx(28)
    assert backlog(two, 5.0) == pytest.approx(20 + 20)
    assert backlog(two, 15.0) == pytest.approx(10)
    assert backlog(two, 20.0) == 0.0


def steady(course, late_s):
    """A job of the whole machine every 10 s; each one ends later than the one before by so much."""
    starts = np.arange(200) * (10.0 + late_s)
    return course(*((10.0 * i, start, start + 10.0, 10.0, 4) for i, start in enumerate(starts.tolist())))


def test_who_keeps_up_accepts_what_is_offered(course):
    assert backlog_growth(steady(course, 0.0)) == pytest.approx(0.0, abs=0.01)
    assert accepted_load(steady(course, 0.0)) == pytest.approx(1.0, abs=0.02)


def test_who_does_not_accepts_what_it_gets_done(course):
    assert accepted_load(steady(course, 2.5)) == pytest.approx(0.8, abs=0.02)


def test_throughput_counts_until_the_last_start(course):
    # The second job starts when half of the first one's processors have done nothing.
    full = course((0, 0, 10, 10, 2), (0, 10, 20, 10, 4))
    assert throughput(full) == pytest.approx(0.5)
    assert throughput(course((0, 0, 10, 10, 4), (0, 0, 5, 5, 4))) == 1.0
    # A simulation counts whole nanoseconds: a job may start a little before it was submitted, and has done nothing yet.
    assert throughput(course((0, 0, 10, 10, 1), (5, 5 - 1e-10, 9, 4, 4))) == pytest.approx(0.25)


def test_machine_that_wastes_nothing(course):
    """Four processors: the first job takes 5 s instead of 10, the second starts then, the third when it comes."""
    found = ideal(course((0, 0, 10, 10, 2), (2, 10, 20, 10, 4), (40, 40, 44, 4, 1)))
    assert found.start.tolist() == [0, 5, 40]
    assert found.finish.tolist() == [5, 15, 41]


def test_all_figures(course):
    four = course((0, 0, 1, 1, 1), (1, 2, 4, 2, 1), (2, 4, 12, 8, 4), (4, 12, 28, 16, 4))
    found = measure(four, tau_s=4.0)
    assert found.response.mean == pytest.approx((1 + 3 + 10 + 24) / 4)
    assert found.slowdown.mean == pytest.approx((1 + 1 + 10 / 8 + 24 / 16) / 4)
    assert found.wait.median == pytest.approx(1.5)
    assert (found.short.mean, found.long.mean) == (2.0, 17.0)
    assert found.utilisation == pytest.approx((1 + 2 + 32 + 64) / (4 * 28))
    assert found.left == pytest.approx((32 + 64) / 99)


def test_machine_saturates_where_it_stops_to_keep_up():
    assert saturation((0.5, 0.7, 0.9), (0.5, 0.7, 0.81), 0.95).load == pytest.approx(0.8)
    assert saturation((0.5, 0.7, 0.9), (0.5, 0.7, 0.81), 0.95).bound == "at"


def test_load_that_is_accepted_beyond_saturation_counts_for_nothing():
    assert saturation((0.5, 0.7, 0.9), (0.5, 0.63, 0.9), 0.95).load == pytest.approx(0.6)


def test_ends_of_a_sweep_are_said_to_be_ends():
    assert saturation((0.5, 0.7), (0.5, 0.69), 0.95) == Saturation(load=0.7, bound="above")
    assert saturation((0.5, 0.7), (0.4, 0.7), 0.95) == Saturation(load=0.5, bound="below")


@pytest.mark.parametrize(
    ("offered", "accepted"),
    [((), ()), ((0.5,), (0.5, 0.6)), ((0.7, 0.5), (0.7, 0.5)), ((0.5, 0.5), (0.5, 0.5))],
)
def test_what_is_no_sweep(offered, accepted):
    with pytest.raises(ConfigError, match="legal is one of each or more, ascending"):
        saturation(offered, accepted, 0.95)


def test_shares_and_loads_out_of_range():
    with pytest.raises(
        ConfigError, match=r"keeps_up 1.0, loads \[0.5\]; legal are 0 to 1, and loads above 0"
    ):
        saturation((0.5,), (0.5,), 1.0)
    with pytest.raises(ConfigError, match="loads above 0"):
        saturation((-0.5,), (0.5,), 0.9)
