"""Estimates from similar jobs: key, window, percentile, floor, minimum; and the others beside them."""

import pytest
from hypothesis import given, settings, strategies as st

from apples.errors import ConfigError
from apples.queueing.estimates import (
    ModelFirst,
    Ratios,
    RecentRuns,
    RunTimeEnsemble,
    Scheme,
    SimilarJobs,
    percentile_of,
)
from apples.queueing.jobs import QueueJob


def job(user="ann", project="sun", request=100.0, model=None):
    return QueueJob(id=1, procs=1, request_s=request, submit_s=0.0, user=user, project=project, model_s=model)


def taught(scheme, runs, one=None):
    """A book that saw jobs like `one` run so long, one a second."""
    book = SimilarJobs(scheme)
    for end, run in enumerate(runs):
        book.ended(one or job(), run, float(end))
    return book


def test_percentile_as_cobalt_takes_it():
    """The value at int(fraction × n) of the sorted ratios."""
    book = taught(Scheme(percentile=80, floor=0), range(10, 110, 10))
    found = book.estimate(job(), 20.0)
    assert (found.seconds, found.source, found.similar) == (90.0, "history", 10)
    assert percentile_of([0.1, 0.2], 100) == 0.2
    assert percentile_of([0.1, 0.2], 0) == 0.1


def test_too_few_similar_jobs_leave_the_request():
    book = taught(Scheme(), [10] * 9)
    assert book.estimate(job(), 20.0).seconds == 100.0
    assert book.estimate(job(), 20.0).source == "request"
    book.ended(job(), 10, 20.0)
    assert book.estimate(job(), 20.0).seconds == 50.0, "the floor"
    assert taught(Scheme(floor=0.2), [10] * 10).estimate(job(), 20.0).seconds == 20.0


def test_ratio_above_one_counts_as_one():
    assert taught(Scheme(), [130] * 10).estimate(job(), 20.0).seconds == 100.0


@pytest.mark.parametrize(
    ("key", "other", "similar"),
    [
        ("triple", job(), 10),
        ("triple", job(request=50), 0),
        ("double", job(request=50), 10),
        ("double", job(project="moon"), 0),
        ("user", job(project="moon"), 10),
        ("user", job(user="bob"), 0),
        ("project", job(user="bob"), 10),
        ("all", job(user="bob", project="moon", request=7), 10),
    ],
)
def test_what_is_similar(key, other, similar):
    assert taught(Scheme(key=key), [10] * 10).estimate(other, 20.0).similar == similar


def test_old_ends_are_forgotten():
    book = taught(Scheme(window_s=100.0, floor=0), [10] * 10 + [80] * 10)
    assert book.estimate(job(), 100.0).similar == 20
    assert book.estimate(job(), 109.5).similar == 10
    assert book.estimate(job(), 109.5).seconds == 80.0
    assert book.estimate(job(), 500.0).similar == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1.5)), max_size=40), st.integers(1, 50))
def test_window_keeps_what_a_plain_list_would(ends, window):
    ends = sorted(ends)
    ratios = Ratios(float(window))
    for end, ratio in ends:
        ratios.add("g", float(end), ratio)
    for now in (30.0, 45.0, 90.0):
        kept = sorted(min(ratio, 1.0) for end, ratio in ends if end >= now - window)
        assert list(ratios.sorted("g", now)) == kept


def test_mean_of_the_last_two():
    recent = RecentRuns()
    recent.ended(job(), 10, 1.0)
    assert recent.estimate(job(), 2.0).source == "request"
    recent.ended(job(project="moon"), 30, 2.0)
    recent.ended(job(user="bob"), 99, 2.0)
    assert recent.estimate(job(), 3.0).seconds == 20.0
    recent.ended(job(), 500, 3.0)
    assert recent.estimate(job(), 4.0).seconds == 100.0, "the request ends a job"
    recent.ended(job(), 0, 3.0)
    recent.ended(job(), 0, 3.0)
    assert recent.estimate(job(), 4.0).seconds == 1.0


def test_models_answer_goes_first():
    book = ModelFirst(taught(Scheme(), [10] * 10))
    assert book.estimate(job(model=42.0), 20.0).seconds == 42.0
    assert book.estimate(job(model=420.0), 20.0).seconds == 100.0
    assert book.estimate(job(model=42.0), 20.0).source == "model"
    assert book.estimate(job(), 20.0).source == "history"
    book.ended(job(model=42.0), 90, 21.0)
    assert book.estimate(job(), 22.0).similar == 11, "the other learns all the same"


def test_scheme_says_all_that_is_wrong():
    with pytest.raises(ConfigError) as caught:
        Scheme(key="colour", window_s=0, percentile=101, floor=2, minimum=0)
    text = str(caught.value)
    for part in (
        "'colour' is unknown; legal are all, project",
        "0 to 100",
        "0 to 1 are",
        "1 or more",
        "above 0 s",
    ):
        assert part in text
    with pytest.raises(ConfigError, match="1 or more are legal"):
        RecentRuns(0)


def test_ensemble_learns_the_share_that_a_user_needs():
    ensemble = RunTimeEnsemble()
    assert ensemble.estimate(job(request=4000.0), 0.0).source == "request"
    for end in range(40):
        one = job(request=4000.0 if end % 2 else 400.0)
        ensemble.ended(one, one.request_s / 4, float(end))
    short, long = (ensemble.estimate(job(request=request), 50.0).seconds for request in (400.0, 4000.0))
    # Two of three estimates know the request, and the mean of the last two runs is 550.
    assert 100 <= short < 300
    assert 600 < long <= 1000


@given(
    runs=st.lists(
        st.tuples(st.sampled_from("ab"), st.floats(1, 1e7), st.floats(1e-3, 1e7), st.integers(1, 10**5)),
        max_size=60,
    )
)
def test_ensemble_is_finite_and_at_most_the_request(runs):
    ensemble = RunTimeEnsemble()
    for end, (user, request, run, procs) in enumerate(runs):
        one = QueueJob(id=end, procs=procs, request_s=request, submit_s=0.0, user=user)
        assert min(1.0, request) <= ensemble.estimate(one, float(end)).seconds <= request
        ensemble.ended(one, run, float(end))
