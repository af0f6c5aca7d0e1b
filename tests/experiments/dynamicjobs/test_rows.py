"""EASY over the rows of a matrix: one row is the batch queue's EASY, more rows start more jobs, and sooner."""

import heapq
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.errors import ConfigError
from apples.queueing.jobs import QueueJob
from apples.simulation.batch.batchmachine import Replay, simulate
from apples_experiments.dynamicjobs.rows import RowQueues, Start
from apples_experiments.lublin import generate, with_load


def rows(mpl, processors=8, increment_s=300.0):
    return RowQueues(mpl=mpl, processors=processors, increment_s=increment_s)


def job(number, procs, request_s=10.0, submit_s=0.0):
    return QueueJob(id=number, procs=procs, request_s=request_s, submit_s=submit_s)


def replayed(trace, queue, promises=None):
    """Start of each job when it runs for as long as the trace says; nobody moves. promises : takes all, by job."""
    starts, ends, at = np.full(len(trace.run), np.nan), [], 0
    while at < len(trace.run) or ends:
        soonest = ends[0][0] if ends else np.inf
        now = min(soonest, trace.submit[at] if at < len(trace.run) else np.inf)
        while ends and ends[0][0] == now:
            queue.end(heapq.heappop(ends)[1], {})
        while at < len(trace.run) and trace.submit[at] == now:
            queue.submit(job(at, int(trace.procs[at]), float(trace.request[at]), float(now)))
            at += 1
        for number, _ in queue.start(now):
            starts[number] = now
            heapq.heappush(ends, (now + trace.run[number], number))
        if promises is not None and (promised := queue.promise(now)) is not None:
            promises.setdefault(queue.waiting[0].id, []).append(promised[1])
    return starts


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_one_row_it_is_the_easy_of_the_batch_queue(seed):
    trace = with_load(generate(400, 32, seed, request=1.5), 0.9)
    assert (replayed(trace, rows(1, processors=32)) == simulate(trace, Replay()).start).all()


def test_jobs_take_the_lowest_row_with_room():
    queue = rows(2)
    for number, procs in enumerate((6, 6, 2)):
        queue.submit(job(number, procs))
    assert queue.start(0.0) == (Start(0, 0), Start(1, 1), Start(2, 0))
    assert queue.promise(0.0) is None


def test_promise_is_the_row_that_is_free_soonest_and_runs_are_stretched_by_the_degree():
    queue = rows(2)
    queue.submit(job(0, 8, request_s=50.0))
    queue.submit(job(1, 8, request_s=20.0))
    queue.submit(job(2, 8))
    assert [start.job for start in queue.start(0.0)] == [0, 1]
    assert queue.promise(0.0) == (1, 40.0)


def test_short_job_overtakes_in_the_promised_row_and_any_job_in_another():
    queue = rows(2)
    queue.submit(job(0, 6, request_s=100.0))
    queue.submit(job(1, 6, request_s=20.0))
    queue.submit(job(2, 8))
    queue.start(0.0)
    assert queue.promise(0.0) == (1, 40.0)
    queue.submit(job(3, 2, request_s=1000.0))  # long: beside the job of the other row
    queue.submit(job(4, 2, request_s=21.0))  # 42 s stretched: would delay the promise
    queue.submit(job(5, 2, request_s=20.0))
    assert queue.start(0.0) == (Start(3, 0), Start(5, 1))
    assert [waiting.id for waiting in queue.waiting] == [2, 4]
    assert queue.promise(0.0) == (1, 40.0)


def test_who_moves_to_a_lower_row_leaves_room_in_its_own():
    queue = rows(2)
    for number in (0, 1, 2):
        queue.submit(job(number, 8))
    assert queue.start(0.0) == (Start(0, 0), Start(1, 1))
    queue.end(0, {1: 0})
    assert queue.start(5.0) == (Start(2, 1),)


def test_job_that_outlives_its_estimate_is_expected_to_go_on():
    queue = rows(1, increment_s=7.0)
    queue.submit(job(0, 8, request_s=10.0))
    queue.submit(job(1, 8))
    queue.start(0.0)
    assert queue.promise(12.0) == (0, 19.0)


def test_what_is_no_queue():
    with pytest.raises(ConfigError, match="degree of multiprogramming is 0, legal is a whole number from 1"):
        rows(0)
    with pytest.raises(ConfigError, match="job 1 asks for 9 processors; 1 to 8 are legal"):
        rows(1).submit(job(1, 9))


jobs_of_all_sizes = st.lists(
    st.tuples(st.integers(1, 8), st.integers(1, 50), st.integers(0, 10), st.floats(0.1, 1.0)),
    min_size=1,
    max_size=25,
)


@given(jobs=jobs_of_all_sizes, mpl=st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_no_promise_is_broken_where_estimates_are_upper_bounds_and_nobody_moves(jobs, mpl):
    """Whoever overtakes in whatever row; a promise may only get better."""
    procs, request, gaps, share = (np.array(column, float) for column in zip(*jobs, strict=True))
    trace = SimpleNamespace(
        submit=np.cumsum(gaps), procs=procs.astype(int), request=request, run=request * mpl * share
    )
    promises = {}
    starts = replayed(trace, rows(mpl), promises)
    assert not np.isnan(starts).any()
    assert (starts >= trace.submit).all()
    for number, given_s in promises.items():
        assert given_s == sorted(given_s, reverse=True)
        assert starts[number] <= given_s[-1] + 1e-9
