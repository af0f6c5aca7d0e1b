"""The battery's own answers: never charged from nothing, never far from the best method."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nws.forecasting.batteries import BatteryBank, Pick
from nws.forecasting.kernel import trace
from nws.forecasting.statelayout import MAE, METHODS, MSE, STATE

# How far above the best method the battery may end. Ten jumps make nearly all the error of `steps`: which
# method took them best is known only afterwards, and luck in part.
MARGIN = {"noise": 1.15, "walk": 1.15, "wave": 1.15, "spikes": 1.15, "autoregressive": 1.15, "steps": 1.4}


def make(kind, rng, n=400):
    noise = rng.standard_normal(n)
    if kind == "noise":
        return noise
    if kind == "walk":
        return np.cumsum(noise)
    if kind == "wave":
        return np.sin(np.arange(n) / rng.uniform(1, 5)) + 0.1 * noise
    if kind == "steps":
        return np.repeat(rng.standard_normal(n // 40), 40) + 0.05 * noise
    if kind == "spikes":
        return np.where(rng.random(n) < 0.1, 10.0, 0.0) + 0.1 * noise
    values = np.zeros(n)
    for i in range(1, n):
        values[i] = 0.8 * values[i - 1] + noise[i]
    return values


def battery_and_methods(values):
    """MAE of the MAE pick and MSE of the MSE pick, each beside the lowest of a single method."""
    predicted, answered = np.zeros((len(values), len(METHODS))), np.zeros((len(values), 2))
    trace.compiled(np.zeros(1, STATE), values, predicted, answered)
    methods = predicted[20:] - values[20:, None]
    own = answered[20:] - values[20:, None]
    mae = np.abs(own[:, 0]).mean(), np.abs(methods).mean(axis=0).min()
    mse = np.square(own[:, 1]).mean(), np.square(methods).mean(axis=0).min()
    return mae, mse


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(MARGIN)), st.integers(0, 2**32 - 1))
def test_battery_is_never_far_from_its_best_member(kind, seed):
    (mae, best_mae), (mse, best_mse) = battery_and_methods(make(kind, np.random.default_rng(seed)))
    assert mae <= MARGIN[kind] * best_mae
    assert math.sqrt(mse) <= MARGIN[kind] * math.sqrt(best_mse)


def test_first_value_is_charged_to_nobody(follow):
    # a battery that starts from an imagined 0 would be charged a million here
    first, second = follow([1e6, 1e6])
    for record in (first, second):
        assert not record["loss"].any()
        assert not record["fading_loss"].any()
        assert not record["answer_loss"].any()
        assert not record["error"].any()


def test_expected_error_is_unknown_after_one_value_and_the_mean_error_afterwards():
    battery = BatteryBank(1)
    battery.update(0, 5.0, t=0.0)
    assert math.isnan(battery.forecast(0).mae)
    assert math.isnan(battery.forecast(0).rmse)
    battery.update(0, 8.0, t=1.0)
    assert battery.forecast(0).mae == 3.0
    assert battery.forecast(0).rmse == 3.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=80), st.sampled_from(Pick))
def test_expected_errors_are_those_of_what_the_battery_answered(values, pick):
    battery, errors = BatteryBank(1), []
    for i, value in enumerate(values):
        if i > 0:
            errors.append(abs(battery.forecast(0, pick).value - value))
        battery.update(0, value, t=float(i))
    forecast = battery.forecast(0, pick)
    assert forecast.mae == pytest.approx(np.mean(errors), rel=1e-9, abs=1e-12)
    assert forecast.rmse == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-9, abs=1e-12)


def test_short_memories_follow_a_change_that_the_whole_history_hides(follow):
    rng = np.random.default_rng(1)
    before = rng.normal(0.0, 1.0, 2000)
    after = np.cumsum(rng.normal(0.0, 1.0, 60)) * 10
    chosen = follow([*before, *after])[-1]["chosen"]
    assert METHODS[chosen[0]] not in ("last", "exponential_0.75")
    assert METHODS[chosen[6]] in (
        "last",
        "exponential_0.75",
        "ar16",
        "ar16_100",
        "adaptive_mean",
        "adaptive_median",
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=80), st.integers(-20, 20))
def test_another_unit_gives_the_same_forecast_in_that_unit(values, exponent):
    scale = 2.0**exponent
    here, there = BatteryBank(1), BatteryBank(1)
    here.update_many([0] * len(values), values, range(len(values)))
    there.update_many([0] * len(values), [scale * v for v in values], range(len(values)))
    a, b = here.forecast(0), there.forecast(0)
    assert (b.value, b.mae, b.rmse, b.method) == (scale * a.value, scale * a.mae, scale * a.rmse, a.method)


def test_where_load_changes_in_steps_the_battery_leans_on_the_last_value(follow):
    # a walk is best met by its last value, and every other choice costs: the battery goes no more than part of the way
    walk = np.cumsum(np.random.default_rng(11).standard_normal(400))
    record = follow(walk)[-1]
    for kind in (MAE, MSE):
        assert abs(record["answer"][kind] - walk[-1]) <= abs(record["together"][kind] - walk[-1])
    (mae, _), (mse, _) = battery_and_methods(walk)
    steps = np.diff(walk)[19:]
    assert mae <= 1.05 * np.abs(steps).mean()
    assert mse <= 1.1 * np.square(steps).mean()


def test_where_the_last_value_is_a_bad_guess_the_battery_goes_all_the_way(follow):
    noise = np.random.default_rng(12).standard_normal(400)
    record = follow(noise)[-1]
    assert record["answer"][MSE] == pytest.approx(record["together"][MSE], abs=1e-3)
    assert record["answer"][MAE] == pytest.approx(record["together"][MAE], abs=1e-3)
