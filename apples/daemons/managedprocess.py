"""One registered process as the node manager keeps it: its control, its monitor page and the state set last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import UNSET

from apples.coscheduling.classes import Classification, MonitorCounts, ProcessClass
from apples.coscheduling.contention import LEAST_SHARE
from apples.coscheduling.events import Wait
from apples.coscheduling.fitting import duty_cycle
from apples.daemons.nodemessages import ProcessReport
from apples.daemons.processcontrol import ProcessControl
from apples.daemons.processes import ProcessRegistration
from apples.errors import ApplesError
from apples.monitoring.page import MonitorPage
from nws.base.records import copied

#: Longest time that a running process stays stopped by another program before that is noticed, seconds.
LOOK_AGAIN_S = 0.2
#: Longest time without a quota after another program has lifted it, seconds.
LIMIT_AGAIN_S = 1.0


@dataclass(slots=True, kw_only=True)
class ManagedProcess:
    """One registered process. Every page error drops the page; the process continues without one.

    stopped_at : begin of the current stop, None while it runs.  stopped_s : total of all earlier stops, seconds
    reading, ran_s, threads : as of the last read of its page; `ran_s` is the time for which it could run
    off_s, queued_s : its time outside MPI without a CPU, and while others had the CPU
    ready_s : its running time and its time in the run queue, as of the last `share`
    looked_at : last check for a stop by another program
    wait, favoured, nice, processors, scheduled : values set last.  limited_at : last write of its quota
    known : class of its program in an earlier run, None without one
    limited : True if its limit needs pulses, because no quota can be set
    refused : reason why the manager does not accept its job
    """

    registration: ProcessRegistration
    control: ProcessControl
    page: MonitorPage | None
    arrived_at: float
    stopped_at: float | None = None
    stopped_s: float = 0.0
    wait: Wait | None = None
    favoured: bool = False
    nice: int = 0
    known: ProcessClass | None = None
    processors: float | None = None
    limited: bool = False
    limited_at: float = 0.0
    scheduled: bool | None = None
    requests: int = 0
    looked_at: float = 0.0
    refused: str | None = None
    reading: MonitorCounts = field(default_factory=MonitorCounts)
    ran_s: float = 0.0
    off_s: float = 0.0
    queued_s: float = 0.0
    threads: int = 1
    ready_s: tuple[float, float] | None = None

    @property
    def own_duty(self) -> float | None:
        """Return its duty cycle as of the last read; None if unknown, or if others had much of its CPU's time."""
        t_cpu_s, t_comm_s, _ = self.reading
        # Others had its CPU, so its partners waited for it: the times say little about the program.
        if self.queued_s > (1.0 - LEAST_SHARE) * (t_cpu_s + self.queued_s):
            return None
        return duty_cycle(t_cpu_s, t_comm_s)

    def held_s(self, now: float) -> float:
        """Return the seconds for which it was held stopped so far."""
        return self.stopped_s + (0.0 if self.stopped_at is None else now - self.stopped_at)

    def stop(self, now: float) -> None:
        """Stop it. Repeated at every heartbeat: that costs less than a check whether another program resumed it."""
        # The begin of the stop, not of the last repetition: the page subtracts all of it.
        if self.stopped_at is None:
            self.stopped_at = now
        # Always: another program may have resumed it.
        self.control.stop()

    def resume(self, now: float) -> None:
        """Let it run, also after a stop by another program."""
        if self.stopped_at is not None:
            held_s = now - self.stopped_at
            self.stopped_s += held_s
            self.stopped_at = None
            # Written before it runs, so that none of its own communications counts the time.
            try:
                self.use_page(lambda page: page.add_stopped(held_s))
            finally:
                self.control.resume()
            # It has just been resumed, so that a look in /proc would find nothing.
            self.looked_at = now
        elif now - self.looked_at >= LOOK_AGAIN_S:
            # Not resumed unconditionally: a program may handle SIGCONT in its own way.
            self.looked_at = now
            if self.control.stopped():
                self.control.resume()

    def set_wait(self, wait: Wait | None, spin_s: float) -> None:
        """Set how it is to wait, if the value is new. Without a page it waits as its MPI does."""
        if wait is not self.wait:
            self.use_page(lambda page: page.set_wait(wait, spin_s))
            self.wait = wait

    def favour(self, on: bool) -> None:
        """Set whether it runs ahead of others, if the value is new."""
        if on != self.favoured:
            self.favoured = on
            self.control.favour(on)

    def renice(self, steps: int) -> None:
        """Set its steps of niceness."""
        self.nice = steps
        self.control.renice(steps)

    def announce(self, scheduled: bool) -> None:
        """Write into its page whether its job is the scheduled one, if the value is new."""
        if scheduled != self.scheduled:
            self.scheduled = scheduled
            self.use_page(lambda page: page.set_scheduled(scheduled))

    def update_limit(self, processors: float | None, now: float) -> bool:
        """Limit it to a number of processors, None for no limit; return whether the value is new.

        A quota is written again from time to time: the watchdog may have lifted it while the node manager hung.
        """
        changed = processors != self.processors
        # Pulses need no repetition: signals are sent at each of them.
        quota = processors is not None and not self.limited
        if changed or (quota and now - self.limited_at >= LIMIT_AGAIN_S):
            self._limit(processors, now)
        return changed

    def _limit(self, processors: float | None, now: float) -> None:
        self.processors, self.limited_at = processors, now
        done = self.control.limit(processors)
        # The caller's pulses take over where the kernel has no quota for us.
        self.limited = processors is not None and not done

    def release(self, now: float) -> None:
        """Let it run like a process that is not registered."""
        self.resume(now)
        self.use_page(lambda page: page.set_wait(None))
        # Its library would go on to report messages to a node manager that is gone.
        if self.scheduled is False:
            self.use_page(lambda page: page.set_scheduled(True))
        self.stopped_s = self.held_s(now)

    def close(self) -> None:
        """Release page and control."""
        if self.page is not None:
            self.page.close()
        self.control.close()

    def read(self) -> bool:
        """Read its counts from its page; False if it has no valid page."""

        def take(page: MonitorPage) -> None:
            # With the begin of the current stop, because a stopped process cannot write its own times.
            seen = page.times(self.stopped_at)
            self.reading, self.ran_s, self.threads = seen.reading, seen.ran_s, seen.threads
            self.off_s, self.queued_s = seen.off_s, seen.queued_s

        return self.use_page(take)

    def share(self, now: float) -> float | None:
        """Return its running time since the last call as a share of the time for which it was ready to run.

        None the first time, if it was never ready, and where the kernel does not count. A process that has run counts
        as looked at: no other program has stopped it.
        """
        # Differences only: the kernel counts since the start of the process.
        before, self.ready_s = self.ready_s, self.control.ready_s()
        if before is None or self.ready_s is None:
            return None
        ran_s, queued_s = self.ready_s[0] - before[0], self.ready_s[1] - before[1]
        if ran_s > 0:
            self.looked_at = now
        return ran_s / (ran_s + queued_s) if ran_s + queued_s > 0 else None

    def has_request(self) -> bool:
        """Return whether new messages from scheduled senders have arrived since the last call."""
        has_new = False

        def count(page: MonitorPage) -> None:
            nonlocal has_new
            requests = page.requests()
            # Different, not larger: a program that starts again begins at zero.
            has_new, self.requests = requests != self.requests, requests

        self.use_page(count)
        return has_new

    def use_page(self, use: Callable[[MonitorPage], None]) -> bool:
        """Call `use` with its page; False if there is none, or its owner has damaged it. Then the page is dropped."""
        if self.page is None:
            return False
        try:
            use(self.page)
        except ApplesError:
            # The page is a file of the user: damage there must cost processes of that user only.
            self.page.close()
            self.page = None
            return False
        return True


def report_of(
    managed: ManagedProcess, now: float, *, ordered: bool, known: Classification | None, cpu: bool
) -> ProcessReport:
    """Return its report. `ordered`: the policy has an order for it. `cpu`: with CPU seconds from the kernel."""
    registration, reading = managed.registration, managed.reading if managed.page is not None else None
    return copied(
        ProcessReport,
        managed,
        job=registration.process.job,
        rank=registration.process.rank,
        ranks=registration.ranks,
        pid=registration.pid,
        uid=registration.uid,
        state="free" if not ordered else "stopped" if managed.stopped_at is not None else "runs",
        waits=None if managed.wait is None or managed.page is None else managed.wait.value,
        process_class=None if known is None else known.process_class.value,
        monitored=managed.page is not None,
        stopped_s=managed.held_s(now),
        here_s=now - managed.arrived_at,
        cpu_s=managed.control.cpu_s() if cpu else UNSET,
        **(dict.fromkeys(MonitorCounts._fields) if reading is None else reading._asdict()),
        granularity_s=reading.granularity_s if reading is not None and reading.c_comm else None,
    )
