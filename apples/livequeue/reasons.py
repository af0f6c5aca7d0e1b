"""Reasons why a job does not run, in one sentence: processors that it needs, jobs before it, rules of backfilling.

The module only reads the live queue. Times of day are local times of this host.
"""

import time

from apples.livequeue.core import LiveQueue
from apples.livequeue.hosts import listed
from apples.livequeue.records import CANCELLED, ENDED, STARTING, JobRecord
from apples.queueing.queue import Reservation
from nws.base.durations import format_seconds


def why(live: LiveQueue, job_id: int, *, private: bool = True) -> str | None:
    """Return the reason as one sentence, or None if there is no such job. `private`: include details with paths."""
    record = live.store.job(job_id)
    if record is None:
        return None
    if record.state == ENDED:
        return _ended(record, private=private)
    if record.start_s is not None:
        return _running(live, record)
    if job_id in live.too_wide:
        return (
            f"job {job_id} waits for {_procs(record.procs)}, and the machine has {live.processors} now; it can start "
            "when the machine has grown"
        )
    return f"{_waiting(live, record)}; {_start(live, job_id)}"


def _ended(record: JobRecord, *, private: bool) -> str:
    assert record.ended_at is not None
    if record.start_s is None and record.outcome == CANCELLED:
        return f"job {record.id} was cancelled at {clock_time(record.ended_at)} before it started"
    detail = f": {record.detail}" if record.detail and private else ""
    return (
        f"job {record.id} ended at {clock_time(record.ended_at)}: {record.outcome}, "
        f"exit code {record.exit_code}{detail}"
    )


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
    others = f"{before} job{'s' * (before != 1)} and then " if before else ""
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
    believed = live.chosen.estimates.switches().beliefs(record.request_s, record.estimate_s).backfill_s
    takes = (
        f"is expected to take {_span(believed)}"
        if believed < record.request_s
        else f"asks for {_span(believed)}"
    )
    return (
        f"{promise}, and job {record.id} {takes}: it would still hold processors that job {head.job.id} needs"
    )


def _start(live: LiveQueue, job_id: int) -> str:
    now, predicted = live.clock.now(), live.predicted_starts().get(job_id)
    if predicted is None or predicted.early_s != predicted.early_s:
        return "its start cannot be predicted"
    early, late = max(predicted.early_s - now, 0.0), max(predicted.late_s - now, 0.0)
    if late - early < 1.0:
        return f"it should start in {_span(late)}, at {_at(live, predicted.late_s)}"
    latest = f"at {_at(live, predicted.late_s)} at the latest, unless a job of higher priority arrives"
    return f"it should start in {_span(early)}, {latest}"


def _procs(count: int) -> str:
    return f"{count} processor{'s' * (count != 1)}"


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
