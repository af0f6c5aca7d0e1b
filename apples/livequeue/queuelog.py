"""The queue's history as a job log in Standard Workload Format, so that other policies can be tried on it.

Times are the queue's instants of submission, start and end: multiples of 1/1024 s, written exactly. A replay of the log
under the same policy starts the same jobs at the same instants. Jobs that never ran are left out. They may have held a
reservation while they waited, which the replay does not have.
"""

from collections.abc import Iterator

from apples.livequeue.queuemessages import QueuePage

_COMPLETED, _FAILED, _CANCELLED = 1, 0, 5


def swf_lines(queue: QueuePage) -> Iterator[str]:
    """Yield the lines of the log. `queue`: value of `apples.livequeue.status.document` with `everything`."""
    users: dict[str, int] = {}
    projects: dict[str, int] = {}
    yield "; Version: 2.2"
    yield "; Computer: a queue of apples"
    yield f"; UnixStartTime: {queue.origin:.0f}"
    yield f"; MaxProcs: {queue.processors}"
    yield "; Note: times in s since UnixStartTime, exact to 1/1024 s"
    for job in sorted(queue.jobs, key=lambda job: (job.instants.submitted_s, job.id)):
        submitted, start, freed = job.instants.submitted_s, job.instants.start_s, job.instants.freed_s
        if start is None or freed is None:
            continue
        status = {"finished": _COMPLETED, "cancelled": _CANCELLED}.get(job.outcome or "", _FAILED)
        user = users.setdefault(job.user, len(users) + 1)
        project = projects.setdefault(job.project, len(projects) + 1)
        fields = (job.id, submitted, start - submitted, freed - start, job.procs, -1, -1, job.procs)
        yield " ".join(
            _number(value)
            for value in (*fields, job.request_s, -1, status, user, project, -1, -1, -1, -1, -1)
        )


def _number(value: float) -> str:
    """Return the exact decimal value without an exponent: 10 binary places are 10 decimal places."""
    return f"{value:.10f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
