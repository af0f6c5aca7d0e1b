"""Outlooks between the last reading and the others, by the time for which shares last."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from apples.platforms.hostreadings import lasting_s, persisting
from nws.series import SCORES, Forecast, Outlook

SHARE = st.floats(0.02, 1.0)


def forecast(last, outlooks=(), measured_at=0.0):
    return Forecast(
        value=0.3,
        mae=0.1,
        rmse=0.1,
        method="m",
        samples=9,
        measured_at=measured_at,
        last=last,
        outlooks=tuple(outlooks),
    )


def outlook(over_s=10.0, middle=0.3, spread=0.4, variation=0.5):
    quantiles = tuple(middle * math.exp(spread * score) for score in SCORES)
    return Outlook(over_s=over_s, mean=middle, quantiles=quantiles, variation=variation)


@given(last=SHARE, middle=SHARE, spread=st.floats(0.0, 1.0), lasts=st.floats(1.0, 1e4), age=st.floats(0, 1e4))
def test_outlooks_lie_between_the_last_reading_and_the_others(last, middle, spread, lasts, age):
    before = outlook(middle=middle, spread=spread)
    (after,) = persisting(forecast(last, [before]), lasts, now=age).outlooks
    low, high = sorted((last, middle))
    assert low * (1 - 1e-9) <= after.median <= high * (1 + 1e-9)
    assert list(after.quantiles) == sorted(after.quantiles)
    ratios = [q.quantiles[-1] / q.quantiles[0] for q in (after, before)]
    assert ratios[0] <= ratios[1] * (1 + 1e-9)
    assert 0.0 <= after.variation <= before.variation


def test_short_runs_count_on_the_last_reading_and_long_ones_on_the_others():
    spans = (10.0, 100.0, 1000.0, 86_400.0)
    found = persisting(forecast(0.9, [outlook(over_s) for over_s in spans]), 100.0, now=0.0)
    medians = [one.median for one in found.outlooks]
    assert medians == sorted(medians, reverse=True)
    assert medians[0] > 0.85
    assert medians[-1] == pytest.approx(0.3, rel=0.01)
    assert found.outlooks[-1].quantiles == pytest.approx(outlook().quantiles, rel=0.02)
    assert found.outlooks[0].variation < 0.2 < found.outlooks[-1].variation


def test_old_reading_says_nothing():
    found = persisting(forecast(0.9, [outlook()]), 100.0, now=5000.0)
    assert found.outlooks[0].quantiles == pytest.approx(outlook().quantiles)


def test_distribution_is_that_of_the_mean_of_such_a_process():
    """A logarithm of the share with an exponential autocorrelation, drawn given its first value."""
    rng = np.random.default_rng(3)
    lasts_s, span_s, step_s, spread, middle, last = 20.0, 10.0, 0.1, 0.3, 0.4, 0.6
    keep = math.exp(-step_s / lasts_s)
    at = np.full(20_000, math.log(last / middle))
    total = np.zeros_like(at)
    for _ in range(round(span_s / step_s)):
        at = keep * at + spread * math.sqrt(1 - keep**2) * rng.standard_normal(len(at))
        total += at * step_s / span_s
    # the outlook is that of the mean over the span with nothing known of its start
    variance = 2 * (span_s / lasts_s + math.expm1(-span_s / lasts_s)) / (span_s / lasts_s) ** 2
    before = outlook(span_s, middle, spread * math.sqrt(variance))
    (after,) = persisting(forecast(last, [before]), lasts_s, now=0.0).outlooks
    drawn = middle * np.exp(np.quantile(total, [0.1, 0.5, 0.9]))
    assert [after.low, after.median, after.high] == pytest.approx(drawn, rel=0.02)


def test_time_for_which_shares_last():
    rng = np.random.default_rng(4)
    times = np.arange(4000) * 30.0
    keep, noise = math.exp(-30.0 / 60.0), rng.standard_normal(len(times))
    logs = np.zeros(len(times))
    for k in range(1, len(times)):
        logs[k] = keep * logs[k - 1] + math.sqrt(1 - keep**2) * noise[k]
    assert lasting_s(times, 0.4 * np.exp(0.2 * logs)) == pytest.approx(60.0, rel=0.15)
    # of values without correlation they last half the time between readings, of constant ones many times that
    assert lasting_s(times, 0.4 * np.exp(0.2 * noise)) == pytest.approx(15.0)
    assert lasting_s(times, np.full(len(times), 0.5)) == pytest.approx(1500.0)
    # two readings for one run count as one, and too few say nothing
    twice = np.sort(np.concatenate((times, times + 3.0)))
    assert lasting_s(twice, np.repeat(0.4 * np.exp(0.2 * noise), 2)) == pytest.approx(15.0)
    assert lasting_s([0.0, 3.0, 40.0], [0.5, 0.4, 0.3]) == 0.0


def test_no_share_is_larger_than_a_cpu():
    before = outlook(middle=0.5, spread=0.39)
    (after,) = persisting(forecast(0.95, [before]), 8.0, now=0.0, most=1.0).outlooks
    assert after.quantiles[-1] == 1.0 > after.median


def test_share_of_zero_keeps_its_outlooks():
    one = forecast(0.0, [outlook()])
    assert persisting(one, 100.0, now=0.0) is one
