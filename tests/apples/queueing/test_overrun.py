"""A running job that outlives its estimate: when is it expected to end, by each of the four rules?"""

import pytest

from apples.queueing.easyqueue import JobQueue
from apples.queueing.jobs import Beliefs, QueueJob
from apples.queueing.settings import QueueSettings
from tests.transcripts import recorded


def promised(rule, *, asked_at, estimate=100.0, request=1000.0):
    """When the next job is promised the machine, if asked at that time; the running one was expected at `estimate`."""
    queue = JobQueue(QueueSettings(overrun=rule, increment_s=300), 4)
    queue.submit(
        QueueJob(id=0, procs=4, request_s=request, submit_s=0),
        Beliefs(priority_s=request, backfill_s=request, running_s=estimate),
    )
    queue.start(0)
    queue.submit(QueueJob(id=1, procs=4, request_s=10, submit_s=1))
    return queue.reservation(asked_at).at_s


@pytest.mark.parametrize("rule", ["request", "doubling", "half"])
def test_before_the_estimate_is_over_it_is_believed(rule):
    assert promised(rule, asked_at=99) == 100


@recorded("apples/queueing/overruns.txt", "rule", "asked_at")
def test_after_it_the_rule_decides(answered, rule, asked_at):
    answered(promised(rule, asked_at=asked_at))


@pytest.mark.parametrize("rule", ["request", "increment", "doubling", "half"])
def test_who_outlives_even_the_request_is_expected_soon(rule):
    assert promised(rule, asked_at=1000) == 1300
    assert promised(rule, asked_at=5000) == 5300


def test_rule_changes_who_may_overtake():
    """Expected back at its request, the late job leaves room for a long one; expected soon, it does not."""

    def overtakes(rule):
        queue = JobQueue(QueueSettings(overrun=rule), 4)
        late = Beliefs(priority_s=1000, backfill_s=1000, running_s=100)
        queue.submit(QueueJob(id=0, procs=3, request_s=1000, submit_s=0), late)
        queue.start(0)
        queue.submit(QueueJob(id=1, procs=4, request_s=10, submit_s=150))
        queue.submit(QueueJob(id=2, procs=1, request_s=700, submit_s=150))
        return [job.id for job in queue.start(150)]

    assert overtakes("request") == [2]
    assert overtakes("doubling") == []
