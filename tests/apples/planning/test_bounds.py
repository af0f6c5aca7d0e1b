"""Low and high bounds: forecasts' errors carried through the model."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.planning.bounds import UncertainRanks, predict
from apples.planning.planner import make_plan
from nws.series import SCORES


def low_expected_high(uncertain, error_s, horizon="run"):
    found = predict(uncertain, error_s, horizon)
    return found["low_s"], found["predicted_s"], found["high_s"]


def ranks(work, share, share_error, fixed=None, fixed_error=None, host=None, variation=None, guessed=None):
    """Ranks with shares whose logarithm is normal. share_error : relative to the share"""
    n = len(work)
    share, error = np.array(share, float), np.array(share_error, float)
    return UncertainRanks(
        work=np.array(work, float),
        share=share,
        quantiles=share * np.exp(np.outer(SCORES, error)),
        variation=np.zeros(n) if variation is None else np.array(variation, float),
        guessed=np.zeros(n, bool) if guessed is None else np.array(guessed),
        fixed=np.zeros(n) if fixed is None else np.array(fixed, float),
        fixed_error=np.zeros(n) if fixed_error is None else np.array(fixed_error, float),
        host=np.arange(n) if host is None else np.array(host),
    )


def sampled(uncertain, draws=40_000):
    """Makespans when shares and exchanges are drawn as the bounds suppose."""
    rng = np.random.default_rng(1)
    hosts, n = uncertain.host.max() + 1, len(uncertain.work)
    error = np.log(uncertain.quantiles[-1] / uncertain.share) / SCORES[-1]
    share = uncertain.share * np.exp(error * rng.standard_normal((draws, hosts))[:, uncertain.host])
    within = np.log1p((uncertain.fixed_error / np.maximum(uncertain.fixed, 1e-9)) ** 2)
    off = np.sqrt(within) * rng.standard_normal((draws, n)) - within / 2
    fixed = uncertain.fixed * np.exp(off)
    return (fixed + uncertain.work / share).max(axis=1)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(
    "uncertain",
    [
        ranks([60], [0.6], [0.05]),
        ranks([60, 60, 40], [0.6, 0.7, 0.4], [0.05, 0.02, 0.03]),
        ranks([60, 60], [0.8, 0.8], [0.03, 0.0], fixed=[10, 12]),
        ranks([60, 60], [0.8, 0.8], [0.03, 0.03], fixed=[10, 12], fixed_error=[2, 1]),
        ranks([60] * 4, [0.7] * 4, [0.05] * 4, host=[0, 0, 0, 1]),
        ranks([60], [0.6], [0.0], fixed=[10], fixed_error=[3]),
        ranks([60, 60, 40], [0.3, 0.5, 0.2], [0.6, 0.3, 1.0]),
        ranks([5, 5], [0.5, 0.5], [0.1, 0.1], fixed=[3, 4], fixed_error=[3, 4]),
    ],
    ids=[
        "one",
        "three",
        "one sure",
        "links too",
        "slots of one host",
        "links only",
        "heavy load",
        "links unknown",
    ],
)
def test_quantiles_agree_with_sampling(uncertain, q):
    assert uncertain.quantile(q) == pytest.approx(np.quantile(sampled(uncertain), q), rel=0.01)


@pytest.mark.parametrize(
    "uncertain",
    [
        ranks([60] * 4, [0.7] * 4, [0.3] * 4),
        ranks([60, 60], [0.8, 0.8], [0.03, 0.03], fixed=[10, 12], fixed_error=[2, 1]),
        ranks([60, 60, 40], [0.3, 0.5, 0.2], [0.6, 0.3, 1.0]),
    ],
    ids=["four alike", "links too", "heavy load"],
)
def test_expectation_agrees_with_sampling(uncertain):
    mean = low_expected_high(uncertain, 0.0)[1]
    assert mean == pytest.approx(sampled(uncertain).mean(), rel=0.02)
    assert mean > uncertain.makespan()
    assert low_expected_high(uncertain, 0.0, "next")[1] == uncertain.makespan()


@pytest.mark.parametrize("error", [0.05, 0.3])
def test_changes_during_the_run_cost_the_slowest_rank_of_each_moment(error):
    rng, within = np.random.default_rng(2), np.log1p(0.4**2)
    # The mean share of a run has an error of its own, and that of the 200 moments of which it is the mean.
    of_mean = np.hypot(error, np.sqrt(within / 200))
    steady = ranks([60] * 6, [0.6] * 6, [of_mean] * 6)
    uneven = ranks([60] * 6, [0.6] * 6, [of_mean] * 6, variation=[0.4] * 6)
    slowness = np.exp(error * rng.standard_normal((400, 1, 6))) / 0.6
    moments = np.exp(np.sqrt(within) * rng.standard_normal((400, 200, 6)) - within / 2)
    makespans = 60 * (slowness * moments).max(axis=2).mean(axis=1)
    low, expected, high = low_expected_high(uneven, 0.0)
    assert expected == pytest.approx(makespans.mean(), rel=0.03)
    slowest = (60 * (slowness * moments).mean(axis=1)).max(axis=1)
    waits_s = (makespans - slowest).mean()
    assert predict(uneven, 0.0)["waiting_s"] == pytest.approx(waits_s, rel=0.1)
    assert predict(steady, 0.0)["waiting_s"] == predict(uneven, 0.0, "next")["waiting_s"] == 0.0
    assert expected > low_expected_high(steady, 0.0)[1]
    # Moments of one run have its hosts' mean shares in common and nothing else.
    assert np.quantile(makespans, 0.9) - np.quantile(makespans, 0.1) < high - low
    assert (high - low) / expected < 1.2 * (lambda found: (found[2] - found[0]) / found[1])(
        low_expected_high(steady, 0.0)
    )


def test_run_on_one_host_waits_for_no_other():
    alone = ranks([60] * 2, [0.6] * 2, [0.1] * 2, host=[0, 0])
    assert low_expected_high(replace(alone, variation=np.full(2, 0.5)), 0.0) == low_expected_high(alone, 0.0)


@given(
    value=st.floats(0.01, 1.0),
    quantiles=st.lists(st.floats(0.01, 1.0), min_size=7, max_size=7).map(sorted),
)
def test_expectation_is_no_less_than_the_slowest_expected_rank(value, quantiles):
    """Also where shares are near the least that counts, and their distribution ends."""
    uncertain = replace(ranks([60], [value], [0.0]), quantiles=np.array(quantiles)[:, None])
    low, expected, high = low_expected_high(uncertain, 0.0)
    assert low <= expected <= high
    assert expected >= uncertain.makespan()


floats = st.floats(0.1, 1.0)


@given(
    work=st.lists(st.floats(1, 100), min_size=1, max_size=6),
    data=st.data(),
    overhead_error=st.floats(0, 10),
)
@settings(deadline=None)
def test_quantiles_rise_and_bounds_enclose_the_expectation(work, data, overhead_error):
    def some(strategy):
        return data.draw(st.lists(strategy, min_size=len(work), max_size=len(work)))

    uncertain = ranks(
        work, some(floats), some(st.floats(0, 0.5)), some(st.floats(0, 9)), some(st.floats(0, 1))
    )
    values = [uncertain.quantile(q) for q in (0.01, 0.1, 0.5, 0.9, 0.99)]
    assert values == sorted(values)
    low, expected, high = low_expected_high(uncertain, overhead_error)
    assert 0 <= low <= expected <= high


def test_sure_forecasts_leave_nothing_open():
    sure = ranks([60, 30], [0.5, 0.5], [0, 0], fixed=[1, 2])
    assert low_expected_high(sure, 0.0) == (121, 121, 121)
    assert sure.quantile(0.99) == 121


@pytest.mark.parametrize("error_s", [10.0, 1000.0])
def test_overhead_error_widens_both_sides_by_one_factor(error_s):
    low, expected, high = low_expected_high(ranks([60], [0.5], [0]), error_s)
    assert high - expected == pytest.approx(1.28155 * error_s, rel=1e-4)
    assert expected / low == pytest.approx(high / expected)


def test_errors_of_links_count_too(pool):
    snapshot = pool.snapshot([1.0, 1.0])
    unsure = replace(snapshot, latency_error_s=np.full((2, 2), 5e-5))
    plan = make_plan(unsure, pool.workload(100, messages=1000), pool.costs())
    assert plan.high_s - plan.predicted_s > 0.01


def test_guessed_error_widens_the_range_only():
    sure = ranks([10.0, 10.0], [0.5, 0.5], [0.1, 0.1])
    known = low_expected_high(ranks([10.0, 10.0], [0.5, 0.5], [0.1, 0.0]), 0.0)
    guessed = low_expected_high(ranks([10.0, 10.0], [0.5, 0.5], [0.1, 1.0], guessed=[False, True]), 0.0)
    assert guessed[1] == pytest.approx(known[1], rel=1e-6)
    assert guessed[0] < low_expected_high(sure, 0.0)[1] < guessed[2]
    assert guessed[2] > 2 * known[2]
