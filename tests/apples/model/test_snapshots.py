"""Forecasts into a snapshot: nominal values where nobody measured, never an impossible one."""

import math

import pytest
from hypothesis import given, strategies as st

from apples.model.grid import Grid, Host, LinkRule, Snapshot
from apples.model.snapshots import TimeShares, from_forecasts, unmeasured, with_composed, with_time_shares
from apples.model.template import Costs, Workload
from apples.planning.planner import make_plan
from nws.links.composition import Link
from nws.links.linkmatrix import compose_all
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


def test_forecast_becomes_an_estimate_with_all_that_is_known_of_it():
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
def test_link_forecast_that_cannot_be_is_not_used(value):
    assert snapshot_of(**{"network.latency@a>b": forecast(value)}).latency_s[0, 1] == 1e-3


@pytest.mark.parametrize("name", ["cpu.new@z", "network.latency@a>z", "network.latency@z>a"])
def test_hosts_outside_the_grid_are_nobody(name):
    assert unmeasured(snapshot_of(**{name: forecast(0.5)})) == ("a", "b")


def test_forecast_that_is_no_number_counts_as_none():
    assert unmeasured(snapshot_of(**{"cpu.new@a": forecast(math.nan)})) == ("a", "b")


def test_unknown_error_is_as_large_as_the_value_if_none_is_known():
    found = snapshot_of(**{"cpu.new@a": forecast(0.5, rmse=math.nan)})
    assert (found.conditions[0].availability.error, found.conditions[0].availability.assumed) == (0.5, True)
    assert found.notes == (
        "a: after few readings the error of the CPU share is unknown; 100% of the share is assumed, "
        "as no error is known, so the range is wide",
    )
    assert snapshot_of(**{"cpu.new@a": forecast(0.5)}).notes == ()


@pytest.mark.parametrize("others", [1, 3, 100])
def test_unknown_error_is_broader_than_those_of_the_others(others):
    known = {Series(Resource.CPU_NEW, f"h{i}"): forecast(0.5, rmse=0.01 * (1 + i % 2)) for i in range(others)}
    unknown = {A: forecast(0.8, rmse=math.nan), B: forecast(0.4, rmse=math.nan)}
    a, b = from_forecasts(GRID, known | unknown, now=100.0, source="a test").conditions
    assert a.availability.error == pytest.approx(2 * b.availability.error)
    # the mean of the others is 0.02 or 0.03 of the value
    assert (
        {1: 0.08, 3: 0.05, 100: 0.035}[others]
        < a.availability.error / 0.8
        < {1: 0.2, 3: 0.08, 100: 0.05}[others]
    )


def test_idle_hosts_without_error_make_no_unknown_error_zero():
    found = snapshot_of(**{"cpu.new@a": forecast(0.8, rmse=math.nan), "cpu.new@b": forecast(1.0, rmse=0.0)})
    assert found.conditions[0].availability.error == 0.8


def test_unknown_error_of_memory_never_takes_all_of_it():
    alone = snapshot_of(**{"memory.free@a": forecast(8e9, rmse=math.nan)}).conditions[0].memory_bytes
    assert math.isnan(alone.error)
    both = snapshot_of(
        **{"memory.free@a": forecast(8e9, rmse=math.nan), "memory.free@b": forecast(4e9, rmse=4e7)}
    )
    assert 8e7 < both.conditions[0].memory_bytes.error < 4e9


def test_unknown_errors_of_links_are_assumed_by_resource():
    found = snapshot_of(
        **{
            "network.latency@a>b": forecast(5e-3, rmse=math.nan),
            "network.latency@b>a": forecast(4e-3, rmse=4e-5),
            "network.bandwidth@a>b": forecast(2e6, rmse=math.nan),
        }
    )
    assert 5e-5 < found.latency_error_s[0, 1] < 2e-3
    assert found.bandwidth_error_Bps[0, 1] == 2e6
    assert found.latency_error_s[1, 0] == 4e-5
    (note,) = found.notes
    assert note.startswith("1 link: after few measurements errors are unknown; ")
    assert note.endswith(" of the latency and 100% of the bandwidth are assumed, so the range is wide")


def test_composed_pair_with_an_unknown_part_has_an_error():
    hosts = tuple(Host(name=name) for name in "abc")
    links = {
        ("a", "b"): Link(
            latency_s=2e-3,
            latency_error_s=math.nan,
            bandwidth_Bps=2e6,
            bandwidth_error_Bps=math.nan,
            measured_at=90.0,
        ),
        ("b", "c"): Link(
            latency_s=1e-3, latency_error_s=1e-4, bandwidth_Bps=4e6, bandwidth_error_Bps=4e5, measured_at=90.0
        ),
        ("c", "b"): Link(
            latency_s=1e-3, latency_error_s=1e-4, bandwidth_Bps=4e6, bandwidth_error_Bps=4e5, measured_at=90.0
        ),
    }
    nominal = Snapshot.nominal(Grid(name="three", hosts=hosts))
    found = with_composed(nominal, compose_all("abc", links), {name: name for name in "abc"}, now=100.0)
    assert found.latency_s[0, 2] == pytest.approx(3e-3)
    assert 3e-4 < found.latency_error_s[0, 2] < 3e-3
    assert 2e5 < found.bandwidth_error_Bps[0, 2] < 2e6


def test_unknown_error_widens_the_range_of_a_plan():
    work = Workload(application="t", size=100)
    ranges = []
    for rmse in (0.01, math.nan):
        snapshot = snapshot_of(
            **{"cpu.new@a": forecast(0.5, rmse=rmse), "cpu.new@b": forecast(0.5, rmse=0.01)}
        )
        plan = make_plan(snapshot, work, Costs(seconds_per_row={"default": {1: 1.0, 2: 1.0}}))
        ranges.append(plan.high_s - plan.low_s)
    assert ranges[1] > 2 * ranges[0] > 0


def test_measurement_from_the_future_has_no_negative_age():
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


def test_quota_counts_while_it_is_measured():
    def limited(t):
        forecasts = {
            "cpu.new@a": forecast(0.5, measured_at=1000.0),
            "cpu.limit@a": forecast(0.5, measured_at=t),
        }
        return snapshot_of(**forecasts).conditions[0]

    assert limited(1000.0).presence(0.5, 1) == 1.0
    assert limited(1000.0).presence(0.25, 2) == 1.0
    assert limited(1000.0).presence(0.25, 1) == 0.5
    # It was lifted; another process now leaves the same share.
    assert limited(100.0).presence(0.5, 1) == 0.5


class TestTurns:
    """A host that gives turns away gives a new job one of k + 1, whatever its sensor sees of the one that runs."""

    @pytest.mark.parametrize(("seen", "got"), [(0.9, 0.25), (0.5, 0.25), (0.1, 0.1)])
    def test_smaller_of_turn_and_measurement_counts(self, seen, got):
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
