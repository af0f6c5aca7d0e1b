"""What was expected of each value before it was seen: the battery's own answers, one step behind."""

import numpy as np
import pytest

from nws.base.errors import UsageError
from nws.forecasting.backtest import expected
from nws.forecasting.batteries import BatteryBank, Pick


@pytest.mark.parametrize("pick", list(Pick))
def test_it_is_what_the_battery_answered(pick):
    values = 5 + np.random.default_rng(3).standard_normal(150).cumsum()
    found = expected(values, pick)
    battery = BatteryBank(1)
    for i, value in enumerate(values):
        if i:
            forecast = battery.forecast(0, pick)
            assert found.forecast[i] == forecast.value
            assert np.array_equal([found.error[i]], [forecast.mae], equal_nan=True)
        battery.update(0, value, t=float(i))


def test_nothing_is_expected_of_the_first_value_and_no_error_charged_for_it():
    found = expected([1000.0, 1002.0, 1002.0])
    assert np.isnan(found.forecast[0])
    assert np.isnan(found.error[:2]).all()
    assert found.error[2] == 2.0


def test_no_values_no_forecasts():
    assert len(expected([]).forecast) == 0


def test_what_is_no_number_is_refused():
    with pytest.raises(UsageError, match="value 1: nan is not a measurement"):
        expected([1.0, float("nan")])
