"""What sensors show of the truth: averages up to now, and nothing of what comes."""

from dataclasses import replace

import numpy as np
import pytest

from apples.simulation.mock_sensors import MockSensors
from nws.series import Resource, Series


def readings(grid, until, *, since=0.0, seed=1):
    return list(MockSensors(grid, np.random.default_rng(seed), since=since).read(until))


def series_of(found, series):
    return {r.t: r.values[r.series.index(series)] for r in found if series in r.series}


def test_readings_average_the_share_of_a_new_process(quiet_grid, competitors):
    grid = quiet_grid(2)
    competitors(grid, 0, 1, 15.0, 35.0)
    seen = series_of(readings(grid, 50.0), Series(Resource.CPU_NEW, "h0"))
    assert seen == pytest.approx({10.0: 1.0, 20.0: 0.75, 30.0: 0.5, 40.0: 0.75, 50.0: 1.0})


def test_free_memory_is_what_others_leave(quiet_grid, competitors):
    grid = quiet_grid(1)
    competitors(grid, 0, 2, 15.0, 25.0, memory=30e6)
    seen = series_of(readings(grid, 30.0), Series(Resource.MEMORY_FREE, "h0"))
    assert seen == pytest.approx({10.0: 80e6, 20.0: 50e6, 30.0: 80e6})


def test_capacity_counts_the_slots(quiet_grid):
    grid = quiet_grid(1, cpu_type="two", slots=2)
    assert series_of(readings(grid, 10.0), Series(Resource.CPU_CAPACITY, "h0")) == pytest.approx({10.0: 2.0})


def test_ordered_pair_is_probed_at_its_own_period(quiet_grid):
    grid = quiet_grid(3)
    network = [r for r in readings(grid, 130.0) if r.series[0].resource is Resource.LATENCY]
    assert [r.t for r in network] == [60.0, 120.0]
    assert len(network[0].series) == 12
    assert network[0].values[:6] == pytest.approx([0.001] * 6)
    assert network[0].values[6:] == pytest.approx([1e6] * 6)


def test_asking_twice_goes_on_where_it_stopped(quiet_grid):
    sensors = MockSensors(quiet_grid(2), np.random.default_rng(1), since=0.0)
    first, second = list(sensors.read(25.0)), list(sensors.read(60.0))
    assert [r.t for r in first] == [10.0, 20.0]
    assert [r.t for r in second] == [30.0, 40.0, 50.0, 60.0, 60.0]
    assert list(sensors.read(60.0)) == []


def test_dead_host_is_silent(quiet_grid):
    grid = quiet_grid(3)
    grid.fail_host("h1", 15.0)
    found = readings(grid, 60.0)
    assert list(series_of(found, Series(Resource.CPU_NEW, "h1"))) == [10.0]
    pairs = next(r for r in found if r.series[0].resource is Resource.LATENCY)
    assert {s.host for s in pairs.series} == {"h0", "h2"}
    assert len(pairs.values) == len(pairs.series) == 4


def test_readings_do_not_depend_on_what_happens_later(quiet_grid, competitors):
    calm, stormy = quiet_grid(1), quiet_grid(1)
    competitors(stormy, 0, 5, 30.0, 90.0)
    for mine, other in zip(readings(calm, 30.0), readings(stormy, 30.0), strict=True):
        assert np.array_equal(mine.values, other.values)


def test_noise_stays_within_what_can_be(quiet, quiet_grid):
    grid = quiet_grid(1, replace(quiet, sensors=replace(quiet.sensors, cpu_error=0.5)))
    seen = list(series_of(readings(grid, 5000.0), Series(Resource.CPU_NEW, "h0")).values())
    assert min(seen) >= 0.0
    assert max(seen) == 1.0
    assert len(set(seen)) > 10


def test_round_as_measurements(quiet_grid):
    measured = readings(quiet_grid(1), 10.0)[0].measurements()
    assert next((m.series, m.t, m.value) for m in measured) == (Series(Resource.CPU_NEW, "h0"), 10.0, 1.0)
