"""Message-driven coscheduling on a node, with nobody above it (Yoo and Jette, section 2).

One job is *scheduled* and has nearly all of the node; every other job has a hundredth, enough to notice its
messages. A message for a job that is not scheduled, from a sender that is, asks for a switch (CMDSCH), which is
granted when the scheduled job has had its guaranteed minimum execution time (GMET). The node's own timer
(CMDCSW) switches to the job that has consumed the least CPU. Messages of senders that only run in their
hundredth are no reason for anything: their status travels with the message.

The events are the paper's requests: `JobArrived` CMDREG, `JobLeft` CMDOUT, `Timer` CMDCSW, `MessageArrived`
CMDSCH; CMDDWN is the end of the daemon, and nothing for a policy to decide.
"""

from __future__ import annotations

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
    Timer,
)
from apples.coscheduling.node import NodePolicy
from apples.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDrivenConstants:
    """Constants of message-driven coscheduling; the first two as in the paper's Figure 2.

    slice_s : time slice of the node's own timer
    gmet_s : guaranteed minimum execution time of a job that has been scheduled
    share : CPU share of each job that is not scheduled

    Raises `apples.errors.ConfigError` naming everything that is out of range.
    """

    slice_s: float = 15.0
    gmet_s: float = 5.0
    share: float = 0.01

    def __post_init__(self) -> None:
        problems = []
        if not (math.isfinite(self.slice_s) and self.slice_s > 0):
            problems.append(f"slice_s is {self.slice_s!r}, legal is a finite number above 0")
        if not (math.isfinite(self.gmet_s) and self.gmet_s >= 0):
            problems.append(f"gmet_s is {self.gmet_s!r}, legal is a finite number from 0")
        if not 0 < self.share < 0.5:
            problems.append(f"share is {self.share!r}, legal is a number above 0 and below 0.5")
        if problems:
            raise ConfigError(problems)


class MessageDriven(NodePolicy):
    """One node under message-driven coscheduling."""

    needs_monitor = True

    def __init__(self, constants: MessageDrivenConstants | None = None) -> None:
        super().__init__()
        self._constants = constants or MessageDrivenConstants()
        self._scheduled: str | None = None
        self._since = 0.0
        #: By job, CPU seconds consumed as far as the last timer told; in the order of arrival.
        self._cpu_s: dict[str, float] = {}

    @property
    def scheduled(self) -> str | None:
        """The job that has the node, None when there is none."""
        return self._scheduled

    def _arrived(self, event: JobArrived) -> None:
        self._cpu_s.setdefault(event.job, 0.0)
        if self._scheduled is None:
            self._schedule(event.job, event.now)

    def _left(self, event: JobLeft) -> None:
        self._cpu_s.pop(event.job, None)
        if self._scheduled == event.job:
            self._scheduled = None
            if self._cpu_s:
                self._schedule(self._neediest(), event.now)

    def _other(self, event: NodeEvent) -> None:
        if isinstance(event, Timer):
            self._cpu_s.update((job, cpu_s) for job, cpu_s in event.cpu_s.items() if job in self._cpu_s)
            if self._cpu_s:
                self._schedule(self._neediest(), event.now)
        elif isinstance(event, MessageArrived):
            self._message(event)

    def _message(self, event: MessageArrived) -> None:
        job = event.process.job
        if not event.sender_scheduled or job == self._scheduled or job not in self._cpu_s:
            return
        if event.now - self._since >= self._constants.gmet_s:
            self._schedule(job, event.now)

    def _neediest(self) -> str:
        return min(self._cpu_s, key=lambda job: self._cpu_s[job])

    def _schedule(self, job: str, now: float) -> None:
        if job != self._scheduled:
            self._scheduled, self._since = job, now

    def _decide(self) -> Mapping[Process, Order]:
        # Many jobs on one node: the hundredths of the others never leave the scheduled one less than half.
        others = max(len(self._cpu_s) - 1, 0)
        share = min(self._constants.share, 0.5 / others) if others else self._constants.share
        scheduled = Order(share=1.0 - share * others)
        waiting = Order(share=share)
        return {p: scheduled if p.job == self._scheduled else waiting for p in self._here}
