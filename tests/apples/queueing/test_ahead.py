"""Predicted starts, and queues that are built again or copied."""

import math

import pytest
from hypothesis import given, strategies as st

from apples.errors import ConfigError
from apples.queueing.ahead import predict_starts
from apples.queueing.easyqueue import JobQueue
from apples.queueing.jobs import QueueJob
from apples.queueing.settings import QueueSettings


def job(number, procs, request, submit=0.0):
    return QueueJob(id=number, procs=procs, request_s=request, submit_s=submit)


def test_what_can_never_start_has_no_start(line):
    queue = line(processors=2)
    queue.resume(job(0, 2, 10.0), None, 0.0, None)
    queue.resume(job(1, 1, 10.0), None, 0.0, None)
    assert queue.free == -1
    queue.submit(job(2, 2, 5.0))
    assert predict_starts(queue, 1.0, {0: 0.0, 1: 0.0}, {})[2].late_s == 10.0
    queue.end(0)
    queue.end(1)
    assert not math.isnan(predict_starts(queue, 1.0, {}, {})[2].late_s)


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


def test_copy_goes_its_own_way(line, ids):
    queue = line((8, 10), (8, 10))
    queue.start(0.0)
    other = queue.copy()
    other.end(0)
    assert ids(other.start(1.0)) == [1]
    assert (ids(queue.waiting), ids(queue.running)) == ([1], [0])
    with pytest.raises(ConfigError, match="there is one of that id already"):
        queue.resume(job(1, 1, 1.0), None, 0.0, None)
