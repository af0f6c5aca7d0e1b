"""Figures of a schedule, worked out by hand."""

import numpy as np
import pytest

from apples.queueing.metrics import FinishedJobs, accuracy, judge, measure, weighted_wait


def outcome(**columns):
    plain = {
        "submit": [0, 0, 10],
        "start": [0, 100, 110],
        "run": [100, 10, 1],
        "request": [200, 100, 10],
        "procs": [4, 2, 1],
        "estimate": [200, 100, 10],
        "backfilled": [False, True, False],
    }
    return FinishedJobs(**{name: np.array(value) for name, value in {**plain, **columns}.items()})


def test_waits_and_slowdowns():
    found = measure(outcome(), processors=4, priority="fcfs")
    assert found.jobs == 3
    assert (found.wait.mean, found.wait.median) == (pytest.approx(200 / 3), 100)
    assert found.response.median == 101
    assert found.slowdown.mean == pytest.approx((1 + 11 + 101) / 3)
    assert found.bounded_slowdown.mean == pytest.approx((1 + 11 + 10.1) / 3)
    assert found.utilisation == pytest.approx(421 / (111 * 4))
    assert found.backfilled == pytest.approx(1 / 3)


def test_weighted_wait_is_equation_4():
    fcfs = measure(outcome(), processors=4, priority="fcfs")
    assert (fcfs.weighted_wait, fcfs.weighted_by) == (100.0, "wait")
    wfp = measure(outcome(start=[0, 50, 110]), processors=4, priority="wfp")
    weights = [0.5**3 * 2, 10.0**3]
    assert wfp.weighted_wait == pytest.approx((50 * weights[0] + 100 * weights[1]) / sum(weights))
    assert wfp.weighted_by == "wfp"
    assert weighted_wait(np.zeros(3), np.zeros(3)) == 0.0


def test_accuracy_is_equation_3():
    assert list(accuracy(np.array([10.0, 5, 20, 0]), np.array([10.0, 10, 10, 0]))) == [1, 0.5, 0.5, 1]


def test_shares_of_adjustment():
    """Not adjusted, over, under, and 30 min or more under."""
    request = np.full(5, 10_000.0)
    run = np.array([5000.0, 5000, 5000, 5000, 20_000])
    estimate = np.array([10_000.0, 6000, 4000, 3000, 10_000])
    found = judge(estimate, run, request)
    assert (found.not_adjusted, found.over, found.under, found.bad) == (0.4, 0.2, 0.2, 0.2)
    assert found.accuracy.mean == pytest.approx((0.5 + 5 / 6 + 0.8 + 0.6 + 1) / 5)


def test_run_of_no_time_and_a_machine_of_no_span():
    found = measure(outcome(submit=[0, 0, 0], start=[0, 0, 0], run=[0, 0, 0]), processors=4, priority="fcfs")
    assert (found.slowdown.mean, found.bounded_slowdown.mean, found.utilisation) == (1, 1, 0)
