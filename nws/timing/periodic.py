"""Runs jobs in time, several at once, and loses no run silently.

APScheduler keeps the time. A run that starts late by a full period is *missed*, one whose predecessor still runs is
*skipped*, one that raises `ProbeError` has *failed*, and starts that a late run made up for are *merged*; all are
counted, for each job apart. Any other error ends the schedule and is raised to the caller. APScheduler uses the wall
clock, so jobs are planned anew when the wall clock is set.

Only the thread in `Timetable.run` changes the plan. Jobs and callers on other threads put their requests into its
queue: during a shutdown APScheduler blocks callers that plan.
"""

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from apscheduler import events
from apscheduler.executors.pool import BasePoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from nws.base.errors import ProbeError, UsageError
from nws.base.threads import started_pool
from nws.timing.steadyclock import boot_time

#: A day, the longest period.
_LONGEST_S = 86400.0
#: How often the wall clock is looked after, and by how much it must have been set to matter, seconds.
_WATCH_S, _STEP_S = 1.0, 0.5
#: Until a paced job is tried again that found no memory, seconds.
_NO_MEMORY_S = 1.0
#: A paced job so much overdue was forgotten, seconds.
_FORGOTTEN_S = 5.0
_REASONS = {
    "skipped": "was skipped: the one before it had not ended; choose a longer period",
    "missed": "was missed: this host was busy or asleep for longer than the period",
}

# APScheduler's warnings are reported already; a configured logger still receives them
logging.getLogger("apscheduler").addHandler(logging.NullHandler())


@dataclass(slots=True, kw_only=True)
class Counts:
    """Results of the runs of one job so far; each is written by one thread only."""

    done: int = 0
    failed: int = 0
    missed: int = 0
    skipped: int = 0

    @property
    def accounted(self) -> int:
        """Sum of all."""
        return self.done + self.failed + self.missed + self.skipped


@dataclass(slots=True, kw_only=True)
class Tally(Counts):
    """Number of runs due, and their results; `merged` completes the sum."""

    due: int = 0

    @property
    def merged(self) -> int:
        """Return starts that fell into one later run, or that the end of the schedule cut off."""
        return max(self.due - self.accounted, 0)

    def __str__(self) -> str:
        lost = {name: getattr(self, name) for name in ("failed", "missed", "skipped", "merged")}
        reasons = ", ".join(f"{count} {name}" for name, count in lost.items() if count)
        return f"{self.done} of {self.due} runs done" + (f"; {reasons}" if reasons else "")


class _StartedPool(BasePoolExecutor):  # type: ignore[misc]
    """APScheduler's thread pool with all threads started."""

    def __init__(self, threads: int) -> None:
        super().__init__(started_pool(threads, "timetable"))


@dataclass(slots=True, kw_only=True)
class _Job:
    """A job of the timetable. period_s : None for a job that returns the time of its next run.

    start : counter reading when the present period began, or the next paced run is due.  earlier : runs due before
    """

    name: str
    call: Callable[[], object]
    period_s: float | None
    first_s: float
    counts: Counts = field(default_factory=Counts)
    start: float = math.nan
    earlier: int = 0
    hurried: bool = False
    running: bool = False

    def wait_s(self, now: float) -> float:
        """Return seconds from `now` to the next run."""
        ahead = self.start - now
        return max(ahead, 0.0) if self.period_s is None or ahead > 0 else ahead % self.period_s

    def due(self, now: float) -> int:
        """Return runs that should have begun until `now`."""
        if self.period_s is None or math.isnan(self.start):
            return self.counts.accounted
        # a start at the very end of the schedule is due only if it was made
        return max(
            self.earlier + math.ceil(max(now - self.start, 0.0) / self.period_s), self.counts.accounted
        )


class Timetable:
    """Several jobs in one scheduler, each with its own tally and no more than one run of each at a time.

    report : receives one line for every run that was lost, with the job's name if there are several
    counter : seconds, measures the elapsed time.  wall : the clock of APScheduler
    """

    def __init__(
        self,
        *,
        report: Callable[[str], None],
        counter: Callable[[], float] = boot_time,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._report, self._counter, self._wall = report, counter, wall
        self._jobs: dict[str, _Job] = {}
        self._scheduler: Any = None
        self._stop = threading.Event()
        # changes of the plan, for the thread in `run`
        self._requests: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._error: BaseException | None = None

    def every(self, name: str, call: Callable[[], object], period_s: float, *, first_s: float = 0.0) -> None:
        """Call at a fixed period, the first time `first_s` seconds after the start; before `run`."""
        self._jobs[name] = _Job(name=name, call=call, period_s=_checked_period(period_s), first_s=first_s)

    def paced(self, name: str, call: Callable[[Counts], float], *, first_s: float = 0.0) -> None:
        """Add a job that counts its runs itself and returns the seconds until its next call.

        An exception from it ends the schedule.
        """
        job = _Job(name=name, call=lambda: None, period_s=None, first_s=first_s)

        def begin() -> float:
            job.running, job.hurried = True, False
            return call(job.counts)

        job.call = begin
        self._jobs[name] = job

    def set_period(self, name: str, period_s: float) -> None:
        """Change the period of a job from now on; from any thread. The same period changes nothing."""
        self._requests.put(partial(self._reschedule, self._jobs[name], _checked_period(period_s)))

    def hurry(self, name: str) -> None:
        """Call a paced job as soon as may be, or once more after the run under way; from any thread."""
        self._requests.put(partial(self._hurry, self._jobs[name]))

    def run(self, duration_s: float | None = None) -> dict[str, Tally]:
        """Run for `duration_s` seconds, or until `stop`; waits for the runs under way.

        Raises the exception of a job.
        """
        if duration_s is not None and not 0 <= duration_s <= threading.TIMEOUT_MAX:
            raise UsageError(f"a duration of {duration_s} s: expected 0 to {threading.TIMEOUT_MAX:.0f} s")
        self._start()
        try:
            self._wait(math.inf if duration_s is None else self._counter() + duration_s)
        finally:
            self._scheduler.shutdown(wait=True)
        if self._error is not None:
            raise self._error
        return self.tallies()

    def stop(self) -> None:
        """End `run` after the runs under way; from any thread."""
        self._stop.set()
        self._requests.put(lambda: None)

    @property
    def stopping(self) -> bool:
        """Return whether the end has been requested; a long job looks now and then."""
        return self._stop.is_set()

    def tallies(self) -> dict[str, Tally]:
        """Return counts of each job so far."""
        now = self._counter()
        return {job.name: Tally(due=job.due(now), **asdict(job.counts)) for job in self._jobs.values()}

    def _start(self) -> None:
        self._scheduler = BackgroundScheduler(
            timezone=UTC, executors={"default": _StartedPool(max(len(self._jobs), 1))}
        )
        self._scheduler.add_listener(self._on_end, events.EVENT_JOB_EXECUTED | events.EVENT_JOB_ERROR)
        self._scheduler.add_listener(self._on_loss, events.EVENT_JOB_MISSED | events.EVENT_JOB_MAX_INSTANCES)
        start = self._counter()
        for job in self._jobs.values():
            job.start = start + job.first_s
            self._scheduler.add_job(
                job.call,
                "interval",
                id=job.name,
                # the next run of a paced job is planned when this one has ended, and is never too late
                seconds=job.period_s or _LONGEST_S,
                misfire_grace_time=None if job.period_s is None else _grace_s(job.period_s),
                next_run_time=self._date(job.first_s),
                coalesce=True,
                max_instances=1,
            )
        self._scheduler.start()

    def _wait(self, end: float) -> None:
        """Change the plan as requested until the end or a stop.

        Meanwhile check whether the wall clock is set or APScheduler dropped a paced run for want of memory.
        """
        ahead, watch = self._wall() - self._counter(), self._counter() + _WATCH_S
        while (now := self._counter()) < end and not self._stop.is_set():
            try:
                self._requests.get(timeout=max(min(end, watch) - now, 0.0))()
            except queue.Empty:
                step = self._wall() - self._counter() - ahead
                stepped = abs(step) > _STEP_S
                ahead += step if stepped else 0.0
                watch = now = self._counter()
                watch += _WATCH_S
                for job in self._jobs.values():
                    dropped = job.period_s is None and job.start < now - _FORGOTTEN_S
                    if not job.running and (stepped or dropped):
                        self._plan(job, job.wait_s(now))

    def _date(self, delay_s: float) -> datetime:
        return datetime.fromtimestamp(self._wall() + delay_s, UTC)

    def _plan(self, job: _Job, delay_s: float) -> None:
        self._scheduler.modify_job(job.name, next_run_time=self._date(delay_s))

    def _pace(self, job: _Job, delay_s: float) -> None:
        """Plan the next run of a paced job, which has ended."""
        delay_s = 0.0 if job.hurried else min(max(delay_s, 0.0), _LONGEST_S)
        job.running, job.start = False, self._counter() + delay_s
        self._plan(job, delay_s)

    def _hurry(self, job: _Job) -> None:
        job.hurried = True
        if not job.running and job.start > self._counter():
            self._pace(job, 0.0)

    def _reschedule(self, job: _Job, period_s: float) -> None:
        if job.period_s in (None, period_s):
            return
        now = self._counter()
        job.earlier, job.period_s = job.due(now), period_s
        self._scheduler.reschedule_job(job.name, trigger="interval", seconds=period_s)
        self._scheduler.modify_job(job.name, misfire_grace_time=_grace_s(period_s))
        # the first run of the new period is at its end
        job.start = now + period_s

    def _on_end(self, event: Any) -> None:
        """Count a run that has ended, on its thread, and request the next one of a paced job."""
        job, error, pause_s = self._jobs[event.job_id], event.exception, event.retval
        periodic = job.period_s is not None
        if isinstance(error, MemoryError) or (periodic and isinstance(error, ProbeError)):
            job.counts.failed += 1
            pause_s = _NO_MEMORY_S
            retry = "" if periodic else f", trying again in {pause_s:g} s"
            self._try_report(str(error) or f"{job.name}: no memory is left{retry}")
        elif error is not None:
            self._end(error)
            return
        elif periodic:
            job.counts.done += 1
        if not periodic:
            self._requests.put(partial(self._pace, job, pause_s))

    def _on_loss(self, event: Any) -> None:
        """Count a run that did not take place."""
        job = self._jobs[event.job_id]
        if job.period_s is None:
            # planned by `hurry` when its run was about to begin, which serves as well
            return
        reason = "skipped" if event.code == events.EVENT_JOB_MAX_INSTANCES else "missed"
        setattr(job.counts, reason, getattr(job.counts, reason) + 1)
        run = f"{event.job_id}: a run" if len(self._jobs) > 1 else "a run"
        self._try_report(f"{run} {_REASONS[reason]}")

    def _try_report(self, line: str) -> None:
        try:
            self._report(line)
        except Exception as error:
            self._end(error)

    def _end(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop()


def total(tallies: Mapping[str, Tally]) -> Tally:
    """Return all jobs together."""
    names = ("due", "done", "failed", "missed", "skipped")
    return Tally(**{name: sum(getattr(t, name) for t in tallies.values()) for name in names})


def _checked_period(period_s: float) -> float:
    if not 0.1 <= period_s <= _LONGEST_S:
        raise UsageError(f"a period of {period_s} s: expected 0.1 to {_LONGEST_S:.0f} s")
    return period_s


def _grace_s(period_s: float) -> int:
    return max(math.ceil(period_s), 1)
