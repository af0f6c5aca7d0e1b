"""One location service and P ranks that each look up P objects: a queue whose length nobody wrote down."""

from dataclasses import replace

import numpy as np
import pytest

from apples.simulation.execution import peers_located, processes_started


def located(truth, ranks, round_trip_s=0.0):
    started = np.zeros(ranks)
    return peers_located(truth, started, np.full(ranks, round_trip_s), np.random.default_rng(1)).max()


@pytest.mark.parametrize("ranks", [2, 5, 16])
def test_busy_service_takes_one_service_time_for_every_pair(quiet, ranks):
    assert located(quiet.startup, ranks) == pytest.approx(0.1 * ranks**2, rel=1e-3)


def test_with_far_fewer_questions_than_time_the_round_trips_count(quiet):
    assert located(quiet.startup, 2, round_trip_s=10.0) == pytest.approx(2 * 10.1 + 0.1, rel=1e-3)


def test_late_rank_does_not_hold_up_the_others(quiet):
    started = np.array([0.0, 0.0, 1000.0])
    done = peers_located(quiet.startup, started, np.zeros(3), np.random.default_rng(1))
    assert done[:2].max() == pytest.approx(0.6, rel=1e-3)
    assert done[2] == pytest.approx(1000.3, rel=1e-3)


def test_random_service_times_keep_their_mean(quiet):
    truth = replace(quiet.startup, lookup_spread=0.5)
    assert located(truth, 40) == pytest.approx(160, rel=0.05)


def test_without_a_service_only_the_network_counts(quiet):
    truth = replace(quiet.startup, lookup_s=0.0)
    assert located(truth, 4, round_trip_s=0.5) == pytest.approx(2.0)


def test_loaded_host_starts_later_by_the_computing_part(quiet):
    started = processes_started(
        quiet.startup,
        5.0,
        (np.full(2, quiet.startup.start_cpu_s), np.array([1.0, 0.25])),
        np.random.default_rng(1),
    )
    assert started.tolist() == [7.0, 10.0]
