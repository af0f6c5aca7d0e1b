"""Runs jobs in time, several at once, and loses no run silently.

APScheduler keeps the time. A run that starts late by a full period is *missed*, one whose predecessor still runs is
*skipped*, one that raises `ProbeError` has *failed*, and starts that a late run made up for are *merged*; all are
counted, for each job apart. Any other error ends the schedule and is raised to the caller. APScheduler uses the wall
clock, so jobs are planned anew when the wall clock is set.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from nws.base.errors import ProbeError, UsageError
from nws.base.threads import start_all
from nws.timing.steadyclock import boot_time

#: A day, the longest period.
_LONGEST_S = 86400.0
#: How often the wall clock is looked after, and by how much it must have been set to matter, seconds.
_WATCH_S, _STEP_S = 1.0, 0.5
#: Until a paced job is tried again that found no memory, seconds.
_NO_MEMORY_S = 1.0
#: A paced job so much overdue was forgotten, seconds.
_FORGOTTEN_S = 5.0
_SILENT = logging.NullHandler()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Number of runs due, and their results; `merged` completes the sum."""

    due: int
    done: int
    failed: int
    missed: int
    skipped: int

    @property
    def merged(self) -> int:
        """Return starts that fell into one later run, or that the end of the schedule cut off."""
        return max(self.due - self.done - self.failed - self.missed - self.skipped, 0)

    def __str__(self) -> str:
        lost = {n: getattr(self, n) for n in ("failed", "missed", "skipped", "merged")}
        said = ", ".join(f"{count} {name}" for name, count in lost.items() if count)
        return f"{self.done} of {self.due} runs done" + (f"; {said}" if said else "")


@dataclass(slots=True)
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

    def lose(self, *, skipped: bool) -> str:
        """Count a run that did not take place, and return the reason."""
        if skipped:
            self.skipped += 1
            return "was skipped: the one before it had not ended; choose a longer period"
        self.missed += 1
        return "was missed: this host was busy or asleep for longer than the period"


@dataclass(slots=True, kw_only=True)
class _Job:
    """A job of the timetable. period_s : None for a job that returns the time of its next run.

    start : counter reading when the present period began.  earlier : runs that were due before
    """

    name: str
    call: Callable[[], object]
    period_s: float | None
    first_s: float
    counts: Counts = field(default_factory=Counts)
    start: float | None = None
    earlier: int = 0
    hurried: bool = False
    running: bool = False

    def wait_s(self, now: float) -> float:
        """Return seconds from `now` to the next run."""
        ahead = (self.start or now) - now
        if self.period_s is None or ahead > 0:
            return max(ahead, 0.0)
        return ahead % self.period_s

    def due(self, now: float) -> int:
        """Return runs that should have begun until `now`."""
        if self.period_s is None:
            return self.counts.accounted
        elapsed = 0.0 if self.start is None else max(now - self.start, 0.0)
        # a start at the very end of the schedule is due only if it was made
        return max(self.earlier + math.ceil(elapsed / self.period_s), self.counts.accounted)


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
        # held while jobs are planned: APScheduler blocks callers that plan during its shutdown
        self._lock = threading.Lock()
        self._closed = False
        self._error: BaseException | None = None

    def every(self, name: str, call: Callable[[], object], period_s: float, *, first_s: float = 0.0) -> None:
        """Call at a fixed period, the first time `first_s` seconds after the start; before `run`."""
        self._jobs[name] = _Job(name=name, call=call, period_s=_checked_period(period_s), first_s=first_s)

    def paced(self, name: str, call: Callable[[Counts], float], *, first_s: float = 0.0) -> None:
        """Add a job that counts its runs itself and returns the seconds until its next call.

        An exception from it ends the schedule.
        """
        job = _Job(name=name, call=lambda: None, period_s=None, first_s=first_s)
        job.call = lambda: call(job.counts)
        self._jobs[name] = job

    def set_period(self, name: str, period_s: float) -> None:
        """Change the period of a job from now on; from any thread. The same period changes nothing."""
        job = self._jobs[name]
        with self._lock:
            if job.period_s is None or _checked_period(period_s) == job.period_s:
                return
            now = self._counter()
            job.earlier, job.start = job.due(now), now
            job.period_s = period_s
            if self._scheduler is not None and not self._closed:
                self._scheduler.reschedule_job(job.name, trigger="interval", seconds=period_s)
                self._scheduler.modify_job(job.name, misfire_grace_time=_grace_s(period_s))
            # the first run of the new period is at its end
            job.start = now + period_s

    def hurry(self, name: str) -> None:
        """Call a paced job as soon as may be, or once more after the run under way; from any thread."""
        with self._lock:
            job = self._jobs[name]
            job.hurried = True
            if self._scheduler is not None and not self._closed and not job.running:
                self._plan(job, 0.0)

    def run(self, duration_s: float | None = None) -> dict[str, Tally]:
        """Run for `duration_s` seconds, or until `stop`; waits for the runs under way.

        Raises the exception of a job.
        """
        if duration_s is not None and not 0 <= duration_s <= threading.TIMEOUT_MAX:
            raise UsageError(f"a duration of {duration_s} s: expected 0 to {threading.TIMEOUT_MAX:.0f} s")
        with self._lock:
            self._start()
        try:
            self._wait(math.inf if duration_s is None else self._counter() + duration_s)
        finally:
            with self._lock:
                self._closed = True
            self._scheduler.shutdown(wait=True)
        if self._error is not None:
            raise self._error
        return self.tallies()

    def stop(self) -> None:
        """End `run` after the runs under way; from any thread."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Return whether the end has been asked for; a long job looks now and then."""
        return self._stop.is_set()

    def tallies(self) -> dict[str, Tally]:
        """Return counts of each job so far."""
        now = self._counter()
        return {job.name: Tally(due=job.due(now), **asdict(job.counts)) for job in self._jobs.values()}

    def _start(self) -> None:
        from apscheduler import events
        from apscheduler.executors.pool import ThreadPoolExecutor
        from apscheduler.schedulers.background import BackgroundScheduler

        # its log lines are reported already; a configured logger still receives them
        logging.getLogger("apscheduler").addHandler(_SILENT)
        threads = max(len(self._jobs), 1)
        executor = ThreadPoolExecutor(threads)
        start_all(executor._pool, threads)
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": executor},
            job_defaults={"coalesce": True, "max_instances": 1},
        )
        lost = events.EVENT_JOB_MISSED | events.EVENT_JOB_MAX_INSTANCES | events.EVENT_JOB_ERROR
        self._scheduler.add_listener(self._lost, lost)
        start = self._counter()
        for job in self._jobs.values():
            job.start = start + job.first_s
            paced = job.period_s is None
            # a paced job is planned anew whenever it has run, and is never too late; it does so at its very end, when
            # APScheduler still counts it as running, and sees to it itself that it does not run twice at a time
            self._scheduler.add_job(
                self._paced if paced else self._once,
                "interval",
                args=(job,),
                id=job.name,
                seconds=job.period_s or _LONGEST_S,
                next_run_time=self._date(job.first_s),
                misfire_grace_time=None if job.period_s is None else _grace_s(job.period_s),
                max_instances=1000 if paced else 1,
            )
        self._scheduler.start()

    def _wait(self, end: float) -> None:
        """Wait for the end or a stop; meanwhile check whether the wall clock is set or a run was forgotten."""
        ahead = self._wall() - self._counter()
        while (left := end - self._counter()) > 0 and not self._stop.wait(min(left, _WATCH_S)):
            step = self._wall() - self._counter() - ahead
            stepped = abs(step) > _STEP_S
            ahead += step if stepped else 0.0
            self._replan(all_jobs=stepped)

    def _replan(self, *, all_jobs: bool) -> None:
        """Plan runs when they are due by the counter: all, or those that APScheduler dropped for want of memory."""
        with self._lock:
            now = self._counter()
            for job in self._jobs.values():
                dropped = job.period_s is None and (job.start or now) < now - _FORGOTTEN_S
                if not job.running and (all_jobs or dropped):
                    self._scheduler.modify_job(job.name, next_run_time=self._date(job.wait_s(now)))

    def _date(self, delay_s: float) -> datetime:
        return datetime.fromtimestamp(self._wall() + delay_s, UTC)

    def _plan(self, job: _Job, delay_s: float) -> None:
        """Schedule the next run of a paced job."""
        delay_s = min(max(delay_s, 0.0), _LONGEST_S)
        job.start = self._counter() + delay_s
        self._scheduler.modify_job(job.name, next_run_time=self._date(delay_s))

    def _once(self, job: _Job) -> None:
        try:
            job.call()
        except (ProbeError, MemoryError) as error:
            job.counts.failed += 1
            self._report(str(error) or f"{job.name}: no memory is left")
        except BaseException as error:
            self._end(error)
        else:
            job.counts.done += 1

    def _paced(self, job: _Job) -> None:
        with self._lock:
            if job.running:
                # hurried when it was about to run anyway
                job.hurried = True
                return
            job.running, job.hurried = True, False
        try:
            delay_s = job.call()
        except MemoryError:
            job.counts.failed += 1
            self._report(f"{job.name}: no memory is left, trying again in {_NO_MEMORY_S:g} s")
            delay_s = _NO_MEMORY_S
        except BaseException as error:
            self._end(error)
            return
        assert isinstance(delay_s, float | int)
        with self._lock:
            job.running = False
            if not self._closed and not self._stop.is_set():
                self._plan(job, 0.0 if job.hurried else delay_s)

    def _end(self, error: BaseException) -> None:
        self._error = self._error or error
        self._stop.set()

    def _lost(self, event: Any) -> None:
        from apscheduler import events

        if event.code == events.EVENT_JOB_ERROR:
            self._end(event.exception)
            return
        said = f"{event.job_id}: a run" if len(self._jobs) > 1 else "a run"
        counts = self._jobs[event.job_id].counts
        self._report(f"{said} {counts.lose(skipped=event.code == events.EVENT_JOB_MAX_INSTANCES)}")


class Periodic:
    """Calls one `job` every `period_s` seconds, the first time at once.

    report : receives one line for every run that was lost.  monotonic : seconds, measures the elapsed time
    """

    def __init__(
        self,
        job: Callable[[], object],
        period_s: float,
        *,
        report: Callable[[str], None],
        monotonic: Callable[[], float] = boot_time,
    ) -> None:
        self._table = Timetable(report=report, counter=monotonic)
        self._table.every("measure", job, period_s)

    def run(self, duration_s: float | None = None) -> Tally:
        """Run for `duration_s` seconds, or until `stop`; waits for the run under way. Raises the exception of `job`."""
        return self._table.run(duration_s)["measure"]

    def stop(self) -> None:
        """End `run` after the run under way; from any thread."""
        self._table.stop()

    def tally(self) -> Tally:
        """Return counts so far."""
        return self._table.tallies()["measure"]


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
