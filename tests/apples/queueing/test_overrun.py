"""A running job that outlives its estimate: when is it expected to end, by each of the four rules?"""

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


@recorded("apples/queueing/overruns.txt", "rule", "asked_at")
def test_after_it_the_rule_decides(answered, rule, asked_at):
    answered(promised(rule, asked_at=asked_at))
