"""The generated workload against sample statistics of its authors' program (mean ± sd over 60 seeds of 5,000 jobs)."""

import numpy as np
import pytest

from apples.errors import ConfigError
from apples.simulation.batch.lublin import generate, with_load


@pytest.fixture(scope="module")
def samples():
    return [generate(5000, 128, seed) for seed in range(12)]


@pytest.mark.parametrize(
    ("what", "mean", "sd"),
    [
        (lambda t: np.diff(t.submit).mean(), 931, 99),
        (lambda t: t.run.mean(), 4363, 120),
        (lambda t: t.procs.mean(), 12.21, 0.29),
        (lambda t: t.offered_load(128), 0.721, 0.089),
    ],
    ids=["inter-arrival", "run time", "nodes", "load"],
)
def test_means_of_the_model(samples, what, mean, sd):
    """Three standard errors of the difference of both samples."""
    found = np.mean([what(trace) for trace in samples])
    assert abs(found - mean) < 3 * sd * (1 / 12 + 1 / 60) ** 0.5


def test_shapes_of_the_model(samples):
    def over(what):
        return np.mean([what(trace) for trace in samples])

    assert over(lambda t: np.median(np.diff(t.submit))) == pytest.approx(116.5, rel=0.05)
    assert over(lambda t: np.median(t.run)) == pytest.approx(109, rel=0.05)
    assert over(lambda t: np.log(t.run).mean()) == pytest.approx(5.464, abs=0.05)
    assert over(lambda t: np.log(t.run).std()) == pytest.approx(2.968, abs=0.06)
    assert over(lambda t: (t.procs == 1).mean()) == pytest.approx(0.243, abs=0.01)
    assert over(lambda t: ((t.procs > 1) & (t.procs & (t.procs - 1) == 0)).mean()) == pytest.approx(
        0.627, abs=0.01
    )
    assert over(lambda t: _by_day(t.submit)) == pytest.approx(0.65, abs=0.05)


def _by_day(submit):
    hour = submit % 86400 / 3600
    return ((hour >= 8) & (hour < 18)).mean()


def test_the_same_seed_is_the_same_workload():
    one, same, other = generate(50, 32, 1), generate(50, 32, 1), generate(50, 32, 2)
    assert (one.submit == same.submit).all()
    assert (one.run == same.run).all()
    assert not (one.run == other.run).all()
    assert one.procs.max() <= 32
    assert (np.diff(one.submit) >= 0).all()


def test_a_load_and_requests_as_wished():
    trace = with_load(generate(1000, 32, 3, request=2.5), 0.78)
    assert trace.offered_load(32) == pytest.approx(0.78)
    assert (trace.request >= 2.5 * trace.run - 1).all()


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"processors": 1}, {"request": 0.5}])
def test_what_is_no_workload(wrong):
    with pytest.raises(ConfigError, match="legal are 1 job, 2 processors"):
        generate(**{"jobs": 10, "processors": 8, "seed": 1, **wrong})
    with pytest.raises(ConfigError, match="a number above 0"):
        with_load(generate(10, 8, 1), 0)
