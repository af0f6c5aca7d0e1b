"""Read-only requests to the manager: pages of the queue, reasons, and the end of a job for clients that wait.

Reasons why a job does not run, in one sentence: processors that it needs, jobs before it, rules of backfilling.

The module only reads the live queue. Times of day are local times of this host.
"""

import os
import time
from typing import Any

from msgspec import UNSET

from apples.daemons.ipc.unixserver import Client
from apples.errors import UnknownJob
from apples.livequeue.core import LiveQueue
from apples.livequeue.queuehosts import listed
from apples.livequeue.queuemessages import (
    LAST_JOB,
    FirstJob,
    Instants,
    JobRow,
    PageRequest,
    QueuePage,
    answer,
)
from apples.livequeue.records import CANCELLED, ENDED, STARTING, TURN, JobRecord
from apples.queueing.easyqueue import Reservation
from apples.queueing.settings import RANGE_PERCENTILE
from apples.queueing.startranges import ForeseenWait, StartRange
from nws.base.durations import format_seconds
from nws.base.records import copied
from nws.base.wording import counted

PAGE = 2000
"""Most jobs of one answer, because a line has a maximum length."""


def why(live: LiveQueue, job_id: int, *, private: bool = True) -> str | None:
    """Return the reason as one sentence, or None if there is no such job. `private`: include details with paths."""
    record = live.store.job(job_id)
    if record is None:
        return None
    if record.state == ENDED:
        return _ended(record, private=private)
    if record.start_s is not None:
        return _running(live, record)
    if job_id in live.blocked.jobs:
        return _blocked(record)
    if job_id in live.blocked.too_wide:
        return (
            f"job {job_id} waits for {_procs(record.procs)}, and the machine has {live.processors} now; it can start "
            "when the machine has grown"
        )
    return f"{_waiting(live, record)}; {_start(live, job_id)}"


def _ended(record: JobRecord, *, private: bool) -> str:
    assert record.ended_at is not None
    if record.start_s is None and record.outcome == CANCELLED:
        detail = f": {record.detail}" if record.detail else ""
        return f"job {record.id} was cancelled at {clock_time(record.ended_at)} before it started{detail}"
    detail = f": {record.detail}" if record.detail and private else ""
    return (
        f"job {record.id} ended at {clock_time(record.ended_at)}: {record.outcome}, "
        f"exit code {record.exit_code}{detail}"
    )


def _blocked(record: JobRecord) -> str:
    how = {
        "ok": "job {} has succeeded",
        "any": "job {} has ended",
        "failed": "job {} has failed",
        TURN: "fewer than {} jobs of its array are active",
    }
    reasons = [how[kind].format(name) for kind, name in (condition.split(":") for condition in record.after)]
    if record.held:
        reasons.insert(0, f"it is released (`apples release {record.id}`)")
    return f"job {record.id} is {'held' if record.held else 'not eligible'}: it waits until {' and '.join(reasons)}"


def _ends(record: JobRecord) -> tuple[float, float]:
    """Return the estimated end of a running job and its time limit, as instants in s."""
    assert record.start_s is not None
    return record.start_s + min(record.estimate_s, record.request_s), record.start_s + record.request_s


def _running(live: LiveQueue, record: JobRecord) -> str:
    assert record.start_s is not None
    now, (likely, limit) = live.clock.now(), _ends(record)
    state = "is being started" if record.state == STARTING else f"runs since {_span(now - record.start_s)}"
    ends = f"expected to end in {_span(likely - now)}, " if now < likely < limit else ""
    where = f" ({listed(record.hosts)})" if len(live.machine.slots) > 1 and record.hosts else ""
    guest = live.occupancy.guest_of(record.id)
    if live.occupancy.is_guest(record):
        where += f" beside job {record.beside}"
    elif guest is not None:
        where += f" beside job {guest.id}"
    return (
        f"job {record.id} {state} on {_procs(record.procs)}{where}; {ends}it is ended at {_at(live, limit)}"
    )


def _waiting(live: LiveQueue, record: JobRecord) -> str:
    free = max(live.queue.free, 0)
    reason = f"job {record.id} waits for {_procs(record.procs)}, {free} {'is' if free == 1 else 'are'} free"
    if record.procs > free:
        reason += _blockers(live, record.procs - free)
    if record.duties and live.chosen.queue.oversubscribe:
        reason += "; no job that shares its processors has room for it"
    head = live.queue.reservation(live.clock.now())
    backfill = live.chosen.queue.backfill
    if backfill == "conservative":
        return f"{reason}; every job before it keeps its reservation"
    if head is None:
        return reason
    if head.job.id == record.id:
        return f"{reason}; it is first in line, {_overtaking_rule(live, head)}"
    if backfill == "none":
        return f"{reason}; job {head.job.id} is first in line, and no job may overtake (backfill none)"
    return f"{reason}; {_behind(live, record, head)}"


def _blockers(live: LiveQueue, missing: int) -> str:
    """Return the jobs that must end before `missing` more processors are free."""
    needed = []
    for job in live.queue.running:
        needed.append(job)
        missing -= job.procs
        if missing <= 0:
            break
    if not needed:
        return ""
    last = needed[-1]
    now, (likely, limit) = live.clock.now(), _ends(live.jobs[last.id])
    soon = f"in {_span(likely - now)} (requested until {_at(live, limit)})" if likely > now else None
    ends = soon or f"by {_at(live, limit)}, when its requested time is over"
    before = len(needed) - 1
    others = f"{counted(before, 'job')} and then " if before else ""
    return f"; {others}job {last.id} is expected to end {ends}"


def _overtaking_rule(live: LiveQueue, head: Reservation) -> str:
    if live.chosen.queue.backfill == "none":
        return "and no job may overtake it (backfill none)"
    extra = f" or fit in the {_procs(head.extra)} that it leaves" if head.extra > 0 else ""
    return f"and only jobs that are expected to end by {_at(live, head.at_s)}{extra} may overtake it"


def _behind(live: LiveQueue, record: JobRecord, head: Reservation) -> str:
    promise = f"job {head.job.id} is first in line for {_procs(head.job.procs)} at {_at(live, head.at_s)}"
    if record.procs > live.queue.free:
        return promise
    estimate_s = live.chosen.estimates.switches().beliefs(record.request_s, record.estimate_s).backfill_s
    takes = (
        f"is expected to take {_span(estimate_s)}"
        if estimate_s < record.request_s
        else f"asks for {_span(estimate_s)}"
    )
    return (
        f"{promise}, and job {record.id} {takes}: it would still hold processors that job {head.job.id} needs"
    )


def _start(live: LiveQueue, job_id: int) -> str:
    predicted = live.starts.start(job_id)
    if predicted is None:
        return "its start cannot be predicted"
    start = f"it should start in {_span(predicted.median_s - live.clock.now())}, at {_at(live, predicted.median_s)}"
    if predicted.high_s - predicted.low_s < 1.0:
        return start
    held = f"; {live.starts.held:.0%} of such ranges held" if live.starts.held is not None else ""
    ends = f"between {_at(live, predicted.low_s)} and {_at(live, predicted.high_s)}"
    return f"{start} ({RANGE_PERCENTILE:.0f} %: {ends}{held})"


def _procs(count: int) -> str:
    return counted(count, "processor")


def _span(seconds: float) -> str:
    return format_seconds(max(round(seconds), 0))


def _at(live: LiveQueue, instant_s: float) -> str:
    return clock_time(live.clock.time_of_day(instant_s))


def clock_time(at: float) -> str:
    """Return the time of day of `at`, s since the epoch, with its date unless it is today."""
    then, now = time.localtime(at), time.localtime()
    same = then[:3] == now[:3]
    return (
        time.strftime("%H:%M:%S" if same and abs(at - time.time()) < 600 else "%H:%M", then)
        if same
        else (time.strftime("%Y-%m-%d %H:%M", then))
    )


def document(live: LiveQueue, uid: int, request: PageRequest) -> QueuePage:
    """Return one page of the queue: at most `PAGE` jobs.

    Args:
        live: the queue.
        uid: user of the client. Commands of other users are not shown.
        request: which jobs, and which ranges of predicted starts.

    Returns:
        The document. Its value `more` is the last id if there may be more jobs, else None.
    """
    find = live.store.all_jobs if request.all else live.store.present
    records = find(request.after, PAGE)
    positions = live.positions()
    rows = [
        row(
            live,
            record,
            uid,
            positions.get(record.id) if record.start_s is None else None,
            request.percentile,
        )
        for record in records
    ]
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
        ranges_held=live.starts.held,
        more=records[-1].id if len(records) == PAGE else None,
        jobs=tuple(rows),
    )


def row(
    live: LiveQueue,
    record: JobRecord,
    uid: int,
    position: int | None = None,
    percentile: float = RANGE_PERCENTILE,
) -> JobRow:
    """Return one job.

    Args:
        live: the queue.
        record: the job.
        uid: user of the client. Paths, command and details of other users are not shown.
        position: of a waiting job.
        percentile: stated share of starts inside their predicted ranges.
    """
    instant = live.clock.now()
    until = next(s for s in (record.start_s, record.freed_s, instant) if s is not None)
    if record.start_s is None:
        predicted, earliest = live.starts.start(record.id, percentile), instant
    else:
        foreseen = ForeseenWait.decoded(record.foreseen)
        predicted = None if foreseen is None else foreseen.start_range(record.submitted_s)
        earliest = record.submitted_s
    mine = uid in (record.uid, os.geteuid(), 0)

    return copied(
        JobRow,
        record,
        position=position,
        submitted=live.clock.time_of_day(record.submitted_s),
        waited_s=max(until - record.submitted_s, 0.0),
        start=None if record.start_s is None else live.clock.time_of_day(record.start_s),
        **({} if predicted is None else _predicted_times(live, predicted, earliest)),
        ended=record.ended_at,
        detail=record.detail if mine else None,
        instants=copied(Instants, record),
        command=record.command if mine else UNSET,
        directory=record.directory if mine else UNSET,
        output=record.output if mine else UNSET,
    )


def _predicted_times(live: LiveQueue, predicted: StartRange, earliest_s: float) -> dict[str, float]:
    ends = {
        "start_early": predicted.low_s,
        "start_median": predicted.median_s,
        "start_late": predicted.high_s,
    }
    return {name: live.clock.time_of_day(max(at_s, earliest_s)) for name, at_s in ends.items()}


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
            client.send(answer("queue", document(self._live, client.uid, argument or PageRequest())))
        elif request == "why":
            record = self.record(argument)
            reason = why(self._live, record.id, private=client.may_control(record.uid))
            client.send(answer("why", reason or ""))
        elif request == "jobs":
            client.send(answer("jobs", [job_id for name in argument for job_id in self._named(name)]))
        else:
            self._wait(client, self.record(argument))

    def _named(self, name: str) -> list[int]:
        ids = self._live.store.named(name)
        if not ids and ("_" in name or int(name) > LAST_JOB):
            raise UnknownJob(f"there is no job {name}; `apples queue --all` lists all jobs")
        # A request for the other jobs of a list is not refused because of one number.
        return ids or [int(name)]

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
