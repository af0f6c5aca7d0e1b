"""Forecasts of means over spans: calibrated, broad without evidence, wider with age."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nws.forecasting.batteries import Ahead, BatteryBank
from nws.forecasting.horizons import KNOWN
from nws.forecasting.scales import error_of, value_of
from nws.series import SHARES

LOW, HIGH = KNOWN + SHARES.index(0.1), KNOWN + SHARES.index(0.9)


def outlooks(values, spans, *, interval_s=10.0, age_s=0.0, **bounds):
    """Return outlooks, float64[spans, …], of a series measured every `interval_s` up to `age_s` ago."""
    bank = BatteryBank(1)
    times = np.arange(len(values)) * interval_s
    bank.update_many(np.zeros(len(values), int), values, times)
    return bank.outlooks([0], Ahead(over_s=spans, now=times[-1] + age_s, **bounds))[0]


@pytest.fixture(scope="module")
def load():
    """Shares of a CPU under a load that comes and goes: float64[3000]."""
    rng = np.random.default_rng(3)
    loaded = np.cumsum(rng.random(3000) < 1 / 40) % 2
    return np.clip(np.where(loaded, 0.4, 0.95) + 0.03 * rng.standard_normal(3000), 0.01, 1.0)


def test_outlook_of_first_value_is_broad_and_positive():
    (found,) = outlooks([0.5], [60.0])
    assert found[2] == 0
    assert np.isnan(found[1])
    assert 0.0 < found[LOW] < 0.15
    assert found[HIGH] > 1.0
    assert (np.diff(found[KNOWN:]) >= 0).all()


def test_outlook_of_few_equal_values_is_not_certain():
    (found,) = outlooks([0.9] * 3, [10.0])
    assert found[HIGH] - found[LOW] > 0.05


def test_outlooks_after_load_hold_at_nominal_rate(load):
    spans = [10.0, 300.0]
    bank = BatteryBank(1)
    held = np.zeros(2)
    rows = range(500, 2900, 5)
    bank.update_many(np.zeros(500, int), load[:500], np.arange(500) * 10.0)
    for i in rows:
        bank.update_many(np.zeros(5, int), load[i : i + 5], (i + np.arange(5)) * 10.0)
        found = bank.outlooks([0], Ahead(over_s=spans, now=(i + 4) * 10.0))[0]
        for j, k in enumerate((1, 30)):
            held[j] += found[j, LOW] <= load[i + 5 : i + 5 + k].mean() <= found[j, HIGH]
    assert held / len(rows) == pytest.approx(0.8, abs=0.06)
    assert found[:, 1] == pytest.approx(0.8, abs=0.06)


def test_outlook_widens_with_age_and_never_below_zero(load):
    fresh, old = (outlooks(load, [60.0], age_s=age_s)[0] for age_s in (0.0, 3600.0))
    assert old[HIGH] - old[LOW] > 1.3 * (fresh[HIGH] - fresh[LOW])
    assert old[KNOWN] > 0.0


AGES = (0.0, 600.0, 6000.0, 86400.0, 864000.0)


@pytest.mark.parametrize(
    "values",
    [
        [0.0] * 200 + [0.3] + [0.0] * 50,
        [1.0, 0.0],
        [0.0, 1.0, 1.0] * 50,
        [1.0 - n / 100 for n in range(100)],
        [0.02],
    ],
    ids=["loss", "two", "switching", "falling", "one"],
)
@pytest.mark.parametrize("age_s", AGES)
def test_outlook_of_a_share_is_a_share_at_any_age(values, age_s):
    found = outlooks(values, [60.0, 3600.0], age_s=age_s, least=0.0, most=1.0)
    shares = found[:, [0, *range(KNOWN, found.shape[1])]]
    assert ((shares >= 0.0) & (shares <= 1.0)).all()
    assert (np.diff(found[:, KNOWN:]) >= 0.0).all()


@pytest.mark.parametrize("values", [[0.5] * 300, [0.0] * 200 + [0.3] + [0.0] * 50], ids=["constant", "loss"])
def test_outlook_widens_beyond_the_length_of_the_series(values):
    widths = []
    for age_s in AGES[2:]:
        (found,) = outlooks(values, [60.0], age_s=age_s, least=0.0, most=1.0)
        assert found[LOW] <= values[-1] <= found[HIGH]
        widths.append(found[HIGH] - found[LOW])
    assert 0.0 < widths[0] < widths[1] < widths[2]


def test_outlook_after_a_pause_holds_the_present_value():
    # a loss of 0 is not expected at the mean of all alone, a level that never occurs
    (found,) = outlooks([0.0] * 200 + [0.3] + [0.0] * 50, [60.0], age_s=600.0)
    assert found[LOW] < 1e-4 < found[HIGH]


def test_outlook_uses_interval_of_series(load):
    often, seldom = (outlooks(load, [600.0], interval_s=s)[0] for s in (10.0, 600.0))
    assert often[HIGH] - often[LOW] != pytest.approx(seldom[HIGH] - seldom[LOW], rel=0.1)


def test_forecast_after_pause_judges_no_forecast_across_it(load):
    bank = BatteryBank(1)
    for start in (0.0, 1e6):
        bank.update_many(np.zeros(50, int), load[:50], start + np.arange(50) * 10.0)
    judged = bank.states()["outcomes"][0]
    assert judged[0] == 98
    assert judged[5] < 50


def test_outlooks_hold_soon_after_quiet_ends(load):
    bank = BatteryBank(1)
    values = np.concatenate((np.ones(10_000), load[:360]))
    bank.update_many(np.zeros(10_060, int), values[:10_060], np.arange(10_060) * 10.0)
    held = 0
    for i in range(10_060, 10_300):
        (found,) = bank.outlooks([0], Ahead(over_s=[600.0], now=(i - 1) * 10.0))[0]
        held += found[LOW] <= values[i : i + 60].mean() <= found[HIGH]
        bank.update(0, values[i], t=i * 10.0)
    assert held / 240 > 0.55


@given(
    value=st.floats(1e-3, 1e3),
    forecast=st.floats(1e-3, 1e3),
    level=st.one_of(st.just(0.0), st.floats(1e-2, 1e2)),
)
def test_value_at_its_error_is_the_value(value, forecast, level):
    assert value_of(error_of(value, forecast, level), forecast, level) == pytest.approx(
        value, rel=1e-6, abs=1e-9
    )


def test_idle_host_that_was_busy_once_says_little_of_the_busy_one():
    """The same drop is a smaller part of a logarithm where the forecast is low already."""
    drops = [value_of(error_of(0.5, 1.0, 0.6), forecast, 0.6) / forecast for forecast in (1.0, 0.5, 0.25)]
    assert drops[0] == pytest.approx(0.5)
    assert drops == sorted(drops)
    assert drops[-1] < 0.75


def test_variation_is_that_of_the_values_of_a_mean():
    values = np.tile([0.5, 1.0], 400)
    alternating, steady = outlooks(values, [10.0, 640.0]), outlooks(np.full(800, 0.7), [10.0, 640.0])
    assert alternating[0, KNOWN - 1] == 0.0
    assert alternating[1, KNOWN - 1] == pytest.approx(0.25 / 0.75, rel=1e-3)
    assert steady[:, KNOWN - 1] == pytest.approx(0.0, abs=1e-3)


def test_mean_is_not_expected_far_beyond_all_values(load):
    found = outlooks(load, [10.0, 600.0, 86_400.0])
    assert (found[:, KNOWN] > 0.5 * load.min()).all()
