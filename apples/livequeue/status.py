"""Read-only requests to the manager: pages of the queue, reasons, and the end of a job for clients that wait."""

import os
import time
from typing import Any

from msgspec import UNSET

from apples.daemons.ipc.server import Client
from apples.errors import UnknownJob
from apples.livequeue.core import LiveQueue
from apples.livequeue.queuemessages import FirstJob, Instants, JobRow, PageRequest, QueuePage, answer
from apples.livequeue.reasons import why
from apples.livequeue.records import ENDED, JobRecord

VERSION = 1

PAGE = 2000
"""Most jobs of one answer, because a line has a maximum length."""


def now() -> float:
    """Return the time, s since the epoch."""
    return time.time()


def document(live: LiveQueue, uid: int, *, everything: bool, after: int = 0) -> QueuePage:
    """Return one page of the queue: at most `PAGE` jobs.

    Args:
        live: the queue.
        uid: user of the client. Commands of other users are not shown.
        everything: include jobs that have ended.
        after: only jobs with higher ids.

    Returns:
        The document. Its value `more` is the last id if there may be more jobs, else None.
    """
    find = live.store.all_jobs if everything else live.store.present
    records = find(after, PAGE)
    rows = [row(live, record, uid) for record in records]
    head = live.queue.reservation(live.clock.now())
    return QueuePage(
        processors=live.processors,
        hosts=live.machine.slots,
        free=max(live.queue.free, 0),
        priority=live.chosen.queue.priority,
        backfill=live.chosen.queue.backfill,
        estimates=live.chosen.estimates.source,
        first=None if head is None else FirstJob(job=head.job.id, at=live.clock.time_of_day(head.at_s)),
        origin=live.clock.origin,
        more=records[-1].id if len(records) == PAGE else None,
        jobs=tuple(rows),
        version=VERSION,
    )


def row(live: LiveQueue, record: JobRecord, uid: int) -> JobRow:
    """Return one job. `uid`: user of the client. Paths, command and details of other users are not shown."""
    instant = live.clock.now()
    until = next(s for s in (record.start_s, record.freed_s, instant) if s is not None)
    waits = record.start_s is None and record.state != ENDED
    predicted = live.predicted_starts().get(record.id) if waits else None
    mine = uid in (record.uid, os.geteuid(), 0)

    def at_least_now(at_s: float) -> float:
        return live.clock.time_of_day(max(at_s, instant))

    return JobRow(
        id=record.id,
        name=record.name,
        user=record.user,
        project=record.project,
        procs=record.procs,
        hosts=record.hosts,
        cpus=record.cpus,
        request_s=record.request_s,
        estimate_s=record.estimate_s,
        state=record.state,
        position=live.positions().get(record.id) if record.start_s is None else None,
        submitted=live.clock.time_of_day(record.submitted_s),
        waited_s=max(until - record.submitted_s, 0.0),
        start=None if record.start_s is None else live.clock.time_of_day(record.start_s),
        start_early=None if predicted is None else at_least_now(predicted.early_s),
        start_late=None if predicted is None else at_least_now(predicted.late_s),
        backfilled=record.backfilled,
        duties=record.duties,
        beside=record.beside,
        ended=record.ended_at,
        held_s=record.held_s,
        outcome=record.outcome,
        exit_code=record.exit_code,
        detail=record.detail if mine else None,
        attempts=record.attempts,
        instants=Instants(submitted_s=record.submitted_s, start_s=record.start_s, freed_s=record.freed_s),
        command=record.command if mine else UNSET,
        directory=record.directory if mine else UNSET,
        output=record.output if mine else UNSET,
    )


class StatusRequests:
    """The read-only requests of one queue: `queue`, `why` and `wait`."""

    def __init__(self, live: LiveQueue) -> None:
        self._live = live
        self._waiting: dict[int, list[Client]] = {}

    def answer(self, client: Client, request: str, argument: Any) -> None:
        """Answer one request, or keep the client until its job ends.

        Raises:
            UnknownJob: there is no such job.
            HistoryError: the store cannot be read.
        """
        self._live.refresh()
        if request == "queue":
            page = argument or PageRequest()
            queue = document(self._live, client.uid, everything=page.all, after=page.after)
            client.send(answer("queue", queue))
        elif request == "why":
            record = self.record(argument)
            reason = why(self._live, record.id, private=client.may_control(record.uid))
            client.send(answer("why", reason or ""))
        else:
            self._wait(client, self.record(argument))

    def record(self, job_id: int) -> JobRecord:
        """Return the job with this id; raise `UnknownJob` if there is none."""
        record = self._live.store.job(job_id)
        if record is None:
            raise UnknownJob(f"there is no job {job_id}; `apples queue --all` lists all jobs")
        return record

    def job_ended(self, record: JobRecord) -> None:
        """Answer the clients that wait for this job."""
        for client in self._waiting.pop(record.id, ()):
            self._send_end(client, record)

    def disconnected(self, client: Client) -> None:
        """Remove a client that closed its connection."""
        for clients in self._waiting.values():
            if client in clients:
                clients.remove(client)

    def _wait(self, client: Client, record: JobRecord) -> None:
        if record.freed_s is not None:
            self._send_end(client, record)
        elif client.stream.open:
            # One that has left meanwhile would be kept until the job ends.
            self._waiting.setdefault(record.id, []).append(client)

    def _send_end(self, client: Client, record: JobRecord) -> None:
        client.send(answer("ended", row(self._live, record, client.uid)))
