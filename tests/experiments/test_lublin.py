"""The generated workload against sample statistics of its authors' program (mean ± sd over 60 seeds of 5,000 jobs)."""

import numpy as np
import pytest

from apples.errors import ConfigError
from apples_experiments.lublin import generate, model_of, with_load


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


def test_same_seed_is_the_same_workload():
    one, same, other = generate(50, 32, 1), generate(50, 32, 1), generate(50, 32, 2)
    assert (one.submit == same.submit).all()
    assert (one.run == same.run).all()
    assert not (one.run == other.run).all()
    assert one.procs.max() <= 32
    assert (np.diff(one.submit) >= 0).all()


def test_load_and_requests_as_wished():
    trace = with_load(generate(1000, 32, 3, request=2.5), 0.78)
    assert trace.offered_load(32) == pytest.approx(0.78)
    assert (trace.request >= 2.5 * trace.run - 1).all()


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"processors": 1}, {"request": 0.5}])
def test_what_is_no_workload(wrong):
    with pytest.raises(ConfigError, match="legal are 1 job, 2 processors"):
        generate(**{"jobs": 10, "processors": 8, "seed": 1, **wrong})
    with pytest.raises(ConfigError, match="a number above 0"):
        with_load(generate(10, 8, 1), 0)


@pytest.fixture(scope="module", params=["batch", "interactive"])
def of_one_type(request):
    """(parameters, five workloads of 5,000 jobs on 128 processors)."""
    model = model_of(request.param)
    return model, [generate(5000, 128, seed, model) for seed in range(5)]


def test_sizes_of_one_type(of_one_type):
    model, traces = of_one_type
    procs = np.concatenate([trace.procs for trace in traces])
    assert (procs == 1).mean() == pytest.approx(model.serial, abs=0.01)
    # those that are drawn as powers of two, and some that are so by chance
    powers = ((procs > 1) & (procs & (procs - 1) == 0)).mean()
    assert model.power_of_two - 0.01 < powers < model.power_of_two + 0.08
    low, high = model.u_low, 7.0 - model.u_hi_below
    middle = high - model.u_med_below
    logs = model.u_prob * (low + middle) / 2 + (1 - model.u_prob) * (middle + high) / 2
    assert np.log2(procs[procs > 1]).mean() == pytest.approx(logs, abs=0.05)
    assert procs.max() <= 2 ** round(high + 0.01)


def test_run_times_of_one_type(of_one_type):
    """Mean and spread of the logarithm, by the moments of the two gammas; few draws are beyond the limit."""
    model, traces = of_one_type
    procs, run = (np.concatenate([getattr(t, what) for t in traces]) for what in ("procs", "run"))
    share = np.clip(model.pa * procs + model.pb, 0, 1)
    first, second = model.a1 * model.b1, model.a2 * model.b2
    mean = share * first + (1 - share) * second
    square = share * (model.b1 * first + first**2) + (1 - share) * (model.b2 * second + second**2)
    found = np.log(run)
    assert found.mean() == pytest.approx(mean.mean(), rel=0.03)
    assert found.std() == pytest.approx((square.mean() - mean.mean() ** 2) ** 0.5, rel=0.05)


def test_arrivals_of_one_type(of_one_type):
    """The median gap is that of the gamma, a little less for those at night; most arrive by day."""
    model, traces = of_one_type
    gaps = np.concatenate([np.diff(trace.submit) for trace in traces])
    middle = np.exp(np.median(np.random.default_rng(0).gamma(model.aarr * model.arar, model.barr, 100_000)))
    assert np.median(gaps) == pytest.approx(middle, rel=0.25)
    assert np.mean([_by_day(trace.submit) for trace in traces]) > 10 / 24 + 0.1


def test_types_differ_as_they_should():
    batch, interactive = (generate(5000, 128, 1, model_of(name)) for name in ("batch", "interactive"))
    assert np.median(batch.run) > 10 * np.median(interactive.run)
    assert batch.procs.mean() > interactive.procs.mean()
    with pytest.raises(ConfigError, match="jobs of type 'night'; legal are all, batch, interactive"):
        model_of("night")
