"""What each method is good for, told with a series that shows it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nws.forecasting.statelayout import (
    ADAPTIVE_MEAN,
    ADAPTIVE_MEDIAN,
    AUTOREGRESSION,
    METHODS,
    ORDER,
    PICKS,
    SELECTORS,
    SLIDING,
    STATE,
    TRIMMED,
    method_text,
)

TOP = len(SLIDING)


def expected(record, method):
    return float(record["predicted"][METHODS.index(method)])


def test_method_has_a_name_of_its_own():
    assert len(set(METHODS)) == len(METHODS)
    assert set(TRIMMED) <= set(SLIDING)
    assert len(METHODS) == STATE["predicted"].shape[0]
    assert METHODS[AUTOREGRESSION] == f"ar{ORDER}"


def test_text_of_a_forecast_names_the_method_and_what_selected_it():
    assert method_text(SELECTORS.index("mae/50"), METHODS.index("median_21")) == "median_21 (mae/50)"
    assert method_text(SELECTORS.index("mse/all"), METHODS.index("ar16")) == "ar16 (mse/all)"
    assert method_text(PICKS, 0) == "blend of all (mae)"


def test_constant_series_is_forecast_exactly_by_everybody(follow):
    final = follow([0.3] * 200)[-1]
    assert final["predicted"] == pytest.approx(np.full(len(METHODS), 0.3), rel=1e-15)
    assert final["answered"] == pytest.approx(np.full(len(SELECTORS), 0.3), rel=1e-15)


def test_median_and_a_trimmed_mean_ignore_an_outlier(follow):
    final = follow([1.0] * 20 + [1000.0])[-1]
    assert expected(final, "median_21") == 1.0
    assert expected(final, "trimmed_21") == 1.0
    assert expected(final, "mean_21") == pytest.approx(1020 / 21)
    assert expected(final, "last") == 1000.0


def test_autoregression_follows_a_wave_that_no_average_follows(follow):
    wave = [math.sin(2 * math.pi * i / 9) for i in range(600)]
    final = follow(wave)[-1]
    following = math.sin(2 * math.pi * 600 / 9)
    assert expected(final, "ar16") == pytest.approx(following, abs=0.03)
    assert abs(expected(final, "mean_21") - following) > 0.5


def test_autoregression_bears_a_level_far_above_the_spread(follow):
    # free memory: some 10 GB that vary by 1 kB
    wave = [1e10 + 1e3 * math.sin(2 * math.pi * i / 9) for i in range(600)]
    following = 1e10 + 1e3 * math.sin(2 * math.pi * 600 / 9)
    assert expected(follow(wave)[-1], "ar16") == pytest.approx(following, abs=50)


def test_faded_autoregression_forgets_a_dependence_that_turned_round(follow):
    shocks = np.random.default_rng(6).standard_normal(1000)
    values = [0.0]
    for i, shock in enumerate(shocks):
        values.append((0.9 if i < 500 else -0.9) * values[-1] + shock)
    expected_of_next = follow(values)["predicted"][800:-1]
    error = np.abs(expected_of_next - np.array(values)[801:, None]).mean(axis=0)
    assert error[METHODS.index("ar16_100")] < 0.9 * error[METHODS.index("ar16")]


def test_adaptive_windows_grow_on_noise_and_shrink_when_the_level_moves(follow):
    noise = list(np.random.default_rng(4).normal(10.0, 1.0, 400))
    ramp = [10.0 + 5.0 * i for i in range(1, 60)]
    records = follow(noise + ramp)
    grown, shrunk = records[399]["rung"], records[-1]["rung"]
    assert (grown >= TOP - 2).all()
    assert (shrunk == 0).all()
    for adaptive in (ADAPTIVE_MEAN, ADAPTIVE_MEDIAN):
        assert records[-1]["predicted"][adaptive] == ramp[-1]


def test_window_not_yet_full_takes_what_there_is(follow):
    final = follow([1.0, 2.0, 6.0])[-1]
    assert expected(final, "mean_51") == 3.0
    assert expected(final, "median_51") == 2.0
    assert expected(final, "trimmed_51") == 3.0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=100))
def test_nobody_predicts_what_lies_outside_everything_measured(follow, values):
    slack = 1e-12
    for i, record in enumerate(follow(values)):
        lowest, highest = min(values[: i + 1]), max(values[: i + 1])
        for expected_of_next in (record["predicted"], record["answered"]):
            assert expected_of_next.min() >= lowest - slack
            assert expected_of_next.max() <= highest + slack
