"""Ranges of run times, calibrated by runs that have ended."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from apples.cli.toolbox import toolbox
from apples.costs.ranges import FEWEST, calibrate_range, coverage, judged_run
from apples.costs.store import new_id, open_history
from apples.model.plan import Outcome, Record
from tests.apples.samples import a_plan


def forecast(low_s=9.0, high_s=11.0):
    """A plan of 10 s within a range."""
    return a_plan(predicted_s=10.0, low_s=low_s, high_s=high_s)


def a_record(observed_s, plan=None, world="mpiexec", ended="finished"):
    return Record(
        id=f"r{observed_s}",
        started_at=0.0,
        world=world,
        key="heat",
        plan=plan or forecast(),
        outcome=Outcome(ended=ended, exit_code=0, observed_s=observed_s, statuses=()),
    )


def a_run(observed_s, plan=None):
    return judged_run(a_record(observed_s, plan))


def test_coverage_counts_runs_on_each_side():
    found = coverage([a_run(s) for s in (8.0, 9.5, 10.0, 12.0)])
    assert judged_run(a_record(10.0, ended="failed")) is None
    assert (found.judged, found.held, found.shorter, found.longer) == (4, 2, 1, 1)


def test_range_after_few_runs_is_that_of_forecasts():
    plan, few = forecast(), [a_run(20.0)] * (FEWEST - 1)
    assert calibrate_range(plan, few) == plan
    close = calibrate_range(replace(plan, low_s=9.9, high_s=10.1), few)
    assert (close.low_s, close.high_s) == (pytest.approx(10 / 1.05), pytest.approx(10.5))


def test_calibrated_ranges_hold_eight_of_ten_times():
    rng = np.random.default_rng(3)
    runs, held = [], 0
    for _ in range(600):
        plan = calibrate_range(forecast(), runs[-50:])
        observed = 11.0 * np.exp(0.3 * rng.standard_normal())
        held += plan.low_s <= observed <= plan.high_s
        runs.append(a_run(observed, plan))
    assert 0.75 < held / 600 < 0.88
    assert plan.by_forecasts == (9.0, 11.0)


@pytest.mark.parametrize("informative", [True, False])
def test_forecast_lengths_count_if_they_are_informative(informative):
    """Runs have errors of 0.05 or 0.4. Their forecasts give the same error, or one of the two by chance."""
    rng = np.random.default_rng(11)
    runs, held, widths = [], [], {0.05: [], 0.4: []}
    for _ in range(400):
        error, own = rng.choice([0.05, 0.4], 2)
        own = error if informative else own
        side = 1.2816 * own
        plan = calibrate_range(forecast(10.0 * np.exp(-side), 10.0 * np.exp(side)), runs[-50:])
        observed = 10.0 * np.exp(error * rng.standard_normal())
        held.append(plan.low_s <= observed <= plan.high_s)
        widths[own].append(np.log(plan.high_s / plan.low_s))
        runs.append(a_run(observed, plan))
    assert 0.75 < np.mean(held[50:]) < 0.88
    narrow, wide = (np.median(widths[own][25:]) for own in (0.05, 0.4))
    if informative:
        assert narrow < 0.25 < 0.8 < wide
    else:
        # The middle 80 % of all errors together.
        assert 0.5 < narrow <= wide < 1.2


def test_calibrated_expectation_is_that_of_the_runs():
    """Runs take a fifth longer than forecast, and a few far longer."""
    rng = np.random.default_rng(7)
    runs = []
    for k in range(60):
        plan = calibrate_range(forecast(), runs[-50:])
        runs.append(a_run(90.0 if k % 15 == 14 else 12.0 * np.exp(0.1 * rng.standard_normal()), plan))
    assert plan.predicted_s == pytest.approx(12.0, rel=0.08)
    assert plan.forecast_s == 10.0


@given(
    observed=st.lists(st.floats(0.1, 1000.0), min_size=FEWEST, max_size=60),
    low=st.floats(0.1, 1.0),
    high=st.floats(1.0, 10.0),
)
def test_calibrated_range_encloses_the_prediction(observed, low, high):
    plan = calibrate_range(forecast(10.0 * low, 10.0 * high), [a_run(s) for s in observed])
    assert 0 < plan.low_s <= plan.predicted_s <= plan.high_s


def test_calibration_of_calibrated_runs_starts_from_the_forecasts():
    rng = np.random.default_rng(5)
    plain = [10.0 * np.exp(0.2 * z) for z in rng.standard_normal(30)]
    plan = calibrate_range(forecast(), [a_run(s) for s in plain])
    again = [a_run(s, plan) for s in plain]
    assert calibrate_range(forecast(), again).high_s == pytest.approx(plan.high_s)


def test_coverage_of_the_history_is_printed_by_platform(tmp_path, monkeypatch):
    monkeypatch.setenv("APPLES_STATE", str(tmp_path))
    history = open_history(print)
    for k, (observed, world) in enumerate([(10.0, "mpiexec"), (20.0, "mpiexec"), (9.5, "mock")]):
        history.append(replace(a_record(observed, world=world), id=new_id(1.7e9 + k)))
    done = CliRunner().invoke(toolbox, ["history", "--coverage"])
    assert done.exit_code == 0
    _, mock, real = done.stdout.splitlines()
    assert mock.split() == ["mock", "idle", "1", "100%", "0", "0", "5.3%"]
    assert real.split() == ["mpiexec", "idle", "2", "50%", "0", "1", "50.0%"]
    (one, two) = json.loads(CliRunner().invoke(toolbox, ["history", "--coverage", "--json"]).stdout)[
        "coverage"
    ]
    assert (one["world"], one["held"], two["world"], two["longer"]) == ("mock", 1, "mpiexec", 1)
