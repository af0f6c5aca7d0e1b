"""Waiting jobs that cannot start yet: held ones, ones that wait for others to end (`submit --after`), too wide ones.

They are not in the queue's memory, so they neither delay others nor hold reservations. A job counts as submitted when
its conditions hold: the time before is nobody's wait, and a replay of the log makes the same decisions.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from apples.livequeue.records import FINISHED, TURN, JobRecord

if TYPE_CHECKING:
    from apples.livequeue.core import LiveQueue


class BlockedJobs:
    """The blocked jobs of a queue. `jobs`: ids of held ones and of those with conditions.

    too_wide : ids of jobs that have more processors than the machine has now
    """

    def __init__(self, live: LiveQueue) -> None:
        self._live = live
        self.jobs: set[int] = set()
        self.too_wide: set[int] = set()
        # Ids by the name of a job or an array, which never change.
        self._ids: dict[str, list[int]] = {}

    def order(self) -> list[int]:
        """Return all ids, those that may start sooner first."""
        return [*sorted(self.too_wide), *sorted(self.jobs)]

    def take_out(self, record: JobRecord) -> None:
        """Remove a job from here, or from the queue in memory."""
        for ids in (self.jobs, self.too_wide):
            if record.id in ids:
                ids.discard(record.id)
                return
        self._live.occupancy.release(record)

    def hold(self, job_id: int, hold: bool) -> None:
        """Hold a job or release it, within a transaction; jobs that do not wait any more stay as they are."""
        live = self._live
        record = live.jobs.get(job_id)
        if record is None or record.start_s is not None:
            return
        after = record.after
        if record.at_once and not any(condition.startswith(TURN) for condition in after):
            # Its turn goes to another job of its array.
            after = (*after, f"{TURN}:{record.at_once}")
        live.store.change(job_id, held=hold, after=after if hold else record.after)
        if hold and job_id not in self.jobs:
            self.take_out(record)
            self.jobs.add(job_id)
        live.jobs[job_id] = live.record(job_id)

    def settle(self, now: float, left: list[JobRecord]) -> list[int]:
        """Put jobs that may start into the queue, and return their ids.

        Jobs that never may start any more are cancelled and added to `left`.
        """
        eligible, before, live = [], -1, self._live
        active = Counter(record.array for job_id, record in live.jobs.items() if job_id not in self.jobs)
        # Another one may wait for a cancelled job.
        while len(left) != before:
            before = len(left)
            for job_id in sorted(self.jobs):
                record = live.jobs[job_id]
                never, pending = self._conditions(record, active[record.array])
                if never:
                    left += live.cancel(job_id, now, never)
                elif not (pending or record.held):
                    live.store.change(job_id, after=(), submitted_s=now)
                    self.jobs.discard(job_id)
                    active[record.array] += 1
                    live.enqueue(live.record(job_id))
                    eligible.append(job_id)
        return eligible

    def _conditions(self, record: JobRecord, active: int) -> tuple[str, bool]:
        """Return why the conditions of a job can never hold, or empty; and whether a job must end before they may.

        active: jobs of its array that may start or hold processors.
        """
        live, pending = self._live, False
        for condition in record.after:
            kind, _, name = condition.partition(":")
            if kind == TURN:
                pending = pending or active >= int(name)
                continue
            ids = self._ids.get(name) or self._ids.setdefault(name, live.store.named(name))
            if any(job_id in live.jobs for job_id in ids):
                pending = True
                continue
            ends = [live.record(job_id) for job_id in ids]
            failed = [end for end in ends if (end.outcome, end.exit_code) != (FINISHED, 0)]
            if kind != "any" and bool(failed) == (kind == "ok"):
                return (
                    f"it was to start after {condition}, whose outcome is: {(failed or ends)[0].outcome}",
                    False,
                )
        return "", pending
