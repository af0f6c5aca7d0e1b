"""New series start from the errors of others of their kind, and own outcomes take over."""

from __future__ import annotations

import io

import numpy as np
import pytest

from nws.base.errors import UsageError
from nws.forecasting.batteries import Ahead, BatteryBank
from nws.forecasting.horizons import KNOWN
from nws.series import SHARES

LOW, HIGH = KNOWN + SHARES.index(0.1), KNOWN + SHARES.index(0.9)
RNG = np.random.default_rng(11)
#: Levels that differ by orders of magnitude, and relative errors that differ by factors of two.
LEVEL = np.exp(RNG.normal(0.0, 2.0, 30))
ERROR = 0.03 * 2.0 ** RNG.integers(-1, 2, 30)
VALUES = LEVEL[:, None] * np.exp(ERROR[:, None] * RNG.standard_normal((30, 150)))


def bank_of(values):
    """Return a bank that has learnt from values of series, float[series, n]."""
    bank = BatteryBank()
    bank.add(len(values))
    for index, row in enumerate(values):
        feed(bank, index, row)
    return bank


def feed(bank, index, values, first=0):
    bank.update_many(np.full(len(values), index), values, 10.0 * (first + np.arange(len(values))))


def added(bank, kinds=None):
    """Return the number of a new series, which borrows from series of kind 0."""
    (new,) = bank.add()
    bank.lend([new], np.zeros(len(bank)) if kinds is None else [*kinds, 0])
    return new


def interval(bank, index, k=1):
    """Return bounds of the mean of the next k values."""
    samples = bank.samples(index)
    (found,) = bank.outlooks([index], Ahead(over_s=[10.0 * k], now=10.0 * (samples - 1)))[0]
    return found[LOW], found[HIGH]


def width(bank, index, k=1):
    low, high = interval(bank, index, k)
    return high - low


@pytest.mark.parametrize("k", [1, 6, 30])
def test_first_range_is_in_proportion_to_the_errors_of_others(k):
    bank, alone = bank_of(VALUES), BatteryBank()
    small, large = added(bank), added(bank)
    alone.add()
    bank.update_many([small, large], [1.0, 1000.0], 0.0)
    alone.update(0, 1.0, t=0.0)
    assert width(bank, small, k) < 0.25 * width(alone, 0, k)
    assert width(bank, small, k) > 2 * 1.28 * ERROR.min() / np.sqrt(k)
    assert width(bank, large, k) == pytest.approx(1000 * width(bank, small, k), rel=0.05)


def test_first_outcomes_of_each_series_hold_at_nominal_rate():
    held = np.zeros(len(VALUES))
    for index, row in enumerate(VALUES):
        bank = bank_of(np.delete(VALUES[:, :60], index, axis=0))
        new = added(bank)
        for i in range(10):
            feed(bank, new, row[i : i + 1], i)
            low, high = interval(bank, new)
            held[index] += low <= row[i + 1] <= high
    assert held.mean() / 10 == pytest.approx(0.8, abs=0.08)


def test_series_without_lenders_starts_as_if_alone():
    bank, alone = bank_of(VALUES[:3, :10]), BatteryBank()
    few = added(bank)
    apart = added(bank_of_other := bank_of(VALUES[:3]), kinds=[1, 1, -1])
    alone.add()
    for one, index in ((bank, few), (bank_of_other, apart), (alone, 0)):
        feed(one, index, VALUES[5, :40])
    expected = alone.states().tobytes()
    assert bank.states(few, 1).tobytes() == expected
    assert bank_of_other.states(apart, 1).tobytes() == expected


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_own_errors_take_over_within_a_few_outcomes(factor):
    row = np.exp(factor * 0.03 * np.random.default_rng(3).standard_normal(40))
    bank, alone = bank_of(VALUES), BatteryBank()
    new = added(bank)
    alone.add()
    feed(bank, new, row[:1])
    feed(alone, 0, row[:1])
    first = width(bank, new)
    feed(bank, new, row[1:11], 1)
    feed(alone, 0, row[1:11], 1)
    # after ten outcomes, most of the way between the others' errors and its own is gone
    assert abs(np.log(width(bank, new) / first)) > 0.6 * abs(np.log(factor))
    feed(bank, new, row[11:], 11)
    feed(alone, 0, row[11:], 11)
    assert width(bank, new) == pytest.approx(width(alone, 0), rel=0.3)


def test_enough_series_of_the_finer_kind_lend_alone():
    calm, wild = VALUES[:5], np.exp(0.5 * np.random.default_rng(4).standard_normal((5, 150)))
    found = {}
    for name, calm_kind in (("fine", 1), ("none", 2)):
        bank = bank_of(np.concatenate((calm, wild)))
        (new,) = bank.add()
        bank.lend([new], [[calm_kind] * 5 + [3] * 5 + [1], [0] * 11])
        bank.update(new, 1.0, t=0.0)
        found[name] = width(bank, new)
    assert found["fine"] < 0.5 * found["none"]


def test_one_series_of_the_finer_kind_is_too_few():
    bank = bank_of(VALUES[:5])
    both = bank.add(2)
    bank.lend([both[0]], [[1, 2, 2, 2, 2, 1, -1], [0] * 7])
    bank.lend([both[1]], [[0] * 5 + [-1, 0]])
    bank.update_many(list(both), [1.0, 1.0], 0.0)
    assert bank.states(both[0], 1).tobytes() == bank.states(both[1], 1).tobytes()


def test_series_with_values_keeps_what_it_has_learnt():
    bank = bank_of(VALUES)
    new = added(bank)
    feed(bank, new, VALUES[0, :1])
    before = bank.states().tobytes()
    bank.lend([0, new], np.zeros(len(bank)))
    assert bank.states().tobytes() == before


def test_borrowed_errors_survive_save_and_restart():
    bank = bank_of(VALUES)
    new = added(bank)
    again = BatteryBank.restored(io.BytesIO(bank.states().tobytes()), len(bank))
    feed(bank, new, VALUES[0, :30])
    feed(again, new, VALUES[0, :30])
    assert again.states().tobytes() == bank.states().tobytes()


def test_constant_series_lend_no_certainty():
    bank, alone = bank_of(np.ones((5, 100))), BatteryBank()
    new = added(bank)
    alone.add()
    for one, index in ((bank, new), (alone, 0)):
        one.update(index, 0.5, t=0.0)
    assert width(bank, new) == width(alone, 0) > 0.5


def test_kinds_of_other_number_of_series_are_refused():
    bank = bank_of(VALUES[:2])
    bank.lend([], [0, 0])
    with pytest.raises(UsageError, match="kinds of 3 series in a bank of 2"):
        bank.lend([0], [0, 0, 0])
