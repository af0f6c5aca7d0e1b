"""Forecasts into a snapshot: nominal values where nobody measured, never an impossible one."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from apples.model.grid import Grid, Host, LinkRule, Snapshot
from apples.model.snapshots import TimeShares, from_forecasts, unmeasured, with_composed, with_time_shares
from apples.model.template import Costs, Workload
from apples.planning.planner import make_plan
from nws.links.composition import Link
from nws.links.linkmatrix import compose_all
from nws.series import Forecast, Series
from tests.transcripts import recorded

GRID = Grid(
    name="pair",
    hosts=(Host(name="a", slots=2), Host(name="b", memory_bytes=4e9)),
    links=(LinkRule(latency_s=1e-3, bandwidth_Bps=1e6),),
)


def snapshot_of(**forecasts):
    """A snapshot at 100 s of the pair. A forecast is a value, or [value, rmse] or [value, rmse, measured at]."""
    by_name = {}
    for name, given_ in forecasts.items():
        value, rmse, at = (*np.atleast_1d(given_), *(0.25, 90.0)[np.size(given_) - 1 :])
        by_name[Series.parse(name)] = Forecast(
            last=value, value=value, mae=0.1, rmse=rmse, method="mean_10", samples=7, measured_at=at
        )
    return from_forecasts(GRID, by_name, now=100.0, source="a test")


def lines_of(snapshot):
    for host, found in zip(snapshot.hosts, snapshot.conditions, strict=True):
        for what in ("availability", "capacity", "memory_bytes"):
            estimate = getattr(found, what)
            known = f"{estimate.value:.6g} +- {estimate.error:.6g}, {estimate.method}"
            assumed = ", error assumed" if estimate.assumed else ""
            yield f"{host.name} {what}: {known}, {estimate.samples} samples, {estimate.age_s:g} s old{assumed}"
        presence = (found.presence(share, ranks) for share, ranks in ((0.5, 1), (0.25, 2), (0.25, 1)))
        yield f"{host.name} is there: {', '.join(f'{share:.4g}' for share in presence)} of the time"
    latency, bandwidth = np.asarray(snapshot.latency_s), np.asarray(snapshot.bandwidth_Bps)
    late, wide = np.asarray(snapshot.latency_error_s), np.asarray(snapshot.bandwidth_error_Bps)
    for i, j in ((0, 1), (1, 0)):
        delay = f"{latency[i, j]:.4g} +- {late[i, j]:.4g} s"
        yield f"{'ab'[i]} to {'ab'[j]}: {delay}, {bandwidth[i, j]:.4g} +- {wide[i, j]:.4g} B/s"
    yield f"{snapshot.source} at {snapshot.taken_at:g} s; unmeasured: {unmeasured(snapshot)}"
    yield from snapshot.notes


@recorded("apples/model/snapshots.txt", "why", "forecasts", "turns")
def test_snapshot_of_forecasts_is_as_recorded(answered, why, forecasts, turns):
    snapshot = snapshot_of(**forecasts)
    if turns:
        shared = with_time_shares(snapshot, TimeShares(node="n", **turns), "a")
        assert turns.get("here") or turns.get("held") or shared is snapshot
        snapshot = shared
    answered(list(lines_of(snapshot)))


@pytest.mark.parametrize("others", [1, 3, 100])
def test_unknown_error_is_broader_than_those_of_the_others(others):
    known = {f"cpu.new@h{i}": [0.5, 0.01 * (1 + i % 2)] for i in range(others)}
    unknown = {"cpu.new@a": [0.8, math.nan], "cpu.new@b": [0.4, math.nan]}
    a, b = snapshot_of(**known, **unknown).conditions
    assert a.availability.error == pytest.approx(2 * b.availability.error)
    # the mean of the others is 0.02 or 0.03 of the value
    low, high = {1: (0.08, 0.2), 3: (0.05, 0.08), 100: (0.035, 0.05)}[others]
    assert low < a.availability.error / 0.8 < high


def test_composed_pair_with_an_unknown_part_has_an_error():
    known = Link(
        latency_s=1e-3, latency_error_s=1e-4, bandwidth_Bps=4e6, bandwidth_error_Bps=4e5, measured_at=90.0
    )
    unknown = Link(
        latency_s=2e-3,
        latency_error_s=math.nan,
        bandwidth_Bps=2e6,
        bandwidth_error_Bps=math.nan,
        measured_at=90.0,
    )
    links = {("a", "b"): unknown, ("b", "c"): known, ("c", "b"): known}
    nominal = Snapshot.nominal(Grid(name="three", hosts=tuple(Host(name=name) for name in "abc")))
    found = with_composed(nominal, compose_all("abc", links), {name: name for name in "abc"}, now=100.0)
    assert found.latency_s[0, 2] == pytest.approx(3e-3)
    assert 3e-4 < found.latency_error_s[0, 2] < 3e-3
    assert 2e5 < found.bandwidth_error_Bps[0, 2] < 2e6


def test_unknown_error_widens_the_range_of_a_plan():
    work = Workload(application="t", size=100)
    ranges = []
    for rmse in (0.01, math.nan):
        snapshot = snapshot_of(**{"cpu.new@a": [0.5, rmse], "cpu.new@b": [0.5, 0.01]})
        plan = make_plan(snapshot, work, Costs(seconds_per_row={"default": {1: 1.0, 2: 1.0}}))
        ranges.append(plan.high_s - plan.low_s)
    assert ranges[1] > 2 * ranges[0] > 0


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_whatever_a_forecaster_says_stays_possible(value):
    snapshot = snapshot_of(
        **{f"{resource}@a": value for resource in ("cpu.new", "cpu.capacity", "memory.free")}
    )
    conditions = snapshot.conditions[0]
    assert 0.0 <= conditions.availability.value <= 1.0
    assert 0.0 <= conditions.capacity.value <= 2.0
    assert conditions.memory_bytes.value >= 0.0
