"""The kernel against the same battery written naively: whole histories, no streaming, no compiler.

Each stage is given the kernel's own results of the stage before, so that a tie broken by the last bit of a
sum cannot make the two go different ways.
"""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nws.forecasting.statelayout import (
    ADAPT_SCORE,
    ADAPTIVE_MEAN,
    ADAPTIVE_MEDIAN,
    AR_MEMORY,
    AUTOREGRESSION,
    EXPONENTIAL,
    GAINS,
    LAST,
    LEAN,
    LEAN_CLIP,
    LEAN_TRUST,
    MAE,
    MEAN,
    MEDIAN,
    METHODS,
    MSE,
    ORDER,
    PICKS,
    RUN_MEAN,
    SCORE_MEMORY,
    SELECTORS,
    SLIDING,
    TRIM,
    TRIMMED,
    TRIMMED_MEAN,
)

series = st.one_of(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=90),
    st.lists(st.integers(0, 3).map(float), min_size=1, max_size=90),
    st.lists(st.floats(0, 1), min_size=52, max_size=130),
)
examples = settings(max_examples=40, deadline=None)


def smoothed(history, gain):
    value = history[0]
    for x in history[1:]:
        value = gain * x + (1 - gain) * value
    return value


def trimmed(history, window):
    kept = sorted(history[-window:])
    cut = int(TRIM * len(kept))
    return statistics.fmean(kept[cut : len(kept) - cut])


def autoregression(history, memory):
    """Yule-Walker from the definition: covariances as sums over the history, equations solved as a matrix."""
    fade = 1 - 1 / memory if memory else 1.0
    n = len(history)
    deviations, mean = [], 0.0
    for t in range(n):
        weights = fade ** np.arange(t, -1, -1)
        mean = float(weights @ np.array(history[: t + 1]) / weights.sum())
        deviations.append(history[t] - mean)
    faded = np.sqrt(fade) ** np.arange(n - 1, -1, -1) * np.array(deviations)
    covariance = np.array([faded[k:] @ faded[: n - k] if k < n else 0.0 for k in range(ORDER + 1)])
    if covariance[0] == 0:
        return mean
    covariance[0] *= 1 + 1e-9
    matrix = covariance[np.abs(np.subtract.outer(np.arange(ORDER), np.arange(ORDER)))]
    coefficients = np.linalg.solve(matrix, covariance[1:])
    recent = np.array(history[::-1][:ORDER]) - mean
    return min(max(mean + float(coefficients[: len(recent)] @ recent), min(history)), max(history))


@examples
@given(series)
def test_simple_methods_predict_what_their_names_say(follow, values):
    final = follow(values)[-1]["predicted"]
    close = {"rel": 1e-9, "abs": 1e-9 * max(map(abs, values), default=0.0)}
    assert final[LAST] == values[-1]
    assert final[RUN_MEAN] == pytest.approx(statistics.fmean(values), **close)
    for i, gain in enumerate(GAINS):
        assert final[EXPONENTIAL + i] == pytest.approx(smoothed(values, gain), **close)
    for i, window in enumerate(SLIDING):
        assert final[MEAN + i] == pytest.approx(statistics.fmean(values[-window:]), **close)
        assert final[MEDIAN + i] == pytest.approx(statistics.median(values[-window:]), **close)
    for i, window in enumerate(TRIMMED):
        assert final[TRIMMED_MEAN + i] == pytest.approx(trimmed(values, window), **close)


@examples
@given(st.integers(0, 2**32 - 1), st.integers(2, 120), st.floats(-0.9, 0.9), st.sampled_from([0.0, 1e5]))
def test_autoregression_solves_the_yule_walker_equations(follow, seed, length, memory, level):
    noise = np.random.default_rng(seed).standard_normal(length)
    values, last = [], 0.0
    for shock in noise:
        last = memory * last + shock
        values.append(level + last)
    final = follow(values)[-1]["predicted"]
    for which, samples in enumerate(AR_MEMORY):
        assert final[AUTOREGRESSION + which] == pytest.approx(
            autoregression(values, samples), rel=1e-5, abs=1e-5
        )


@examples
@given(series)
def test_methods_are_scored_before_they_see_the_value(follow, values):
    records = follow(values)
    loss = np.zeros((len(SCORE_MEMORY), 2, len(METHODS)))
    bits = loss.view(np.uint64)
    for before, after, value in zip(records, records[1:], values[1:], strict=False):
        error = np.abs(before["predicted"] - value)
        for i, memory in enumerate(SCORE_MEMORY):
            fade = 1 - 1 / memory if memory else 1.0
            loss[i, MAE] = fade * loss[i, MAE] + error
            loss[i, MSE] = fade * loss[i, MSE] + error * error
        # scores that fade are kept as upper halves of float64
        bits[1:] = (bits[1:] + (1 << 31)) >> 32 << 32
        assert np.array_equal(after["loss"], loss[0])
        assert np.array_equal(after["fading_loss"], bits[1:] >> 32)


@examples
@given(series)
def test_adaptive_window_steps_to_the_better_neighbour(follow, values):
    records = follow(values)
    rungs = {MEAN: 0, MEDIAN: 0}
    for after in records:
        recent = after["fading_loss"][ADAPT_SCORE, MAE]
        for place, (first, adaptive) in enumerate(((MEAN, ADAPTIVE_MEAN), (MEDIAN, ADAPTIVE_MEDIAN))):
            ladder = [LAST, *range(first, first + len(SLIDING))]
            here = rungs[first]
            near = [here] + [r for r in (here - 1, here + 1) if 0 <= r < len(ladder)]
            rungs[first] = min(near, key=lambda r: recent[ladder[r]])
            assert after["rung"][place] == rungs[first]
            assert after["predicted"][adaptive] == after["predicted"][ladder[rungs[first]]]


def weights_of(loss, power):
    lowest = min(loss)
    return [1.0 if one <= lowest else (lowest / one) ** power for one in loss]


@examples
@given(series)
def test_selectors_answer_and_are_charged_with_what_they_answered(follow, values):
    records = follow(values)
    answer_loss = np.zeros((2, len(SELECTORS)))
    battery = np.zeros((2, 2))
    for i, after in enumerate(records):
        if i > 0:
            error = np.abs(records[i - 1]["answered"] - values[i])
            answer_loss += [error, error * error]
            own = np.abs(records[i - 1]["answer"] - values[i])
            battery += np.stack([own, own * own], axis=1)
        assert np.array_equal(after["answer_loss"], answer_loss)
        assert np.array_equal(after["error"], battery)
        assert list(after["pick"]) == [int(np.argmin(answer_loss[kind])) for kind in (MAE, MSE)]
        for memory in range(len(SCORE_MEMORY)):
            for kind in (MAE, MSE):
                loss = after["fading_loss"][memory - 1] if memory else after["loss"]
                chosen = int(np.argmin(loss[kind]))
                assert after["chosen"][2 * memory + kind] == chosen
                assert after["answered"][2 * memory + kind] == after["predicted"][chosen]


def assert_blends(mean, median, values, mean_weights, median_weights):
    """Weighted mean and weighted median, as they are defined."""
    expected = math.fsum(w * v for w, v in zip(mean_weights, values, strict=True)) / math.fsum(mean_weights)
    assert mean == pytest.approx(expected, rel=1e-9, abs=1e-9 * max(map(abs, values)))
    half = math.fsum(median_weights) / 2
    weighted = list(zip(median_weights, values, strict=True))
    assert median in values
    assert math.fsum(w for w, v in weighted if v < median) <= half * (1 + 1e-9)
    assert math.fsum(w for w, v in weighted if v <= median) >= half * (1 - 1e-9)


@examples
@given(series)
def test_blend_weights_every_method_by_its_record(follow, values):
    for after in follow(values):
        predicted, loss = after["predicted"], after["loss"]
        mean, median = after["answered"][PICKS + MSE], after["answered"][PICKS + MAE]
        assert_blends(mean, median, predicted, weights_of(loss[MSE], 4), weights_of(loss[MAE], 8))


@examples
@given(series)
def test_selectors_together_are_blended_by_their_records(follow, values):
    for after in follow(values):
        mean, median = after["together"][MSE], after["together"][MAE]
        losses = after["answer_loss"]
        assert_blends(
            mean, median, after["answered"], weights_of(losses[MSE], 32), weights_of(losses[MAE], 64)
        )


@examples
@given(series)
def test_battery_goes_from_the_last_value_as_far_as_it_paid(follow, values):
    records = follow(values)
    loss = np.zeros((2, len(LEAN)))
    for i, after in enumerate(records):
        if i > 0:
            before = records[i - 1]
            usual = before["error"][MAE, MAE] / (i - 1) if i > 1 else 0.0
            for kind in (MAE, MSE):
                parts = before["last"] + np.array(LEAN) * (before["together"][kind] - before["last"])
                error = np.abs(parts - values[i])
                if kind == MSE:
                    loss[kind] += error * error
                else:
                    loss[kind] += np.minimum(error, LEAN_CLIP * usual) if usual > 0 else error
        assert after["lean_loss"] == pytest.approx(loss, rel=1e-9)
        for kind, power in ((MAE, 64), (MSE, 32)):
            kept = after["lean_loss"][kind]
            trusted = kept + LEAN_TRUST * (1 - np.array(LEAN)) * kept[-1] / max(i, 1)
            weights = np.array(weights_of(trusted.tolist(), power))
            gone = float(weights @ np.array(LEAN) / weights.sum())
            way = after["together"][kind] - after["last"]
            assert after["answer"][kind] == pytest.approx(
                after["last"] + gone * way, rel=1e-9, abs=1e-9 * max(map(abs, values))
            )
