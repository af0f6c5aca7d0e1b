"""How the load of a host was spread over an interval: processes that compute at the same times take more from a
newcomer than the mean of their demands says.

Two processes that each compute half of the time leave a newcomer on two CPUs a whole one if they take turns, and 5/6
if they compute together. The counters of tasks are read once per interval, those of the CPUs each second; from both
come the demands of each moment. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from nws.sensors.procfs import CpuTimes
from nws.sensors.sharing import SchedulingGroup, Task, tasks_of

#: Busy CPUs that vary by less (standard deviation) are the same at all moments: counters have steps of 10 ms.
_STEADY = 0.1
#: Moments whose busy CPUs differ by less, relative to the range, are one.
_ALIKE = 0.25
#: Largest exponent of a demand, and the least is 1 over it.
_MOST = 64.0
_HALVINGS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Seconds of an interval, and the CPUs that were busy in them."""

    seconds: float
    busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """The counters of the CPUs. own_s : CPU seconds of this process"""

    at: float
    cpus: dict[int, CpuTimes]
    own_s: float

    def until(self, later: Glance) -> Moment:
        """Return how busy the CPUs were from here to there, without this process."""
        seconds = max(later.at - self.at, 0.0)
        both = self.cpus.keys() & later.cpus.keys()
        busy = sum(later.cpus[c].tasks - self.cpus[c].tasks for c in both) - (later.own_s - self.own_s)
        return Moment(seconds=seconds, busy=max(busy, 0.0) / max(seconds, 1e-9))


def merged(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """Return few moments that differ; none where the load was steady."""
    ordered = sorted((m for m in moments if m.seconds > 0.0), key=lambda m: m.busy)
    whole = sum(m.seconds for m in ordered)
    if not ordered:
        return ()
    mean = sum(m.busy * m.seconds for m in ordered) / whole
    if math.sqrt(sum((m.busy - mean) ** 2 * m.seconds for m in ordered) / whole) < _STEADY:
        return ()
    apart = (ordered[-1].busy - ordered[0].busy) * _ALIKE
    groups: list[list[Moment]] = []
    for one in ordered:
        if groups and one.busy - groups[-1][0].busy <= apart:
            groups[-1].append(one)
        else:
            groups.append([one])
    return tuple(
        Moment(seconds=seconds, busy=sum(m.busy * m.seconds for m in group) / seconds)
        for group in groups
        for seconds in [sum(m.seconds for m in group)]
    )


def at_ratio(members: Iterable[Task | SchedulingGroup], ratio: float) -> Callable[[Task], Task]:
    """Return the function of a task to the task as it was when all together demanded `ratio` times their mean.

    Demands are raised to a power, the same for all: a busy task is busy at every moment, and part-time ones vary. The
    same task gives the same object.
    """
    demands = [task.demand for task in tasks_of(members)]
    wanted = ratio * sum(demands)
    low, high = 1.0 / _MOST, _MOST
    for _ in range(_HALVINGS):
        power = math.sqrt(low * high)
        if sum(demand**power for demand in demands) > wanted:
            low = power
        else:
            high = power
    power = math.sqrt(low * high)
    made: dict[int, tuple[Task, Task]] = {}

    def change(task: Task) -> Task:
        # the task itself is kept, so that no other gets its number
        return made.setdefault(id(task), (task, replace(task, demand=task.demand**power)))[1]

    return change


def changed(
    members: Iterable[Task | SchedulingGroup], change: Callable[[Task], Task]
) -> tuple[Task | SchedulingGroup, ...]:
    """Return a hierarchy with every task changed."""
    return tuple(
        replace(one, members=changed(one.members, change))
        if isinstance(one, SchedulingGroup)
        else change(one)
        for one in members
    )
