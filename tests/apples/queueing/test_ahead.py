"""Sampled starts, ranges that learn, and queues that are built again."""

import pytest
from hypothesis import given, settings, strategies as st

from apples.queueing.easyqueue import JobQueue
from apples.queueing.jobs import QueueJob
from apples.queueing.runtimes import PastRuns
from apples.queueing.settings import QueueSettings
from apples.queueing.startranges import ENOUGH, ForeseenWait, SampledWait, StartRanges, learns_from


def job(number, procs, request, submit=0.0, **more):
    return QueueJob(id=number, procs=procs, request_s=request, submit_s=submit, **more)


def ended(*runs):
    """Run times of earlier jobs, as (job, seconds)."""
    past = PastRuns()
    for one, run_s in runs:
        past.ended(one, run_s)
    return past


@pytest.mark.parametrize(
    ("mine", "elapsed", "runs"),
    [
        (job(9, 1, 100.0, user="ann"), 0.0, [10.0, 20.0]),
        (job(9, 1, 100.0, user="ann"), 10.0, [20.0]),
        (job(9, 1, 100.0, user="ann"), 20.0, [30.0]),
        (job(9, 1, 300.0, user="ann"), 0.0, [30.0, 60.0, 90.0]),
        (job(9, 1, 100.0, user="eve"), 0.0, [10.0, 20.0, 30.0, 70.0]),
        (job(9, 1, 100.0, user="eve"), 80.0, [100.0]),
        (job(9, 1, 100.0, user="eve"), 100.0, []),
        (job(9, 1, 100.0, user="ann", model_s=40.0), 0.0, [40.0, 100.0]),
    ],
)
def test_runs_come_from_the_most_similar_jobs(mine, elapsed, runs):
    ann, bob = (job(1, 1, 100.0, user=user) for user in ("ann", "bob"))
    past = ended((ann, 20.0), (ann, 10.0), (job(2, 1, 200.0, user="ann"), 60.0), (bob, 70.0))
    assert past.longer_than(mine, elapsed).tolist() == pytest.approx(runs)


def test_sample_waits_without_history_uses_requests(line, ids):
    queue = line((6, 100), (8, 50), (4, 60), (2, 80))
    assert ids(queue.start(0.0)) == [0, 3]
    waits = queue.sample_waits(60.0, PastRuns())
    assert waits == {1: SampledWait(40.0, 40.0, 40.0), 2: SampledWait(90.0, 90.0, 90.0)}
    assert ids(queue.waiting) == [1, 2]
    # Job 0 has outlived its request.
    assert queue.sample_waits(120.0, PastRuns())[1].median_s == queue.settings.increment_s


def test_sample_waits_of_a_machine_that_has_shrunk(line):
    queue = line(processors=2)
    queue.resume(job(0, 2, 10.0), None, 0.0, None)
    queue.resume(job(1, 1, 10.0), None, 0.0, None)
    assert queue.free == -1
    queue.submit(job(2, 2, 5.0))
    assert queue.sample_waits(1.0, PastRuns())[2].median_s == 9.0


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 20), st.integers(1, 30)), min_size=2, max_size=40),
    st.sampled_from(["fcfs", "sjf", "wfp", "procs - wait"]),
    st.sampled_from(["easy", "conservative", "none"]),
    st.integers(0, 30),
)
def test_sample_waits_are_ordered_and_never_past(jobs, priority, backfill, now):
    queue = JobQueue(QueueSettings(priority=priority, backfill=backfill), 8)
    past = PastRuns()
    for number, (procs, request, run) in enumerate(jobs):
        queue.submit(job(number, procs, float(request), user=str(number % 3)))
        past.ended(job(number, procs, float(request), user=str(number % 2)), float(run))
    queue.start(0.0)
    free, waiting = queue.free, queue.waiting
    waits = queue.sample_waits(float(now), past)
    assert waits == queue.sample_waits(float(now), past)
    assert list(waits) == [one.id for one in waiting]
    assert all(0.0 <= one.low_s <= one.median_s <= one.high_s for one in waits.values())
    assert (queue.free, queue.waiting) == (free, waiting)


@pytest.mark.covering("percentile", "factor")
@pytest.mark.parametrize("percentile", [50.0, 80.0, 95.0])
@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_ranges_hold_as_often_as_stated(percentile, factor):
    """Starts are early, on time or late by `factor`; after 1,000 jobs by its inverse."""
    ranges, inside = StartRanges(), []
    for number in range(3000):
        median = 100.0 * (1 + number * 37 % 400)
        foreseen = ranges.foresee(SampledWait(0.9 * median, median, 1.1 * median))
        start = ranges.widened(foreseen, 50.0, percentile)
        assert 50.0 <= start.low_s <= start.median_s <= start.high_s
        wait = median * (factor if number < 1000 else 1 / factor) * 2.0 ** ((number * 7919 % 1000) / 250 - 2)
        inside.append(start.low_s <= 50.0 + wait <= start.high_s)
        assert (ranges.held is None) == (number < ENOUGH)
        ranges.learn(foreseen, wait)
    assert sum(inside[-1000:]) / 1000 == pytest.approx(percentile / 100, abs=0.04)
    assert ranges.held == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize("text", [None, "", "[1,2]", "[0,1,2,-5,3]", "[0,1,2,3,1e300]", "\0", '{"low_s": 1}'])
def test_foreseen_wait_damaged_is_ignored(text):
    assert ForeseenWait.decoded(text) is None


def test_learns_from_some_jobs_of_a_long_queue():
    assert [sum(learns_from(i, waiting) for i in range(120)) for waiting in (0, 249, 250, 1000)] == [
        120,
        120,
        60,
        24,
    ]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 20)), min_size=1, max_size=150),
    st.sampled_from(["fcfs", "sjf", "wfp", "procs - wait"]),
)
def test_queue_built_again_decides_as_the_old_one(jobs, priority):
    """Also when more jobs come than there was room for at first."""
    queue = JobQueue(QueueSettings(priority=priority), 8)
    for number, (procs, request) in enumerate(jobs):
        queue.submit(job(number, procs, float(request)))
    started = {one.id: 1.0 for one in queue.start(1.0)}
    again = JobQueue(QueueSettings(priority=priority), 8)
    for number, (procs, request) in enumerate(jobs):
        one = job(number, procs, float(request))
        if number in started:
            again.resume(one, None, 1.0, queue.expected_end_s(number))
        else:
            again.submit(one)
    assert {one.id for one in again.running} == {one.id for one in queue.running}
    assert again.free == queue.free
    now = 1.0
    while queue.running:
        now = queue.expected_end_s(queue.running[0].id)
        for number in [one.id for one in queue.running if queue.expected_end_s(one.id) == now]:
            queue.end(number)
            again.end(number)
        assert queue.start(now) == again.start(now)
    assert again.waiting == queue.waiting == ()
