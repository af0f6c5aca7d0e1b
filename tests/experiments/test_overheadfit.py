"""The overhead of the paper's model, fitted to many runs."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.costs.runs import finished_runs
from apples.model.template import PAPER_OVERHEAD, Overhead
from apples_experiments.overheadfit import HALF_LIFE_RUNS, fit_overhead
from apples_experiments.regression import weighted_median
from tests.apples.costs.test_posterior import BM, COSTS, a_run


def fitted_to(records, costs=None, **more):
    """The overhead fitted to the runs of these records."""
    return fit_overhead(finished_runs(records), costs, **more)


def runs_under(overhead, count, *, noise=0.0, disturbed=0.0, seed=0):
    """Runs of sizes and counts as in the paper whose overhead is `overhead`, some of them disturbed by load."""
    rng = np.random.default_rng(seed)
    records = []
    for _ in range(count):
        size, ranks = 1000 * int(rng.integers(1, 7)), 2 * int(rng.integers(2, 14))
        extra = overhead.seconds(size, ranks) * (1 + noise * rng.standard_normal())
        if rng.random() < disturbed:
            extra += rng.uniform(20, 100)
        records.append(a_run(size, ranks, BM * size / ranks + extra))
    return records


def test_fit_of_106_runs_finds_the_papers_overhead():
    fitted = fitted_to(runs_under(PAPER_OVERHEAD, 106, noise=0.02, disturbed=0.17), COSTS)
    assert fitted.constant_s == pytest.approx(16, rel=0.05)
    assert fitted.per_row_s == pytest.approx(-1.5e-3, rel=0.1)
    assert fitted.per_rank_s == 0
    assert fitted.per_rank2_s == pytest.approx(0.094, rel=0.02)
    assert fitted.source == "fitted to 106 runs"
    assert 0 < fitted.error_s < 3


@settings(deadline=None, max_examples=20)
@given(
    constant=st.floats(5, 50),
    per_row=st.floats(-5e-4, 5e-3),
    per_rank2=st.floats(0.02, 0.2),
    seed=st.integers(0, 1000),
)
def test_fit_recovers_known_coefficients_under_noise(constant, per_row, per_rank2, seed):
    truth = Overhead(constant_s=constant, per_row_s=per_row, per_rank2_s=per_rank2)
    fitted = fitted_to(runs_under(truth, 60, noise=0.01, disturbed=0.1, seed=seed), COSTS)
    for size in (1000, 3000, 6000):
        for ranks in (6, 16, 26):
            assert fitted.seconds(size, ranks) == pytest.approx(truth.seconds(size, ranks), rel=0.06)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 13), st.floats(0.01, 500)), min_size=1, max_size=25),
    st.floats(0, 50),
)
def test_fit_is_never_worse_than_none_on_the_median_run(runs, believed):
    records = [a_run(1000 * size, 2 * ranks, observed) for size, ranks, observed in runs]
    prior = Overhead(constant_s=believed)
    fitted = fitted_to(records, prior=prior)

    def median_miss(overhead):
        misses = [
            abs(observed - BM * 1000 * size / (2 * ranks) - overhead.seconds(1000 * size, 2 * ranks))
            for size, ranks, observed in runs
        ]
        age = np.arange(len(runs))[::-1]
        return weighted_median(np.array(misses), 0.5 ** (age / HALF_LIFE_RUNS))

    assert median_miss(fitted) <= median_miss(prior) + 1e-9
    # More ranks never look cheaper to start: a planner would run away with it.
    assert fitted.per_rank_s >= 0
    assert fitted.per_rank2_s >= 0
    assert np.isfinite(fitted.error_s)
