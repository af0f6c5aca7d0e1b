"""The fake that users test their agents with behaves like the service, and says what was wrong with its input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nws.base.errors import UsageError
from nws.forecasting.batteries import Pick
from nws.series import Measurement, Resource, Series
from nws.testing import InMemoryWeather
from tests.transcripts import recorded

ALPHA = Series(Resource.CPU_NEW, "alpha")
BETA = Series(Resource.CPU_NEW, "beta")
LINK = Series(Resource.LATENCY, "alpha", "beta")


@pytest.fixture
def weather():
    return InMemoryWeather()


def test_nothing_recorded_nothing_forecast(weather):
    assert weather.forecasts() == {}


def test_what_is_recorded_is_forecast(weather):
    weather.record(
        [Measurement(ALPHA, 0.0, 0.5), Measurement(LINK, 0.0, 1e-4), Measurement(ALPHA, 10.0, 0.5)]
    )
    forecasts = weather.forecasts()
    assert set(forecasts) == {ALPHA, LINK}
    assert forecasts[ALPHA].value == 0.5
    assert forecasts[ALPHA].measured_at == 10.0
    assert (forecasts[ALPHA].samples, forecasts[LINK].samples) == (2, 1)
    assert math.isnan(forecasts[LINK].mae)


def test_measurements_may_come_from_a_generator_or_not_at_all(weather):
    weather.record(Measurement(ALPHA, float(t), 1.0) for t in range(3))
    weather.record([])
    assert weather.forecasts()[ALPHA].samples == 3


def test_whole_history_equals_one_instant_after_another(weather):
    values = np.random.default_rng(2).random((40, 2))
    one_by_one = InMemoryWeather()
    pool = (ALPHA, BETA)
    weather.record_many(pool, np.arange(40.0), values)
    for t, row in enumerate(values):
        one_by_one.record_many(pool, float(t), row)
    for pick in Pick:
        assert weather.forecasts(pick) == one_by_one.forecasts(pick)


def test_series_recorded_later_borrows_from_others(weather):
    values = np.random.default_rng(5).normal(0.5, 0.01, 100)
    weather.record_many((ALPHA,), np.arange(100.0), values[:, None])
    weather.record_many((BETA, LINK), 100.0, [0.5, 0.5])
    found = weather.forecasts(now=100.0, over_s=[1.0])
    (borrowed,), (alone,) = found[BETA].outlooks, found[LINK].outlooks
    assert borrowed.high - borrowed.low < 0.5 * (alone.high - alone.low)


def test_list_that_changed_between_calls_is_read_anew(weather):
    pool = [ALPHA]
    weather.record_many(pool, 0.0, [1.0])
    pool[0] = BETA
    weather.record_many(pool, 1.0, [2.0])
    assert {s: f.value for s, f in weather.forecasts().items()} == {ALPHA: 1.0, BETA: 2.0}


def test_two_ways_of_recording_may_be_mixed(weather):
    pool = (ALPHA, BETA)
    weather.record_many(pool, 0.0, [1.0, 2.0])
    weather.record([Measurement(LINK, 0.5, 3.0), Measurement(BETA, 0.5, 2.0)])
    weather.record_many(pool, 1.0, [1.0, 2.0])
    assert {s: f.samples for s, f in weather.forecasts().items()} == {ALPHA: 2, BETA: 3, LINK: 1}


def test_value_that_is_no_number_is_refused_by_name_and_nothing_is_taken(weather):
    with pytest.raises(UsageError, match=r"network.latency@alpha>beta: nan is not a measurement"):
        weather.record([Measurement(ALPHA, 0.0, 1.0), Measurement(LINK, 0.0, math.nan)])
    with pytest.raises(UsageError, match=r"cpu.new@beta: inf is not a measurement"):
        weather.record_many((ALPHA, BETA), [0.0, 1.0], [[1.0, 2.0], [3.0, math.inf]])
    assert weather.forecasts() == {}


@recorded("nws/testing/shape_problems.txt", "t", "values")
def test_shapes_that_do_not_fit_are_told(weather, answered, t, values):
    with pytest.raises(UsageError, match="expected shape") as caught:
        weather.record_many((ALPHA, BETA), t, values)
    answered(str(caught.value))
