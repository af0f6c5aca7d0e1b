"""Sharing by need: processes share processors in proportion to their computation, and block when they wait.

The duty cycle of a process is its computation as a share of computation and waiting. In an imbalanced job the process
with most work computes nearly always, and the others wait for it: they need less of their processors. A process whose
duty cycle is a fraction of the largest one on its node gets that fraction as its weight. All processes may run at any
time. The kernel's weight of a process falls by a factor of 1.25 with each step of niceness. Source of the idea: duty
cycles from PMPI as CPU weights without gang scheduling, arXiv 2604.00377 (2026).
"""

import math
from collections.abc import Mapping

from apples.coscheduling.classes import MonitorCounts
from apples.coscheduling.events import JobArrived, Measured, NodeEvent, Order, Process, Wait
from apples.coscheduling.node import NodePolicy
from apples.coscheduling.users import NICE_STEP

#: Highest niceness that is given: a tenth of the weight.
_MOST = 10
#: A new duty cycle changes the niceness if it is at least this many steps off, so that noise changes nothing.
_CHANGE = 0.75


class ShareByNeed(NodePolicy):
    """One node that shares its processors by need."""

    needs_monitor = True

    def __init__(self) -> None:
        super().__init__()
        self._marks: dict[Process, MonitorCounts] = {}
        self._duty: dict[Process, float] = {}
        self._nice: dict[Process, int] = {}

    def _arrived(self, event: JobArrived) -> None:
        for process in event.processors:
            self._nice.setdefault(process, 0)

    def _forget(self, process: Process) -> None:
        super()._forget(process)
        for known in (self._marks, self._duty, self._nice):
            known.pop(process, None)

    def _other(self, event: NodeEvent) -> None:
        if not isinstance(event, Measured):
            return
        for process, reading in event.readings.items():
            if process not in self._here:
                continue
            seen = reading.since(self._marks.get(process, MonitorCounts()))
            self._marks[process] = reading
            if seen.t_cpu_s + seen.t_comm_s > 0:
                duty = seen.t_cpu_s / (seen.t_cpu_s + seen.t_comm_s)
                self._duty[process] = (self._duty.get(process, duty) + duty) / 2
        largest = max(self._duty.values(), default=0.0)
        for process, duty in self._duty.items():
            steps = math.log(largest / duty, NICE_STEP) if duty > 0 else math.inf
            if abs(steps - self._nice[process]) >= _CHANGE:
                self._nice[process] = round(min(steps, _MOST))

    def _decide(self) -> Mapping[Process, Order]:
        return {process: Order(wait=Wait.SPIN_BLOCK, nice=self._nice[process]) for process in self._here}
