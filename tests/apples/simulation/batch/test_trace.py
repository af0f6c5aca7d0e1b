"""Traces: months, machines, loads."""

import numpy as np
import pytest

from apples.errors import ConfigError


def test_what_does_not_fit_the_machine_is_counted(trace):
    jobs = trace((0, 1, 4, 1), (1, 1, 9, 1)).fitting(8)
    assert jobs.procs.tolist() == [4]
    assert jobs.processors == 8
    assert jobs.intake.report() == ["left out, wider than the machine of 8 processors: 1"]
    assert trace((0, 1, 4, 1)).fitting(8).intake.report() == []


def test_months_begin_with_the_first_job(trace):
    day = 86400
    jobs = trace((day, 1, 1, 1), (30 * day, 1, 1, 1), (31 * day, 1, 1, 1), (95 * day, 1, 1, 1))
    assert [np.flatnonzero(jobs.in_month(number)).tolist() for number in range(4)] == [[0, 1], [2], [], [3]]


def test_load_is_reached_by_stretching_arrivals(trace):
    jobs = trace((100, 10, 4, 10), (105, 10, 4, 10), (110, 10, 8, 10))
    assert jobs.offered_load(8) == pytest.approx(160 / 80)
    thinner = jobs.stretched(4)
    assert thinner.submit.tolist() == [100, 120, 140]
    assert thinner.offered_load(8) == pytest.approx(0.5)
    assert np.isnan(thinner.wait).all()
    assert trace((0, 1, 1, 1)).offered_load(8) == float("inf")
    with pytest.raises(ConfigError, match="a factor above 0 is legal"):
        jobs.stretched(0)


def test_jobs_are_killed_at_their_request(trace):
    assert trace((0, 10, 1, 7), (0, 5, 1, 7)).killed_at_request().run.tolist() == [7, 5]
