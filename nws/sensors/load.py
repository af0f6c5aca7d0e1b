"""The competitors for this host's CPUs and their demands: two readings of the counters made into rates.

A thread that ran for r and waited for a CPU for w of T seconds would have run r/(T-w) of the time had it been alone:
that is its demand. CPU time that no visible thread accounts for (another container's processes, short-lived ones)
becomes hidden competitors. The measuring process itself never counts. Nothing is predicted here; `nws.sensors.sharing`
computes a newcomer's share. psutil's percentages are not used: they keep their last reading per thread, so that the
first value in a pool of threads is meaningless.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from nws.sensors.cgroups import Cgroups, CpuLimit
from nws.sensors.procfs import CpuTimes, ProcFs, TaskTimes, TaskTraits
from nws.sensors.sharing import NORMAL_WEIGHT, REALTIME_WEIGHT, Task, as_one_group, weight_of_nice

#: Threads below this part of a CPU are summed: each is indistinguishable from noise.
_SMALL = 0.05
#: A CPU with less idle time than this has a process waiting for it.
_SATURATED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """CPUs that a group of ours gets together, and the competitors inside it."""

    cpus: float
    members: tuple[Task, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Competition over one interval.

    interval_s : length of the interval
    available : every CPU online → part of it that is available to processes (no interrupts, not stolen), 0..1
    usable : CPUs of this process and its children
    tasks : competitors on any CPU.  quotas : limits of our own groups
    newcomers_grouped : whether a new session, such as a launcher makes for its children, is scheduled as a group:
    it then
        has a normal process' weight whatever its nice value
    """

    interval_s: float
    available: Mapping[int, float]
    usable: frozenset[int]
    tasks: tuple[Task, ...]
    quotas: tuple[Quota, ...]
    newcomers_grouped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    at: float
    cpus: dict[int, CpuTimes]
    running: int
    tasks: dict[int, TaskTimes]
    limits: list[CpuLimit]
    own_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A visible thread over the interval; `run` and `runnable` (ran or waited) as parts of one CPU."""

    task: Task
    run: float
    runnable: float
    niced: bool
    groups: Mapping[str, str]
    session: str | None


def _own_cpu_s() -> float:
    return sum(os.times()[:4])


@dataclass(slots=True, kw_only=True)
class LoadMeter:
    """Watches the load between calls of `read`; the first call watches for `shortest_s` itself.

    A reading older than `longest_s` is too old for the present load and is repeated.
    `monotonic`, `sleep`, `own_cpu_s` (CPU seconds of this process and its ended children) and the readers are arguments
    for tests.
    """

    proc: ProcFs = field(default_factory=ProcFs)
    cgroups: Cgroups = field(default_factory=Cgroups)
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    own_cpu_s: Callable[[], float] = _own_cpu_s
    own_pid: int = field(default_factory=os.getpid)
    shortest_s: float = 0.3
    longest_s: float = 120.0
    _last: _Reading | None = None

    def read(self) -> Load:
        """Return the load since the last call; raises `ProbeError` if the system does not report it."""
        age = math.inf if self._last is None else self.monotonic() - self._last.at
        if self._last is None or age > self.longest_s:
            self._last = self._now()
            age = 0.0
        if age < self.shortest_s:
            self.sleep(self.shortest_s - age)
        before, self._last = self._last, self._now()
        return self._compare(before, self._last)

    def _now(self) -> _Reading:
        cpus, running = self.proc.cpu_times()
        return _Reading(
            at=self.monotonic(),
            cpus=cpus,
            running=running,
            tasks=self.proc.tasks(),
            limits=self.cgroups.cpu_limits(),
            own_s=self.own_cpu_s(),
        )

    def _compare(self, before: _Reading, now: _Reading) -> Load:
        interval = max(now.at - before.at, 1e-9)
        rates = {c: _rates(before.cpus[c], now.cpus[c]) for c in now.cpus if c in before.cpus}
        usable = self.proc.usable_cpus() & rates.keys() or frozenset(rates)
        seen, small = self._seen(before, now, interval, rates)
        own = (now.own_s - before.own_s) / interval
        hidden = self._hidden(
            seen, small + own, (before.running + now.running) / 2 - 1, rates, usable, interval
        )
        lumped = _pieces(small, frozenset(rates)) if small > 0 else []
        return Load(
            interval_s=interval,
            available={c: 1.0 - r.interrupts - r.stolen for c, r in rates.items()},
            usable=usable,
            tasks=tuple(self._tasks(seen) + lumped + hidden),
            quotas=tuple(_quotas(before.limits, now.limits, seen, own, interval, usable)),
            newcomers_grouped=self._is_grouped(self.cgroups.own_groups()),
        )

    def _is_grouped(self, groups: Mapping[str, str]) -> bool:
        """Return whether the sessions of processes in these cgroups are groups to the scheduler."""
        return self.proc.groups_sessions() and not self.cgroups.weighs(groups)

    def _tasks(self, seen: list[_Seen]) -> list[Task]:
        """Return the competitors with the weights they have against processes of other sessions."""
        sessions: dict[str | None, list[Task]] = {}
        for one in seen:
            grouped = one.task.weight < REALTIME_WEIGHT and self._is_grouped(one.groups)
            sessions.setdefault(one.session if grouped else None, []).append(one.task)
        single = sessions.pop(None, [])
        return single + [task for members in sessions.values() for task in as_one_group(members)]

    def _seen(
        self, before: _Reading, now: _Reading, interval: float, rates: Mapping[int, _Rates]
    ) -> tuple[list[_Seen], float]:
        """Return competitors worth a look each, and the CPUs all the small ones used together."""
        seen, small = [], 0.0
        for tid, times in now.tasks.items():
            if times.pid == self.own_pid:
                continue
            past = before.tasks.get(tid)
            if past is None or past.run > times.run:
                past = TaskTimes(pid=times.pid, run=0.0, wait=0.0)
            run = min((times.run - past.run) / interval, 1.0)
            wait = None
            if times.wait is not None and past.wait is not None:
                wait = min(max((times.wait - past.wait) / interval, 0.0), 1.0 - run)
            if run + (wait or 0.0) < _SMALL:
                small += run
                continue
            traits = self.proc.traits(times.pid, tid)
            if traits is None:
                small += run
                continue
            seen.append(_competitor(run, wait, traits, rates))
        return seen, small

    def _hidden(
        self,
        seen: list[_Seen],
        accounted: float,
        runnable: float,
        rates: Mapping[int, _Rates],
        usable: frozenset[int],
        interval: float,
    ) -> list[Task]:
        """Return competitors behind busy time that no visible thread accounts for. Counts are in CPUs."""
        tolerance = _SMALL + 2 * math.sqrt(len(rates)) / (self.proc.ticks_per_s * interval)
        niced_seen = sum(s.run for s in seen if s.niced)
        normal_seen = sum(s.run for s in seen) - niced_seen + accounted
        normal = sum(r.normal for r in rates.values()) - normal_seen
        niced = sum(r.niced for r in rates.values()) - niced_seen
        waiting = runnable - sum(s.runnable for s in seen)
        everywhere = frozenset(rates)
        elsewhere = everywhere - usable
        full = _mean(rates[c].idle for c in usable) < _SATURATED
        crowded_here = bool(elsewhere) and full and _mean(rates[c].idle for c in elsewhere) > 2 * _SATURATED
        where = usable if crowded_here else everywhere
        tasks = []
        if normal > tolerance:
            count = max(round(normal), round(waiting), 1) if full else 0
            tasks += [Task(demand=1.0, cpus=where)] * count if full else _pieces(normal, where)
        if niced > tolerance:
            tasks += _pieces(niced, where, weight_of_nice(10))
        return tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """Parts of one CPU's time, 0..1; `stolen` is the part a busy process would lose to the hypervisor."""

    normal: float
    niced: float
    interrupts: float
    idle: float
    stolen: float


def _rates(before: CpuTimes, now: CpuTimes) -> _Rates:
    normal, niced = max(now.normal - before.normal, 0.0), max(now.niced - before.niced, 0.0)
    interrupts, idle = max(now.interrupts - before.interrupts, 0.0), max(now.idle - before.idle, 0.0)
    steal = max(now.steal - before.steal, 0.0)
    total = normal + niced + interrupts + idle + steal
    if total <= 0:
        return _Rates(normal=0.0, niced=0.0, interrupts=0.0, idle=1.0, stolen=0.0)
    wanted = total - idle
    # time is stolen only while a process wants the CPU, so the loss is relative to that time
    stolen = steal / wanted if wanted > _SMALL * total else steal / total
    return _Rates(
        normal=normal / total,
        niced=niced / total,
        interrupts=interrupts / total,
        idle=idle / total,
        stolen=min(stolen, 1.0 - interrupts / total),
    )


def _competitor(run: float, wait: float | None, traits: TaskTraits, rates: Mapping[int, _Rates]) -> _Seen:
    idle = _mean(rates[c].idle for c in traits.cpus if c in rates)
    if wait is None:
        # where the kernel does not count waiting, a process on full CPUs is assumed to demand a whole CPU
        wait = 0.0 if idle > _SATURATED else 1.0 - run
    alone = min(run / max(1.0 - wait, 1e-9), 1.0)
    # a task that leaves its CPUs idle is held back by its own quota, not by competitors
    demand = min(run + (alone - run) * (1.0 - idle), 1.0)
    return _Seen(
        task=Task(demand=demand, weight=traits.weight, cpus=traits.cpus),
        run=run,
        runnable=run + wait,
        niced=traits.weight < NORMAL_WEIGHT,
        groups=traits.groups,
        session=traits.session,
    )


def _quotas(
    before: list[CpuLimit],
    now: list[CpuLimit],
    seen: list[_Seen],
    own: float,
    interval: float,
    usable: frozenset[int],
) -> Iterable[Quota]:
    earlier = {(limit.controller, limit.group): limit.usage_s for limit in before}
    for limit in now:
        inside = [s for s in seen if _is_inside(s.groups.get(limit.controller), limit.group)]
        members = [s.task for s in inside]
        past = earlier.get((limit.controller, limit.group))
        if past is not None and limit.usage_s is not None:
            unseen = (limit.usage_s - past) / interval - own - sum(s.run for s in inside)
            if unseen > _SMALL:
                members += _pieces(unseen, usable)
        yield Quota(cpus=limit.cpus, members=tuple(members))


def _is_inside(group: str | None, ancestor: str) -> bool:
    return group is not None and (group == ancestor or group.startswith(ancestor.rstrip("/") + "/"))


def _pieces(cpus: float, where: frozenset[int], weight: float = NORMAL_WEIGHT) -> list[Task]:
    """Return as few equal tasks as can use that many CPUs."""
    count = math.ceil(cpus - _SMALL) or 1
    return [Task(demand=min(cpus / count, 1.0), weight=weight, cpus=where)] * count


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 1.0
