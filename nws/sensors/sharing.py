"""A fair scheduler's division of CPUs between running processes and newcomers. Pure.

The model of the CPU sensor (Wolski et al. 2000, §2.4: k runnable processes on c CPUs leave a new one about c/(k+1)),
extended to part-time, niced and pinned competitors. Every task has a weight and a demand; tasks that may move share
all CPUs in proportion to weight, none gets more than its demand, and the others take the remainder (weighted max-min).
A task pinned to one CPU stays there, so a newcomer on that CPU shares it with them, however idle the mean of all CPUs
is. Nothing is measured here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

#: Weight of nice 0 in Linux' fair scheduler; one step of nice is a factor of 1.25.
NORMAL_WEIGHT = 1024.0
IDLE_POLICY_WEIGHT = 3.0
#: A real-time task runs before every fair one.
REALTIME_WEIGHT = 1e9


def weight_of_nice(nice: int) -> float:
    """Return scheduler weight of a nice value, -20..19."""
    return NORMAL_WEIGHT * 1.25**-nice


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A competitor.

    demand : CPUs it would use were it alone, 0..1.  weight : its scheduler weight within its group
    cpus : CPUs it may run on.  new : whether it is one whose share is asked for
    """

    demand: float
    weight: float = NORMAL_WEIGHT
    cpus: frozenset[int]
    new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingGroup:
    """Competitors with one weight between them, and at most `limit` CPUs: a control group, or a session (autogroup).

    name : the same as that of the group in `home` of `joined`
    """

    name: str
    weight: float
    members: tuple[Task | SchedulingGroup, ...]
    limit: float = math.inf

    @property
    def demand(self) -> float:
        """CPUs that the members would use if nobody else ran."""
        return min(sum(member.demand for member in self.members), self.limit)


def flattened(
    members: Iterable[Task | SchedulingGroup], weight: float | None = None, granted: float = 1.0
) -> list[Task]:
    """Return the tasks of a hierarchy with the weights that they have against each other.

    A group's weight lies where its members want to run, so each gets a part of it in proportion to its own weight and
    demand. Members of a group that may not use all they want want less.

    Args:
        weight: what the members have together; None if each has its own, as at the top
        granted: part of the members' demands that the groups above them leave
    """
    members = list(members)
    total = sum(m.weight * m.demand for m in members)
    tasks = []
    for member in members:
        share = member.weight
        if weight is not None:
            share = max(weight * share * member.demand / total, 1e-6) if total > 0 else min(weight, share)
        if isinstance(member, SchedulingGroup):
            demand = sum(m.demand for m in member.members)
            left = min(member.limit / demand, 1.0) if demand > 0 else 1.0
            tasks += flattened(member.members, share, granted * left)
        else:
            tasks.append(replace(member, weight=share, demand=member.demand * granted))
    return tasks


def tasks_of(members: Iterable[Task | SchedulingGroup]) -> Iterator[Task]:
    """Yield the tasks of a hierarchy in the order of `flattened`, as they are in it."""
    for member in members:
        if isinstance(member, SchedulingGroup):
            yield from tasks_of(member.members)
        else:
            yield member


def without(
    members: Iterable[Task | SchedulingGroup], task: Task | None
) -> tuple[Task | SchedulingGroup, ...]:
    """Return a hierarchy without one task, which is found by identity."""
    return tuple(
        replace(one, members=without(one.members, task)) if isinstance(one, SchedulingGroup) else one
        for one in members
        if one is not task
    )


def joined(
    members: Iterable[Task | SchedulingGroup], home: Sequence[str], newcomers: Sequence[Task]
) -> tuple[Task | SchedulingGroup, ...]:
    """Return a hierarchy with further tasks in the group that the names of `home` lead to, empty for the top."""
    if not home:
        return (*members, *newcomers)
    return tuple(
        replace(one, members=joined(one.members, home[1:], newcomers))
        if isinstance(one, SchedulingGroup) and one.name == home[0]
        else one
        for one in members
    )


def newcomer_share(
    capacity: float, tasks: Iterable[Task], count: float, weight: float = NORMAL_WEIGHT
) -> float:
    """Return CPUs each of `count` new busy processes of `weight` gets of `capacity` CPUs that `tasks` use too.

    Weighted max-min fairness: task j gets min(demand_j, level · weight_j), and so do the newcomers, with
    a demand of one CPU each; `level` is where everything handed out equals the capacity.
    """
    pool = [*((t.demand, t.weight) for t in tasks), (count, weight * count)]
    pool.sort(key=lambda p: p[0] / p[1])
    left, weights = max(capacity, 0.0), sum(w for _, w in pool)
    for demand, portion in pool:
        if demand / portion * weights >= left:
            return min(1.0, left / weights * weight)
        left -= demand
        weights -= portion
    return 1.0


def share_of_new(
    cpus: Mapping[int, float], tasks: Sequence[Task], count: int, weight: float = NORMAL_WEIGHT
) -> float:
    """Return the CPUs of each of `count` new busy processes that may only run on `cpus`.

    cpus : CPU → part of it that is available to processes (no interrupts, not stolen), 0..1
    tasks : competitors; those that may not run on any of `cpus` do not count

    A task bound to one CPU lowers the value of that CPU to a newcomer. The movable tasks and the newcomers use as many
    CPUs as they can fill, those of highest value first, and share them fairly. Where there are more of them than CPUs,
    several are on each, so that all CPUs are loaded alike.
    """
    usable = frozenset(cpus)
    bound: dict[int, list[Task]] = {cpu: [] for cpu in cpus}
    movable = []
    for task in tasks:
        allowed = task.cpus & usable
        if len(allowed) == 1:
            bound[next(iter(allowed))].append(task)
        elif allowed:
            movable.append(task)
    worth = sorted((newcomer_share(cpus[c], bound[c], 1, weight) for c in cpus), reverse=True)
    seats = min(float(len(worth)), count + sum(t.demand for t in movable))
    load = count + sum(t.demand * t.weight for t in movable) / weight
    if load > len(cpus) == seats:
        there = [sum(t.demand * t.weight for t in bound[c]) / weight for c in cpus]
        level = _level(sorted(there), load)
        capacity = 0.0
        for cpu, competitors in zip(cpus, there):
            if (movers := level - competitors) > 0.0:
                capacity += movers * newcomer_share(cpus[cpu], bound[cpu], movers, weight)
    else:
        whole = math.floor(seats)
        capacity = sum(worth[:whole]) + (seats - whole) * (worth[whole] if whole < len(worth) else 0.0)
    return min(newcomer_share(capacity, movable, count, weight), worth[0])


def _level(there: Sequence[float], load: float) -> float:
    """Return the load of the least loaded CPUs once `load` more is spread over them. there : their loads, rising"""
    for count in range(len(there), 0, -1):
        level = (load + sum(there[:count])) / count
        if level >= there[count - 1]:
            break
    return level
