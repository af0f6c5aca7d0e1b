"""Runs a measurement at a fixed period, and loses none silently.

APScheduler keeps the time. A run that starts late by a whole period is *missed*, one whose predecessor still runs
is *skipped*, one that raises `ProbeError` has *failed*, and starts that a late run made up for are *merged*; all
are counted. Any other error ends the schedule and is raised to the caller. Says nothing about what is measured.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nws.errors import ProbeError, UsageError

#: A day, the longest period.
_LONGEST_S = 86400.0
_SILENT = logging.NullHandler()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many runs were due, and what became of them; `merged` makes the sum come out."""

    due: int
    done: int
    failed: int
    missed: int
    skipped: int

    @property
    def merged(self) -> int:
        """Starts that fell into one later run, or that the end of the schedule cut off."""
        return max(self.due - self.done - self.failed - self.missed - self.skipped, 0)

    def __str__(self) -> str:
        lost = {n: getattr(self, n) for n in ("failed", "missed", "skipped", "merged")}
        said = ", ".join(f"{count} {name}" for name, count in lost.items() if count)
        return f"{self.done} of {self.due} runs done" + (f"; {said}" if said else "")


class Periodic:
    """Calls `job` every `period_s` seconds, the first time at once.

    report : gets one line for every run that was lost.  monotonic : seconds, tells how long it has been going
    """

    def __init__(
        self,
        job: Callable[[], object],
        period_s: float,
        *,
        report: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0.1 <= period_s <= _LONGEST_S:
            raise UsageError(f"a period of {period_s} s: expected 0.1 to {_LONGEST_S:.0f} s")
        self._job, self._period_s, self._report = job, period_s, report
        self._monotonic = monotonic
        self._counts = {"done": 0, "failed": 0, "missed": 0, "skipped": 0}
        self._start: float | None = None
        self._stop = threading.Event()
        self._error: BaseException | None = None

    def run(self, duration_s: float | None = None) -> Tally:
        """Run for `duration_s` seconds, or until `stop`; waits for the run under way. Raises what `job` raised."""
        if duration_s is not None and not 0 <= duration_s <= threading.TIMEOUT_MAX:
            raise UsageError(f"a duration of {duration_s} s: expected 0 to {threading.TIMEOUT_MAX:.0f} s")
        from apscheduler import events
        from apscheduler.executors.pool import ThreadPoolExecutor
        from apscheduler.schedulers.background import BackgroundScheduler

        scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={
                "coalesce": True,
                "max_instances": 1,
                "misfire_grace_time": max(math.ceil(self._period_s), 1),
            },
        )
        scheduler.add_listener(
            self._lost, events.EVENT_JOB_MISSED | events.EVENT_JOB_MAX_INSTANCES | events.EVENT_JOB_ERROR
        )
        scheduler.add_job(
            self._once, "interval", seconds=self._period_s, next_run_time=datetime.now(UTC), id="measure"
        )
        # what it would log is reported already; who has set up logging sees it all the same
        logging.getLogger("apscheduler").addHandler(_SILENT)
        self._start = self._monotonic()
        scheduler.start()
        try:
            self._stop.wait(duration_s)
        finally:
            scheduler.shutdown(wait=True)
        if self._error is not None:
            raise self._error
        return self.tally()

    def stop(self) -> None:
        """End `run` after the run under way; from any thread."""
        self._stop.set()

    def tally(self) -> Tally:
        """Counts so far."""
        elapsed = 0.0 if self._start is None else self._monotonic() - self._start
        accounted = sum(self._counts.values())
        # a start at the very end of the schedule is due only if it was made
        due = 0 if self._start is None else max(math.ceil(elapsed / self._period_s), accounted)
        return Tally(due=due, **self._counts)

    def _once(self) -> None:
        try:
            self._job()
        except ProbeError as error:
            self._counts["failed"] += 1
            self._report(str(error))
        except BaseException as error:
            self._error = error
            self._stop.set()
        else:
            self._counts["done"] += 1

    def _lost(self, event: Any) -> None:
        from apscheduler import events

        if event.code == events.EVENT_JOB_MAX_INSTANCES:
            self._counts["skipped"] += 1
            self._report("a run was skipped: the one before it had not ended; choose a longer period")
        elif event.code == events.EVENT_JOB_MISSED:
            self._counts["missed"] += 1
            self._report("a run was missed: this host was busy or asleep for longer than the period")
        else:
            self._error = event.exception
            self._stop.set()
