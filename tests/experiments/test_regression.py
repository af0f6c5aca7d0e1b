"""Robust regressions on few, disturbed data."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from apples_experiments.regression import choose_terms, robust_fit, weighted_median


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_with_equal_weights_it_is_the_lower_median(values):
    assert weighted_median(np.array(values), np.ones(len(values))) == sorted(values)[(len(values) - 1) // 2]


def test_weight_moves_the_median():
    assert weighted_median(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 5.0])) == 3.0


@given(st.integers(0, 500))
def test_line_is_found_exactly_although_a_third_of_the_points_are_far_off(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 10, 30)
    y = 2.0 + 3.0 * x
    y[:10] += rng.uniform(50, 100, 10)
    fit = robust_fit(np.column_stack([np.ones(30), x]), y, np.ones(30))
    assert fit.coefficients == pytest.approx([2.0, 3.0], rel=1e-6)
    assert np.all(fit.trust[:10] == 0)
    assert np.all(fit.trust[10:] > 0.99)


def test_terms_that_do_not_help_are_left_out():
    rng = np.random.default_rng(0)
    x, z = rng.uniform(1, 10, (2, 40))
    y = 5.0 + 2.0 * x + rng.normal(0, 0.1, 40)
    fit = choose_terms(np.column_stack([np.ones(40), z, x]), y, np.ones(40), lambda c: True)
    assert fit is not None
    assert fit.coefficients[1] == 0.0
    assert fit.coefficients[2] == pytest.approx(2.0, rel=0.02)


def test_terms_that_make_no_sense_are_not_admitted():
    x = np.arange(1.0, 11.0)
    design = np.column_stack([np.ones(10), x])
    falling = choose_terms(design, 100 - x, np.ones(10), lambda c: bool(c[1] >= 0))
    assert falling is not None
    assert falling.coefficients[1] == 0.0
    assert choose_terms(design, 100 - x, np.ones(10), lambda c: False) is None


def test_two_terms_that_cannot_be_told_apart_are_not_both_fitted():
    x = np.arange(1.0, 11.0)
    fit = choose_terms(np.column_stack([np.ones(10), x, 2 * x]), 1 + x, np.ones(10), lambda c: True)
    assert fit is not None
    assert np.count_nonzero(fit.coefficients[1:]) == 1
