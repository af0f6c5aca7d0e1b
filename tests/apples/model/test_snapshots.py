"""Forecasts into a snapshot: nominal values where nobody measured, never an impossible one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apples.model.grid import Grid, Host, LinkRule
from apples.model.snapshots import TimeShares, from_forecasts, unmeasured, with_time_shares
from nws.series import Forecast, Resource, Series

GRID = Grid(
    name="pair",
    hosts=(Host(name="a", slots=2), Host(name="b", memory_bytes=4e9)),
    links=(LinkRule(latency_s=1e-3, bandwidth_Bps=1e6),),
)
A, B = (Series(Resource.CPU_NEW, name) for name in "ab")
A_TO_B = Series(Resource.LATENCY, "a", "b")


def forecast(value, rmse=0.25, measured_at=90.0):
    return Forecast(
        last=value, value=value, mae=0.1, rmse=rmse, method="mean_10", samples=7, measured_at=measured_at
    )


def snapshot_of(**forecasts):
    by_name = {Series.parse(name): value for name, value in forecasts.items()}
    return from_forecasts(GRID, by_name, now=100.0, source="a test")


def test_a_forecast_becomes_an_estimate_with_all_that_is_known_of_it():
    snapshot = snapshot_of(**{"cpu.new@a": forecast(0.5)})
    estimate = snapshot.conditions[0].availability
    assert (estimate.value, estimate.error, estimate.method) == (0.5, 0.25, "mean_10")
    assert (estimate.samples, estimate.age_s) == (7, 10.0)
    assert (snapshot.source, snapshot.taken_at) == ("a test", 100.0)


def test_what_nobody_measured_is_nominal():
    snapshot = snapshot_of(**{"cpu.new@a": forecast(0.5)})
    a, b = snapshot.conditions
    assert (b.availability.value, b.availability.method, b.memory_bytes.value) == (1.0, "nominal", 4e9)
    assert a.memory_bytes.value == math.inf
    assert a.capacity.value == 2.0
    assert snapshot.latency_s[0, 1] == 1e-3
    assert unmeasured(snapshot) == ("b",)


def test_pairs_are_filled_in_one_direction_only():
    snapshot = snapshot_of(
        **{"network.latency@a>b": forecast(5e-3), "network.bandwidth@a>b": forecast(2e6, rmse=1e5)}
    )
    assert (snapshot.latency_s[0, 1], snapshot.latency_s[1, 0]) == (5e-3, 1e-3)
    assert (snapshot.bandwidth_Bps[0, 1], snapshot.bandwidth_error_Bps[0, 1]) == (2e6, 1e5)
    assert snapshot.latency_error_s[1, 0] == 0.0


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_a_link_forecast_that_cannot_be_is_not_used(value):
    assert snapshot_of(**{"network.latency@a>b": forecast(value)}).latency_s[0, 1] == 1e-3


@pytest.mark.parametrize("name", ["cpu.new@z", "network.latency@a>z", "network.latency@z>a"])
def test_hosts_outside_the_grid_are_nobody(name):
    assert unmeasured(snapshot_of(**{name: forecast(0.5)})) == ("a", "b")


def test_a_forecast_that_is_no_number_counts_as_none():
    assert unmeasured(snapshot_of(**{"cpu.new@a": forecast(math.nan)})) == ("a", "b")


def test_a_series_seen_once_has_no_error_yet():
    assert snapshot_of(**{"cpu.new@a": forecast(0.5, rmse=math.nan)}).conditions[0].availability.error == 0.0


def test_a_measurement_from_the_future_has_no_negative_age():
    found = snapshot_of(**{"cpu.new@a": forecast(0.5, measured_at=200.0)}).conditions[0].availability
    assert found.age_s == 0.0


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_whatever_a_forecaster_says_stays_possible(value):
    snapshot = snapshot_of(
        **{f"{resource}@a": forecast(value) for resource in ("cpu.new", "cpu.capacity", "memory.free")}
    )
    conditions = snapshot.conditions[0]
    assert 0.0 <= conditions.availability.value <= 1.0
    assert 0.0 <= conditions.capacity.value <= 2.0
    assert conditions.memory_bytes.value >= 0.0


class TestTurns:
    """A host that gives turns away gives a new job one of k + 1, whatever its sensor sees of the one that runs."""

    @pytest.mark.parametrize(("seen", "got"), [(0.9, 0.25), (0.5, 0.25), (0.1, 0.1)])
    def test_the_smaller_of_turn_and_measurement_counts(self, seen, got):
        snapshot = snapshot_of(**{"cpu.new@a": forecast(seen)})
        shared = with_time_shares(snapshot, TimeShares(here=3, node="n"), "a")
        assert shared.conditions[0].availability.value == got
        assert shared.conditions[0].capacity.value <= 2 * 0.25
        assert shared.conditions[1] == snapshot.conditions[1]
        assert shared.notes[-1] == "a gives 3 turns away already: the run gets one more, of the same length"

    def test_who_is_alone_once_it_is_its_turn_has_it_all(self):
        snapshot = snapshot_of(**{"cpu.new@a": forecast(0.5)})
        shared = with_time_shares(snapshot, TimeShares(here=1, node="n", exclusive=True), "a")
        assert shared.conditions[0].availability.value == 1.0
        assert shared.notes[-1] == "a gives 1 turn away already: the run waits for them, and is alone then"

    def test_other_hosts_count_by_their_names(self):
        snapshot = snapshot_of(**{"cpu.new@b": forecast(0.9)})
        shared = with_time_shares(snapshot, TimeShares(here=0, node="n", held={"b": 1}), None)
        assert shared.conditions[1].availability.value == 0.5

    def test_where_nobody_takes_turns_nothing_changes(self):
        snapshot = snapshot_of(**{"cpu.new@a": forecast(0.5)})
        assert with_time_shares(snapshot, TimeShares(here=0, node="n"), "a") is snapshot
