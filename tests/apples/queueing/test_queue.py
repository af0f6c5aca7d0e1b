"""The live queue: what goes in and comes out, and what it refuses."""

import pytest

from apples.errors import ConfigError
from apples.queueing.easyqueue import JobQueue
from apples.queueing.jobs import Beliefs, QueueJob
from apples.queueing.settings import QueueSettings


def test_jobs_start_in_order_while_they_fit(line, ids):
    queue = line((4, 10), (4, 10), (4, 10))
    assert ids(queue.start(0)) == [0, 1]
    assert (queue.free, ids(queue.waiting), ids(queue.running)) == (0, [2], [0, 1])
    queue.end(1)
    assert ids(queue.start(3)) == [2]
    assert queue.start(3) == ()
    assert queue.expected_end_s(2) == 13.0


def test_cancelled_job_leaves_and_the_next_takes_its_turn(line, ids):
    queue = line((8, 10), (8, 10), (4, 10), (2, 99))
    queue.start(0)
    queue.end(1)
    assert ids(queue.waiting) == [2, 3]
    assert queue.reservation(0).job.id == 2
    queue.end(0)
    assert ids(queue.start(1)) == [2, 3]


def test_top_may_change_while_it_waits(line, ids):
    """WFP: a short job gains faster than a long one that came before."""
    queue = line((8, 100), settings=QueueSettings(priority="wfp"))
    queue.start(0)
    queue.submit(QueueJob(id=1, procs=8, request_s=1000, submit_s=1))
    queue.start(1)
    assert queue.reservation(2).job.id == 1
    queue.submit(QueueJob(id=2, procs=8, request_s=10, submit_s=50))
    queue.start(50)
    assert queue.reservation(50).job.id == 1
    assert queue.reservation(50.4).job.id == 1
    assert queue.reservation(51).job.id == 2
    queue.end(0)
    assert ids(queue.start(60)) == [2]


def test_it_grows_with_the_jobs_in_it_and_no_further(ids):
    queue = JobQueue(QueueSettings(), 1)
    for number in range(1000):
        queue.submit(QueueJob(id=number, procs=1, request_s=5, submit_s=number))
    started = []
    for now in range(1000, 2000):
        (job,) = queue.start(now)
        started.append(job.id)
        queue.end(job.id)
        queue.submit(QueueJob(id=now, procs=1, request_s=5, submit_s=now))
    assert started == list(range(1000))
    assert ids(queue.waiting) == list(range(1000, 2000))


def test_beliefs_decide_who_may_overtake(line, ids, believed):
    jobs = ((6, 100), (8, 50), (2, 500))
    assert ids(line(*jobs).start(0)) == [0]
    assert ids(line(*jobs, beliefs={2: believed(80)}).start(0)) == [0, 2]
    assert ids(line(*jobs, beliefs={2: believed(80), 0: believed(40)}).start(0)) == [0]


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (QueueJob(id=0, procs=1, request_s=1, submit_s=0), "job 0: there is one of that id already"),
        (QueueJob(id=9, procs=9, request_s=1, submit_s=0), "asks for 9 processors; 1 to 8 are legal"),
        (QueueJob(id=9, procs=0, request_s=1, submit_s=0), "asks for 0 processors; 1 to 8 are legal"),
        (QueueJob(id=9, procs=1, request_s=0, submit_s=0), "a finite time above 0 s is legal"),
    ],
)
def test_job_that_cannot_be_queued(line, job, message):
    queue = line((8, 10))
    with pytest.raises(ConfigError, match=message):
        queue.submit(job)
    assert len(queue.waiting) == 1


def test_end_of_nobody(line):
    queue = line((8, 10), (8, 10))
    with pytest.raises(ConfigError, match=r"job 7 neither waits nor runs; jobs that do: 0, 1"):
        queue.end(7)
    with pytest.raises(ConfigError, match="jobs that do: none"):
        JobQueue(QueueSettings(), 1).end(1)


def test_nothing_waits_nothing_is_promised(line):
    queue = line((8, 10))
    queue.start(0)
    assert queue.reservation(1) is None
    assert queue.planned_start_s(0) is None
    assert queue.expected_end_s(5) is None
    with pytest.raises(ConfigError, match="a machine of 0 processors"):
        JobQueue(QueueSettings(), 0)


def test_settings_say_all_that_is_wrong():
    with pytest.raises(ConfigError) as caught:
        QueueSettings(priority="wiat", backfill="hard", overrun="kill", increment_s=0)
    text = str(caught.value)
    assert "did you mean wait?" in text
    assert "legal are none, easy, conservative" in text
    assert "legal are request, increment, doubling, half" in text
    assert "a time above 0 s" in text


def test_estimates_are_finite_times():
    with pytest.raises(ConfigError, match="finite time above 0"):
        Beliefs(priority_s=1, backfill_s=float("inf"), running_s=1)
