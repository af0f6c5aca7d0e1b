"""Requests to the manager of a queue: one JSON line each, answered by one line. Starts no process.

If the manager ends before it answers, the client retries for a while, because another manager may start. A submission
carries a unique token, so a retry makes no second job.
"""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from apples.daemons.ipc.socketclient import DaemonClient
from apples.errors import NoDaemon
from apples.livequeue.queuemessages import QUEUE_REQUESTS, JobRow, PageRequest, QueuePage
from apples.livequeue.queuepaths import known_sockets
from apples.queueing.settings import RANGE_PERCENTILE

#: Seconds of retries after a manager was killed during a request, and seconds between them.
_RETRY_FOR_S, _RETRY_EVERY_S = 15.0, 0.1


class NoManager(NoDaemon):
    """Raised when the manager ended, or none answers."""


class QueueClient(DaemonClient):
    """One connection to a manager; a context manager."""

    daemon = "queue's manager"
    exchanges = QUEUE_REQUESTS
    absent = NoManager
    start = "start one with `apples manager --queue`, or name its socket with --socket or APPLES_QUEUE_SOCKET"
    stranger = "Remove that socket, or name the queue's with --socket or APPLES_QUEUE_SOCKET"
    connect_s = 10.0
    #: The end of a job may be waited for without limit.
    answer_s = None

    def __init__(self, given: Path | None = None) -> None:
        """Connect; see `DaemonClient`. `given`: the socket that the user names, or None."""
        super().__init__(known_sockets(given))


def ask(request: str, argument: object = None, given: Path | None = None, *, retry: bool = False) -> Any:
    """Return the answer to one request. `retry`: if the manager ends or restarts meanwhile, ask the next one."""
    until = time.monotonic() + _RETRY_FOR_S
    while True:
        try:
            with QueueClient(given) as client:
                # The next manager of this queue, and no other queue: a job must not be in two.
                given, until = client.path, time.monotonic() + _RETRY_FOR_S
                return client.ask(request, argument)
        except NoManager:
            # A manager leaves its socket for the next one. Without any there is no queue to wait for.
            left = any(path.is_socket() for path in known_sockets(given))
            if not retry or not left or time.monotonic() > until:
                raise
            time.sleep(_RETRY_EVERY_S)


def jobs_of(names: Iterable[object], given: Path | None = None) -> list[int]:
    """Return the jobs with these names, each once; the number of an array stands for all of its jobs."""
    return list(dict.fromkeys(ask("jobs", list(map(str, names)), given, retry=True)))


def ends_of(names: Iterable[object], given: Path | None = None) -> Iterator[JobRow]:
    """Wait for the jobs with these names one after the other, and yield each when it has ended."""
    for job_id in jobs_of(names, given):
        yield ask("wait", job_id, given, retry=True)


def survey(
    given: Path | None = None, *, everything: bool = False, percentile: float = RANGE_PERCENTILE
) -> QueuePage:
    """Return the whole queue, read page by page; see `PageRequest`. `everything`: include jobs that have ended."""
    request = PageRequest(all=everything, percentile=percentile)
    with QueueClient(given) as client:
        first: QueuePage = client.ask("queue", request)
        page, jobs = first, list(first.jobs)
        while isinstance(page.more, int):
            page = client.ask("queue", replace(request, after=page.more))
            jobs += page.jobs
    return replace(first, jobs=tuple(jobs), more=UNSET)
