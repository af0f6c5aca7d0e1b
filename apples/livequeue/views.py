"""The queue for people and programs: one document with a row for each job. Times in seconds, ends since the epoch."""

from __future__ import annotations

import os
import time
from typing import Any

from apples.livequeue.core import LiveQueue
from apples.livequeue.records import ENDED, JobRecord
from apples.run.documents import strict

Json = dict[str, Any]

VERSION = 1

PAGE = 2000
"""Jobs in one answer: a queue of years does not fit into one line."""


def now() -> float:
    """Seconds since the epoch."""
    return time.time()


def document(live: LiveQueue, uid: int, *, everything: bool, after: int = 0) -> Json:
    """uid : who asks; commands of others are not shown.  everything : also jobs that are over.  after : only later ids

    At most `PAGE` jobs; `more` is then the last one's id, to be asked after, else null.
    """
    find = live.store.everybody if everything else live.store.present
    records = find(after, PAGE)
    rows = [row(live, record, uid) for record in records]
    head = live.queue.reservation(live.clock.now())
    found: Json = strict(
        {
            "version": VERSION,
            "processors": live.processors,
            "hosts": dict(live.machine.slots),
            "free": max(live.queue.free, 0),
            "priority": live.chosen.queue.priority,
            "backfill": live.chosen.queue.backfill,
            "estimates": live.chosen.estimates.source,
            "first": None if head is None else {"job": head.job.id, "at": live.clock.time_of_day(head.at_s)},
            "origin": live.clock.origin,
            "more": records[-1].id if len(records) == PAGE else None,
            "jobs": rows,
        }
    )
    return found


def row(live: LiveQueue, record: JobRecord, uid: int) -> Json:
    """One job. start_early, start_late : of a waiting one, since the epoch, null where nothing can be said"""
    instant, end = live.clock.now(), record.submitted_s
    waited = (instant if record.start_s is None else record.start_s) - end
    if record.start_s is None and record.freed_s is not None:
        waited = record.freed_s - end
    mine = uid in (record.uid, os.geteuid(), 0)
    found: Json = {
        "id": record.id,
        "name": record.name,
        "user": record.user,
        "project": record.project,
        "procs": record.procs,
        "hosts": dict(record.hosts),
        "request_s": record.request_s,
        "estimate_s": record.estimate_s,
        "state": record.state,
        "position": live.positions().get(record.id) if record.start_s is None else None,
        "submitted": live.clock.time_of_day(record.submitted_s),
        "waited_s": max(waited, 0.0),
        "start": None if record.start_s is None else live.clock.time_of_day(record.start_s),
        "start_early": None,
        "start_late": None,
        "backfilled": record.backfilled,
        "ended": record.ended_at,
        "held_s": record.held_s,
        "outcome": record.outcome,
        "exit_code": record.exit_code,
        "detail": record.detail,
        "attempts": record.attempts,
        "instants": {"submitted_s": record.submitted_s, "start_s": record.start_s, "freed_s": record.freed_s},
    }
    if mine:
        found |= {"command": list(record.command), "directory": record.directory, "output": record.output}
    if record.start_s is None and record.state != ENDED:
        seen = live.foreseen().get(record.id)
        if seen is not None:
            late = max(seen.late_s, instant)
            found["start_early"] = live.clock.time_of_day(max(seen.early_s, instant))
            found["start_late"] = live.clock.time_of_day(late)
    return found
