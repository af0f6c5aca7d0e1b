"""Message-driven coscheduling on a node, without a machine manager (Yoo and Jette, section 2).

One job is *scheduled* and has nearly all of the node; every other job has a hundredth, enough to notice its messages.
A message from a scheduled sender to a job that is not scheduled asks for a switch (CMDSCH). It is granted when the
scheduled job has had its guaranteed minimum execution time (GMET). The node's own timer (CMDCSW) switches to the job
that has consumed the least CPU. The status of the sender travels with the message: messages of senders that only run
in their hundredth cause no switch.

CPU time is the mean over the processes of a job on the node. A job of 9 processes has two on most nodes of two
processors and one on the last: by the sum it would be the neediest there twice as often as elsewhere, and the timers
of its nodes would choose it at different times. Jobs that are equal within half a slice are ordered by name, which is
the same on all nodes: otherwise two nodes that once differed by a moment would choose different jobs for ever.

The paper defines the GMET as time that the scheduled job has "run at least for", and elsewhere as time that it has
"consumed". Wall-clock time is the default: a job with processes that block to wait for their peers consumes next
to nothing, and in CPU time its node would refuse the very requests that bring the peers together.

Users take turns before jobs do: the timer chooses among the jobs of the user who was scheduled for the least time, and
a message switches to another user's job only if that user had less. The hundredths of other users' jobs together take
at most a twentieth from a scheduled job.

The events are the paper's requests: `JobArrived` CMDREG, `JobLeft` CMDOUT, `SliceEnded` CMDCSW, `MessageArrived`
CMDSCH; CMDDWN is the end of the daemon, and no event of a policy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from apples.coscheduling.events import (
    JobArrived,
    JobLeft,
    MessageArrived,
    NodeEvent,
    Order,
    Process,
    SliceEnded,
)
from apples.coscheduling.nodestate import NodePolicy
from apples.errors import ConfigError
from nws.base.quantities import Time_s, TimeOrZero_s, without_units

GMET_OF = ("wall", "cpu")

#: Most CPU of the node for all waiting jobs, and for those of other users than the scheduled job's.
_WAITING_SHARE, _OTHERS_SHARE = 0.5, 0.05


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDrivenConstants:
    """Constants of message-driven coscheduling; the first two as in the paper's Figure 2.

    slice_s : time slice of the node's own timer
    gmet_s : guaranteed minimum execution time of a job that has been scheduled
    gmet_of : unit of the GMET: "wall", seconds; or "cpu", mean CPU seconds of the job's processes on the node, so
        that the guarantee does not depend on how many processes the job has there
    share : CPU share of each job that is not scheduled

    Raises `apples.errors.ConfigError` with every value that is out of range.
    """

    slice_s: Time_s = 15.0
    gmet_s: TimeOrZero_s = 5.0
    gmet_of: str = "wall"
    share: float = 0.01

    def __post_init__(self) -> None:
        problems = []
        if not (math.isfinite(self.slice_s) and self.slice_s > 0):
            problems.append(f"slice_s is {self.slice_s!r}, legal is a finite number above 0")
        if not (math.isfinite(self.gmet_s) and self.gmet_s >= 0):
            problems.append(f"gmet_s is {self.gmet_s!r}, legal is a finite number from 0")
        if self.gmet_of not in GMET_OF:
            problems.append(f"gmet_of is {self.gmet_of!r}, legal are {', '.join(map(repr, GMET_OF))}")
        if not 0 < self.share < 0.5:
            problems.append(f"share is {self.share!r}, legal is a number above 0 and below 0.5")
        if problems:
            raise ConfigError(problems)


class MessageDriven(NodePolicy):
    """One node under message-driven coscheduling."""

    needs_monitor = True
    announces_scheduled = True

    def __init__(self, constants: MessageDrivenConstants | None = None) -> None:
        super().__init__()
        self._constants = constants or MessageDrivenConstants()
        self._scheduled: str | None = None
        #: Instant at which the scheduled job was scheduled, and its CPU seconds at that instant.
        self._since = 0.0
        self._since_cpu_s = 0.0
        self._accounted = 0.0
        #: By job, CPU seconds of all its processes as of the last event, in the order of arrival.
        self._cpu_s: dict[str, float] = {}
        #: By job, number of its processes here, those that have left included, like their CPU time.
        self._processes: dict[str, int] = {}

    @property
    def scheduled(self) -> str | None:
        """The job that has the node, None if there is none."""
        return self._scheduled

    def _arrived(self, event: JobArrived) -> None:
        self._cpu_s.setdefault(event.job, 0.0)
        here = sum(process.job == event.job for process in self._here)
        self._processes[event.job] = max(here, self._processes.get(event.job, 1))
        if self._scheduled is None:
            self._schedule(event.job, event.now)

    def _left(self, event: JobLeft) -> None:
        self._cpu_s.pop(event.job, None)
        self._processes.pop(event.job, None)
        if self._scheduled == event.job:
            self._account(event.now)
            self._scheduled = None
            self._users.left(event.job)
            if self._cpu_s:
                self._schedule(self._neediest(), event.now)

    def _other(self, event: NodeEvent) -> None:
        if isinstance(event, SliceEnded):
            self._note(event.cpu_s)
            self._account(event.now)
            if self._cpu_s:
                self._schedule(self._neediest(), event.now)
        elif isinstance(event, MessageArrived):
            self._message(event)

    def _message(self, event: MessageArrived) -> None:
        job = event.process.job
        if not event.sender_scheduled or job == self._scheduled or job not in self._cpu_s:
            return
        self._note(event.cpu_s)
        if self._received(event.now) >= self._constants.gmet_s:
            self._account(event.now)
            if self._own(job) or self._users.ahead(job, str(self._scheduled)) < 0:
                self._schedule(job, event.now)

    def _account(self, now: float) -> None:
        """Add the time since the last call to the user of the scheduled job."""
        if self._scheduled is not None:
            self._users.spent(self._scheduled, now - max(self._since, self._accounted))
        self._accounted = now

    def _note(self, cpu_s: Mapping[str, float]) -> None:
        self._cpu_s.update((job, used_s) for job, used_s in cpu_s.items() if job in self._cpu_s)

    def _received(self, now: float) -> float:
        """Return the time that the scheduled job has had since it was scheduled, in units of the GMET."""
        job = self._scheduled
        if job is None:
            return math.inf
        if self._constants.gmet_of == "wall":
            return now - self._since
        return (self._cpu_s[job] - self._since_cpu_s) / self._processes[job]

    def _mean_cpu_s(self, job: str) -> float:
        """Return mean CPU seconds of the job's processes on this node."""
        return self._cpu_s[job] / self._processes[job]

    def _neediest(self) -> str:
        """Return the job of the neediest user that has had the least CPU; of equal ones, the first by name."""
        slack_s = self._constants.slice_s / 2
        jobs = self._users.neediest(slack_s)
        level = min(map(self._mean_cpu_s, jobs)) + slack_s
        return min(job for job in jobs if self._mean_cpu_s(job) <= level)

    def _schedule(self, job: str, now: float) -> None:
        if job != self._scheduled:
            self._scheduled, self._since, self._since_cpu_s = job, now, self._cpu_s[job]

    def _decide(self) -> Mapping[Process, Order]:
        # With many jobs, the hundredths of the others never leave the scheduled one less than half.
        waiting = max(len(self._cpu_s) - 1, 0)
        share = min(self._constants.share, _WAITING_SHARE / waiting) if waiting else self._constants.share
        others = 0 if self._scheduled is None else self._users.others(self._scheduled)
        foreign = min(share, _OTHERS_SHARE / others) if others else share
        scheduled = Order(share=1.0 - share * (waiting - others) - foreign * others)
        order = {True: Order(share=share), False: Order(share=foreign)}
        return {p: scheduled if p.job == self._scheduled else order[self._own(p.job)] for p in self._here}

    def _own(self, job: str) -> bool:
        """Return whether a job belongs to the user of the scheduled job."""
        return self._scheduled is None or self._users.of(job) == self._users.of(self._scheduled)
