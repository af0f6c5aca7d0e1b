"""Faults of the original forecasters that must not come back, seen from outside the battery."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nws.forecasting.batteries import BatteryBank, Pick
from nws.forecasting.statelayout import ADAPTIVE_MEAN, ADAPTIVE_MEDIAN, SLIDING


@pytest.mark.parametrize("pick", Pick)
def test_no_error_is_charged_to_a_forecast_made_from_no_data(pick):
    # 40 ms came from nobody's forecast: an imagined first forecast of 0 would be off by 40
    battery = BatteryBank(1)
    battery.update(0, 40.0, t=0.0)
    assert math.isnan(battery.forecast(0, pick).mae)
    assert math.isnan(battery.forecast(0, pick).rmse)
    for n in range(1, 30):
        battery.update(0, 40.0, t=float(n))
        assert battery.forecast(0, pick).mae == 0.0
        assert battery.forecast(0, pick).rmse == 0.0


def test_adaptive_window_that_has_grown_shrinks_again_when_the_series_moves(follow):
    # noise about a level is best met by long windows; a level that climbs by 5 a step only by the shortest
    calm = np.random.default_rng(3).normal(10.0, 1.0, 300)
    climb = 10.0 + 5.0 * np.arange(1, 121)
    records = follow([*calm, *climb])
    grown, shrunk = records[len(calm) - 1], records[-1]
    assert grown["rung"].min() >= len(SLIDING) // 2
    assert shrunk["rung"].max() == 0
    for method in (ADAPTIVE_MEAN, ADAPTIVE_MEDIAN):
        assert shrunk["predicted"][method] == climb[-1]


def test_it_grows_again_when_calm_returns(follow):
    calm = np.random.default_rng(4).normal(10.0, 1.0, 300)
    climb = 10.0 + 5.0 * np.arange(1, 121)
    records = follow([*climb, *(climb[-1] + calm)])
    assert records[len(climb) - 1]["rung"].max() == 0
    assert records[-1]["rung"].min() >= len(SLIDING) // 2
