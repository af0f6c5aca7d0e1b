"""Estimates of known quantities: they are found, with errors that hold as often as they say."""

import math

import numpy as np
import pytest

from apples.costs.estimator import Estimator, Scatter


def estimator(**errors):
    """Quantities expected to be 0, with these errors."""
    of = Estimator()
    for name, error in errors.items():
        of.expect(name, 0.0, error)
    return of


def test_estimator_known_truth_is_within_its_range_as_often_as_stated():
    draw, inside = np.random.default_rng(1), []
    for _ in range(200):
        truth = {"kind": draw.normal(0, 0.3), "a": draw.normal(0, 0.1), "b": draw.normal(0, 0.1)}
        of = estimator(kind=0.3, a=0.1, b=0.1)
        for _ in range(4):
            for host in ("a", "b"):
                of.observe({"kind": 1, host: 1}, truth["kind"] + truth[host] + draw.normal(0, 0.05), 0.05**2)
        for weights in ({"kind": 1}, {"kind": 1, "a": 1}, {"a": 1, "b": -1}):
            true = sum(factor * truth[name] for name, factor in weights.items())
            inside.append(abs(of.value(weights) - true) < 1.2816 * of.error(weights))
    assert 0.75 < np.mean(inside) < 0.86


def test_estimator_one_host_says_something_about_others_of_its_kind():
    of = estimator(kind=0.2, a=0.1, b=0.1)
    of.observe({"kind": 1, "a": 1}, 0.3, 0.01**2)
    assert of.value({"kind": 1, "a": 1}) == pytest.approx(0.3, rel=0.01)
    assert of.value({"kind": 1, "b": 1}) == pytest.approx(0.3 * 0.8, rel=0.01)
    assert of.error({"kind": 1, "b": 1}) > 5 * of.error({"kind": 1, "a": 1})


@pytest.mark.parametrize(("then", "expected"), [(0.7, 0.7), (0.0, 0.0)], ids=["stays", "was disturbed"])
def test_estimator_contradicted_follows_what_two_runs_agree_on(then, expected):
    of = estimator(host=0.1)
    for _ in range(10):
        of.forget()
        of.observe({"host": 1}, 0.0, 0.05**2)
    of.observe({"host": 1}, 0.7, 0.05**2)
    assert abs(of.value({"host": 1})) < 0.1, "one run is not believed"
    of.forget()
    of.observe({"host": 1}, then, 0.05**2)
    assert of.value({"host": 1}) == pytest.approx(expected, abs=0.05)


def test_estimator_sum_is_as_certain_as_its_observations():
    of = estimator(constant=1.0, rank=1.0)
    for _ in range(20):
        of.observe({"constant": 1, "rank": 4}, 3.0, 0.1**2)
    assert of.value({"constant": 1, "rank": 4}) == pytest.approx(3.0, abs=0.02)
    assert of.error({"constant": 1, "rank": 4}) < 0.05 < of.error({"constant": 1, "rank": 8})


def test_scatter_is_that_of_the_errors_seen():
    draw, scatter, of = np.random.default_rng(2), Scatter(0.1, 5.0), estimator(a=0.5)
    for _ in range(400):
        variance = scatter.variance
        scatter.add(of.observe({"a": 1}, 0.2 + draw.normal(0, 0.03), variance).error(variance))
    assert math.sqrt(scatter.variance) == pytest.approx(0.03, rel=0.15)
