"""What `--explain` says of the weather: ages, and links measured, composed or only stated."""

import math
from dataclasses import replace

import numpy as np
import pytest

from apples.cli.report import attempt_lines, weather_lines
from apples.model.grid import Conditions, Estimate, Grid, Host, Snapshot
from apples.model.plan import Outcome, unplanned
from apples.model.snapshotdocument import snapshot_document
from apples.model.snapshots import from_forecasts
from nws.series import Forecast, Series
from tests.apples.samples import an_attempt

HOSTS = tuple(Host(name=f"h{k:02}", slots=1) for k in range(6))


def forecast(value, age_s):
    return Forecast(
        value=value, mae=0.0, rmse=0.01, method="mean_10", samples=9, measured_at=1000.0 - age_s, last=value
    )


@pytest.fixture
def explain():
    """Lines on the weather of forecasts (series → forecast, or value and age) and composed pairs."""

    def lines(hosts=HOSTS, through=None, **forecasts):
        known = {
            Series.parse(name): forecast(*what) if isinstance(what, tuple) else what
            for name, what in forecasts.items()
        }
        grid = Grid(name="g", hosts=hosts)
        snapshot = from_forecasts(grid, known, now=1000.0, source="a test", through=through)
        return weather_lines(snapshot)

    return lines


def test_host_is_told_with_the_age_of_its_forecast(explain):
    (_, measured, stated, *_) = explain(**{"cpu.new@h00": (0.5, 12.0)})
    assert measured == "    h00: 0.50 of a CPU ± 0.01 (mean_10, 9 samples, 12 s old), unknown free"
    assert stated == "    h01: 1.00 of a CPU ± 0.00 (nominal, 0 samples), unknown free"


def test_assumed_error_is_named_as_such(explain):
    once = replace(forecast(0.5, 12.0), rmse=math.nan, samples=1)
    (_, measured, *_) = explain(**{"cpu.new@h00": once})
    assert measured == "    h00: 0.50 of a CPU ± 0.50 assumed (mean_10, 1 sample, 12 s old), unknown free"


def test_links_that_nobody_measured_are_not_mentioned(explain):
    assert not any("links" in line for line in explain(**{"cpu.new@h00": (0.5, 12.0)}))


def test_composed_links_are_told_with_their_path(explain):
    lines = explain(
        hosts=HOSTS[:3],
        through={("h00", "h02"): ("h01",)},
        **{
            "network.latency@h00>h01": (1e-3, 5.0),
            "network.latency@h01>h02": (1e-3, 7.0),
            "network.latency@h00>h02": (2e-3, 7.0),
        },
    )
    assert lines[-2:] == [
        "    links: 2 measured, 1 composed, 3 nominal, the oldest 7 s old",
        "      h00 → h02 composed via h01, 7 s old",
    ]


def test_of_many_composed_links_some_are_told(explain):
    pairs = [(a.name, b.name) for a in HOSTS for b in HOSTS if a is not b]
    lines = explain(
        through=dict.fromkeys(pairs, ("x",)),
        **{f"network.latency@{a}>{b}": (1e-3 * (1 + k), 5.0) for k, (a, b) in enumerate(pairs)},
    )
    assert len([line for line in lines if "composed via x" in line]) == 10
    assert lines[-1] == "      and 20 more composed pairs"


def test_snapshot_that_keeps_no_ages_is_told_without():
    share = Estimate(value=1.0)
    snapshot = Snapshot(
        hosts=HOSTS[:1],
        conditions=(Conditions(availability=share, memory_bytes=share),),
        latency_s=np.ones((1, 1)),
        bandwidth_Bps=np.ones((1, 1)),
        latency_error_s=np.zeros((1, 1)),
        bandwidth_error_Bps=np.zeros((1, 1)),
    )
    assert "measured" not in snapshot_document(snapshot)["links"]


def attempt(number, hosts, ended="failed", first_iteration=0, iterations=100, lost=(), observed_s=5.0):
    plan = replace(unplanned(hosts, scheduler="apples", application="heat"), predicted_s=4.0)
    outcome = Outcome(ended=ended, exit_code=0, observed_s=observed_s, lost=dict(lost))
    return an_attempt(plan, outcome, number=number, first_iteration=first_iteration, iterations=iterations)


def test_attempt_lines_say_how_each_attempt_ended():
    lines = attempt_lines(
        [
            attempt(1, ["a1", "a2"], lost={"a2": "was lost: its connection ended"}),
            attempt(2, ["a1"], ended="adapted", first_iteration=40, iterations=60),
            attempt(3, ["a1"], ended="finished", first_iteration=70, iterations=30),
        ]
    )
    assert lines == [
        "           hosts  from  to iteration  predicted  observed",
        "attempt 1      2     0           100        4 s       5 s, failed: a2 was lost: its connection ended",
        "attempt 2      1    40           100        4 s       5 s, went on with another plan",
        "attempt 3      1    70           100        4 s       5 s, prediction 20.0% too short",
    ]
