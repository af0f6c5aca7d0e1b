"""Kernels that are interpreted and kernels that are compiled: the same numbers, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nws.forecasting.batteries import LARGEST, Ahead, BatteryBank
from nws.forecasting.compiling import Kernel
from nws.series import HORIZONS_S


def _learned(values, *, interpreted):
    """Return states and outlooks of a bank: a series, and a second that borrows from it and sees its first values."""
    count = len(values)
    bank = BatteryBank()
    bank.add(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "left", np.inf if interpreted else -1)
        bank.update_many([0] * count, values, 1e9 + 10.0 * np.arange(count))
        bank.lend([1], [0, 0])
        bank.update_many([1, 1], values[:2], [1e9, 1e9 + 7])
        outlooks = bank.outlooks([0, 1], Ahead(over_s=HORIZONS_S, now=1e9 + 12.0 * count))
    return bank.states().tobytes(), outlooks.tobytes()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-LARGEST, LARGEST), min_size=2, max_size=9))
def test_interpreted_kernel_extreme_values_equals_compiled(values):
    assert _learned(values, interpreted=True) == _learned(values, interpreted=False)


@pytest.mark.parametrize("kind", ["share", "steps", "latency", "walk"])
def test_interpreted_kernel_learnt_series_equals_compiled(kind):
    rng = np.random.default_rng(len(kind))
    values = {
        "share": rng.random(70),
        "steps": 1.0 + (np.arange(70) // 30 % 2),
        "latency": 1e-4 * rng.lognormal(size=70),
        "walk": np.cumsum(rng.normal(size=70)),
    }[kind]
    assert _learned(values, interpreted=True) == _learned(values, interpreted=False)
