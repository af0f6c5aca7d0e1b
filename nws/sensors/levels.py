"""Levels of load within an interval: processes that compute at the same time take more from a newcomer than the mean
of their demands shows.

Two processes that each compute half of the time leave a newcomer on two CPUs a whole one if they take turns, and 5/6
if they compute together. The counters of tasks are read once per interval, those of the CPUs each second. Both give the
demands at each level. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace

from nws.sensors.procfs import CpuTimes
from nws.sensors.sharing import SchedulingGroup, Task, tasks_of

#: Standard deviation below which the load is steady, in CPUs; of several CPUs more in proportion to the root of their
#: number. Counters have steps of 10 ms.
_STEADY = 0.1
#: Levels whose busy CPUs differ by less, relative to the range, are one.
_ALIKE = 0.25
#: Least seconds between two samples: shorter times have few steps of the counters.
_LEAST_S = 0.5
#: Tasks with a lower demand are as busy at all levels: among them are sums of many independent ones.
_SMALL = 0.1
#: Largest exponent of a demand; the least is 1 over it.
_MOST = 64.0
_HALVINGS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Seconds of an interval, and the CPUs that were busy in them."""

    seconds: float
    busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSample:
    """The counters of the CPUs. own_s : CPU seconds of this process"""

    at: float
    cpus: dict[int, CpuTimes]
    own_s: float

    def until(self, later: CpuSample, usable: Set[int]) -> Level:
        """Return how busy CPUs were between two samples, without this process. usable : the CPUs that count"""
        seconds = max(later.at - self.at, 1e-9)
        both = self.cpus.keys() & later.cpus.keys() & usable
        busy = sum(later.cpus[c].tasks - self.cpus[c].tasks for c in both) - (later.own_s - self.own_s)
        return Level(seconds=seconds, busy=max(busy, 0.0) / seconds)


def levels(
    first: CpuSample, between: Iterable[CpuSample], last: CpuSample, usable: Set[int]
) -> tuple[Level, ...]:
    """Return the levels of load, lowest first; none where the load was steady.

    Args:
        first: begins the interval
        between: in the order of time; those too close to another are left out
        last: ends it
        usable: the CPUs that count
    """
    merged = [first]
    for sample in between:
        if merged[-1].at + _LEAST_S <= sample.at <= last.at - _LEAST_S:
            merged.append(sample)
    merged.append(last)
    return _merged([one.until(then, usable) for one, then in zip(merged, merged[1:])], len(usable))


def _merged(parts: Iterable[Level], cpus: int) -> tuple[Level, ...]:
    ordered = sorted(parts, key=lambda level: level.busy)
    whole = mean_level(ordered)
    variance = sum((level.busy - whole.busy) ** 2 * level.seconds for level in ordered) / whole.seconds
    if variance < _STEADY**2 * cpus:
        return ()
    apart = (ordered[-1].busy - ordered[0].busy) * _ALIKE
    groups: list[list[Level]] = []
    for level in ordered:
        if groups and level.busy - groups[-1][0].busy <= apart:
            groups[-1].append(level)
        else:
            groups.append([level])
    return tuple(mean_level(group) for group in groups)


def mean_level(members: Sequence[Level]) -> Level:
    """Return the level of all the time of some."""
    seconds = sum(level.seconds for level in members)
    return Level(seconds=seconds, busy=sum(level.busy * level.seconds for level in members) / seconds)


def at_ratio(
    members: Iterable[Task | SchedulingGroup], ratio: float, usable: Set[int]
) -> Callable[[Task], Task]:
    """Return a function that scales a task's demand to a level of load; the same task gives the same object.

    Demands are raised to a power, the same for all tasks: busy ones stay busy, and part-time ones vary.

    Args:
        members: all tasks
        ratio: demand of all tasks at the level over their mean demand
        usable: CPUs that the level counts; tasks elsewhere keep their demand
    """
    demands = [task.demand for task in tasks_of(members) if task.cpus & usable]
    varying = [demand for demand in demands if demand >= _SMALL]
    target = ratio * sum(demands) - (sum(demands) - sum(varying))
    low, high = 1.0 / _MOST, _MOST
    for _ in range(_HALVINGS):
        power = math.sqrt(low * high)
        if sum(demand**power for demand in varying) > target:
            low = power
        else:
            high = power
    power = math.sqrt(low * high)
    made: dict[int, tuple[Task, Task]] = {}

    def change(task: Task) -> Task:
        if task.demand < _SMALL or not task.cpus & usable:
            return task
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
