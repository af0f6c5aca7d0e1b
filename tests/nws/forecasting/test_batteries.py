"""A bank of series: what goes in, what is refused, what comes out."""

from __future__ import annotations

import math
import mmap

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nws.base.errors import UsageError, WeatherError
from nws.forecasting import batteries as module
from nws.forecasting.batteries import BatteryBank, Pick


def test_forecast_says_everything_a_planner_asks():
    battery = BatteryBank(1)
    battery.update_many([0] * 3, [0.5, 0.5, 0.9], [10.0, 20.0, 30.0])
    forecast = battery.forecast(0)
    assert forecast.samples == battery.samples(0) == 3
    assert forecast.measured_at == 30.0
    assert forecast.last == 0.9
    assert 0.5 <= forecast.value <= 0.9
    assert forecast.mae == pytest.approx(0.2)
    assert forecast.rmse == pytest.approx(math.sqrt(0.16 / 2))
    assert forecast.method


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-1e3, 1e3)), min_size=1, max_size=120))
def test_many_together_equal_each_alone(updates):
    together, alone = BatteryBank(5), BatteryBank(5)
    times = np.arange(float(len(updates)))
    together.update_many([i for i, _ in updates], [v for _, v in updates], times)
    for t, (i, value) in zip(times, updates, strict=True):
        alone.update(i, value, t=float(t))
    seen = sorted({i for i, _ in updates})
    for pick in Pick:
        a, b = together.forecasts(seen, pick), [alone.forecast(i, pick) for i in seen]
        assert [str(f) for f in a] == [str(f) for f in b]


def test_replayed_store_forecasts_like_the_battery_that_lived_through_it():
    values = np.random.default_rng(3).random(500)
    lived, replayed = BatteryBank(1), BatteryBank(1)
    for t, value in enumerate(values):
        lived.update(0, float(value), t=float(t))
    replayed.update_many([0] * 500, values, range(500))
    assert replayed.forecast(0) == lived.forecast(0)


def test_bank_grows_where_its_pages_cannot_move(monkeypatch):
    class Unmovable(mmap.mmap):
        def resize(self, size):
            raise SystemError("mmap: resizing not available")

    monkeypatch.setattr(module.mmap, "mmap", Unmovable)
    bank = BatteryBank(1)
    bank.update(0, 7.0, t=1.0)
    bank.add(100)
    bank.update(100, 8.0, t=2.0)
    assert (bank.forecast(0).value, bank.forecast(100).value) == (7.0, 8.0)


def test_bank_that_finds_no_memory_stays_as_it_was(monkeypatch):
    bank = BatteryBank(1)
    bank.update(0, 3.0, t=1.0)
    held = bank._states

    def full(series):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(module, "_pages", full)
    with pytest.raises(MemoryError, match="no memory for 5 batteries"):
        bank.add(4)
    assert (len(bank), len(held)) == (1, 1)
    bank.update(0, 4.0, t=2.0)
    monkeypatch.undo()
    assert bank.add(4) == range(1, 5)
    assert bank.forecast(0).last == 4.0


def test_bank_that_grows_keeps_what_it_knows():
    bank = BatteryBank()
    assert bank.add() == range(1)
    bank.update(0, 7.0, t=1.0)
    assert bank.add(100) == range(1, 101)
    bank.update(100, 8.0, t=2.0)
    assert len(bank) == 101
    assert bank.forecast(0).value == 7.0
    assert bank.forecast(100).value == 8.0
    assert bank.samples(50) == 0


def test_one_time_may_stand_for_all():
    bank = BatteryBank(2)
    bank.update_many([0, 1], [1.0, 2.0], 9.0)
    assert [f.measured_at for f in bank.forecasts()] == [9.0, 9.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_what_is_no_number_is_refused_and_nothing_is_taken(bad):
    bank = BatteryBank(3)
    with pytest.raises(UsageError, match=r"series 2: .* is not a measurement; legal are finite numbers"):
        bank.update_many([0, 2], [1.0, bad], 0.0)
    assert [bank.samples(i) for i in range(3)] == [0, 0, 0]


def test_largest_legal_values_leave_every_figure_finite():
    battery = BatteryBank(1)
    battery.update_many([0] * 60, [module.LARGEST * (-1) ** i for i in range(60)], range(60))
    forecast = battery.forecast(0)
    assert all(map(math.isfinite, (forecast.value, forecast.mae, forecast.rmse)))


def test_series_without_values_has_no_forecast():
    bank = BatteryBank(2)
    bank.update(0, 1.0, t=0.0)
    with pytest.raises(WeatherError, match=r"series 1 has no measurement yet; record one"):
        bank.forecast(1)
    with pytest.raises(WeatherError, match=r"series 1 has no measurement yet"):
        bank.forecasts()


@pytest.mark.parametrize("index", [-1, 2])
def test_series_that_is_not_there_is_named(index):
    bank = BatteryBank(2)
    for ask in (bank.forecast, bank.samples, lambda i: bank.update(i, 1.0, t=0.0)):
        with pytest.raises(UsageError, match=rf"no series {index} in a bank of 2; `add` makes one"):
            ask(index)


def test_lengths_must_agree():
    bank = BatteryBank(2)
    with pytest.raises(UsageError, match=r"one value for one index: got values \(3,\) for indices \(2,\)"):
        bank.update_many([0, 1], [1.0, 2.0, 3.0], 0.0)
    with pytest.raises(
        UsageError, match=r"one time for one value, or one for all: got times \(3,\) for values \(2,\)"
    ):
        bank.update_many([0, 1], [1.0, 2.0], [0.0, 1.0, 2.0])
