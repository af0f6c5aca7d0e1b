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
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nws.sensors.cgrouplimits import Cgroups, CpuGroup, CpuLimit
from nws.sensors.levels import CpuSample, Level, at_ratio, changed, levels, mean_level
from nws.sensors.procfs import CpuTimes, ProcFs, TaskTimes, TaskTraits
from nws.sensors.sharing import NORMAL_WEIGHT, REALTIME_WEIGHT, SchedulingGroup, Task, weight_of_nice

#: Threads below this part of a CPU are summed: each is indistinguishable from noise.
_SMALL = 0.05
#: A CPU with less idle time than this has a process waiting for it.
_SATURATED = 0.1
#: Newest CPU samples that are kept.
_SAMPLES = 120


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
    competitors : the hierarchy of tasks on any CPU.  quotas : limits of our own groups
    visible : CPUs that the visible threads among them demand together
    home : names of our own groups in it, outermost first: where newcomers compete
    newcomers_grouped : whether a new session, such as a launcher makes for its children, is a group to the scheduler:
        it then has a normal process' weight whatever its nice value
    levels : how busy the usable CPUs were in parts of the interval, lowest first; empty where that was steady
    """

    interval_s: float
    available: Mapping[int, float]
    usable: frozenset[int]
    competitors: tuple[Task | SchedulingGroup, ...]
    quotas: tuple[Quota, ...]
    visible: float = 0.0
    home: tuple[str, ...] = ()
    newcomers_grouped: bool = False
    levels: tuple[Level, ...] = ()

    def at_levels(self) -> list[tuple[float, Load]]:
        """Return part of the time and competition at each level; at one level where the load was steady."""
        if not self.levels:
            return [(1.0, self)]
        whole, loads = mean_level(self.levels), []
        for level in self.levels:
            change = at_ratio(self.competitors, level.busy / whole.busy, self.usable)
            quotas = tuple(replace(q, members=tuple(change(t) for t in q.members)) for q in self.quotas)
            competitors = changed(self.competitors, change)
            there = replace(self, competitors=competitors, quotas=quotas, levels=())
            loads.append((level.seconds / whole.seconds, there))
        return loads


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading(CpuSample):
    running: int
    tasks: dict[int, TaskTimes]
    limits: list[CpuLimit]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A visible thread over the interval; `run` and `runnable` (ran or waited) as parts of one CPU."""

    task: Task
    run: float
    runnable: float
    niced: bool
    groups: Mapping[str, str]
    session: tuple[str, float] | None


def _own_cpu_s() -> float:
    return sum(os.times()[:4])


@dataclass(slots=True)
class _Members:
    """The tasks and groups of one group while a hierarchy is built."""

    tasks: list[Task] = field(default_factory=list)
    groups: dict[CpuGroup, _Members] = field(default_factory=dict)

    def within(self, chain: Sequence[CpuGroup]) -> _Members:
        """Return the members of the group that a chain leads to."""
        here = self
        for group in chain:
            here = here.groups.setdefault(group, _Members())
        return here

    def closed(self) -> tuple[Task | SchedulingGroup, ...]:
        """Return the hierarchy."""
        groups = (
            SchedulingGroup(name=about.name, weight=about.weight, limit=about.cpus, members=inside.closed())
            for about, inside in self.groups.items()
        )
        return (*self.tasks, *groups)


@dataclass(slots=True, kw_only=True)
class LoadMeter:
    """Watches the load between calls of `read`; the first call watches for `shortest_s` itself.

    Samples between them show how the load varies. A reading older than `longest_s` is too old for the present load and
    is repeated.
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
    _samples: deque[CpuSample] = field(default_factory=lambda: deque(maxlen=_SAMPLES))

    def sample(self) -> None:
        """Read the CPUs between two calls of `read`; raises `ProbeError` if the system does not report them."""
        cpus, _ = self.proc.cpu_times()
        self._samples.append(CpuSample(at=self.monotonic(), cpus=cpus, own_s=self.own_cpu_s()))

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
        at, own_s = self.monotonic(), self.own_cpu_s()
        tasks, limits = self.proc.tasks(), self.cgroups.cpu_limits()
        return _Reading(at=at, cpus=cpus, own_s=own_s, running=running, tasks=tasks, limits=limits)

    def _compare(self, before: _Reading, now: _Reading) -> Load:
        interval = max(now.at - before.at, 1e-9)
        rates = {c: _rates(before.cpus[c], now.cpus[c]) for c in now.cpus if c in before.cpus}
        usable = self.proc.usable_cpus() & rates.keys() or frozenset(rates)
        seen, small = self._seen(before, now, interval, rates)
        used = (now.own_s - before.own_s) / interval
        runnable = (before.running + now.running) / 2 - 1
        parents = self._parents(before, now, interval)
        brief, hidden = self._hidden(seen, parents, small + used, runnable, rates, usable, interval)
        lumped = _pieces(small, frozenset(rates)) if small > 0 else []
        home = self.cgroups.cpu_groups(self.cgroups.own_groups())
        return Load(
            interval_s=interval,
            available={c: 1.0 - r.interrupts - r.stolen for c, r in rates.items()},
            usable=usable,
            competitors=(*self._hierarchy(seen + brief, home), *lumped, *hidden),
            visible=sum(one.task.demand for one in seen) + small,
            quotas=tuple(_quotas(before.limits, now.limits, seen, used, interval, usable)),
            home=tuple(group.name for group in home),
            newcomers_grouped=not home and self.proc.groups_sessions(),
            levels=levels(before, self._samples, now, usable),
        )

    def _hierarchy(self, seen: list[_Seen], home: tuple[CpuGroup, ...]) -> tuple[Task | SchedulingGroup, ...]:
        """Return the competitors in the groups that the scheduler gives CPUs to; our own groups are among them."""
        sessions = self.proc.groups_sessions()
        chains: dict[frozenset[tuple[str, str]], tuple[CpuGroup, ...]] = {}
        top = _Members()
        top.within(home)
        for one in seen:
            if one.task.weight >= REALTIME_WEIGHT:
                top.tasks.append(one.task)
                continue
            key = frozenset(one.groups.items())
            if key not in chains:
                chains[key] = self.cgroups.cpu_groups(one.groups)
            chain = chains[key]
            if not chain and sessions and one.session is not None:
                name, weight = one.session
                chain = (CpuGroup(name=name, weight=weight, cpus=math.inf),)
            top.within(chain).tasks.append(one.task)
        return top.closed()

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

    def _parents(self, before: _Reading, now: _Reading, interval: float) -> list[tuple[TaskTraits, float]]:
        """Return processes whose children ended in the interval, and the CPUs that these used."""
        parents = []
        for pid, times in now.tasks.items():
            past = before.tasks.get(pid)
            used = (times.ended - (past.ended if past is not None else 0.0)) / interval
            if pid == self.own_pid or used < _SMALL:
                continue
            traits = self.proc.traits(pid, pid)
            if traits is not None:
                # a child may have run long before the interval
                parents.append((traits, min(used, float(len(now.cpus)))))
        return parents

    def _hidden(
        self,
        seen: list[_Seen],
        parents: list[tuple[TaskTraits, float]],
        accounted: float,
        runnable: float,
        rates: Mapping[int, _Rates],
        usable: frozenset[int],
        interval: float,
    ) -> tuple[list[_Seen], list[Task]]:
        """Return competitors behind busy time that no visible thread accounts for. Counts are in CPUs.

        Processes that started and ended in the interval compete in the groups of their parents; the others are unknown.
        """
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
        brief: list[_Seen] = []
        tasks: list[Task] = []
        if normal > tolerance:
            hidden = float(max(round(normal), round(waiting), 1)) if full else normal
            used = sum(cpus for _, cpus in parents)
            for traits, cpus in parents:
                brief += _short_lived(traits, hidden * cpus / max(used, normal))
            rest = hidden * (1.0 - used / max(used, normal))
            tasks += _pieces(rest, where) if rest > _SMALL else []
        if niced > tolerance:
            tasks += _pieces(niced, where, weight_of_nice(10))
        return brief, tasks


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
    busy = total - idle
    # time is stolen only while a process wants the CPU, so the loss is relative to that time
    stolen = steal / busy if busy > _SMALL * total else steal / total
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
        niced=traits.niced,
        groups=traits.groups,
        session=traits.session,
    )


def _short_lived(traits: TaskTraits, cpus: float) -> list[_Seen]:
    """Return competitors for short processes, halves of a CPU: each is placed anew, so none keeps a CPU to itself."""
    return [
        _Seen(
            task=replace(piece, weight=traits.weight),
            run=0.0,
            runnable=0.0,
            niced=False,
            groups=traits.groups,
            session=traits.session,
        )
        for piece in _pieces(cpus, traits.cpus, most=0.5)
    ]


def _quotas(
    before: list[CpuLimit],
    now: list[CpuLimit],
    seen: list[_Seen],
    used: float,
    interval: float,
    usable: frozenset[int],
) -> Iterable[Quota]:
    earlier = {(limit.controller, limit.group): limit.usage_s for limit in before}
    for limit in now:
        inside = [s for s in seen if _is_inside(s.groups.get(limit.controller), limit.group)]
        members = [s.task for s in inside]
        past = earlier.get((limit.controller, limit.group))
        if past is not None and limit.usage_s is not None:
            unseen = (limit.usage_s - past) / interval - used - sum(s.run for s in inside)
            if unseen > _SMALL:
                members += _pieces(unseen, usable)
        yield Quota(cpus=limit.cpus, members=tuple(members))


def _is_inside(group: str | None, ancestor: str) -> bool:
    return group is not None and (group == ancestor or group.startswith(ancestor.rstrip("/") + "/"))


def _pieces(
    cpus: float, where: frozenset[int], weight: float = NORMAL_WEIGHT, most: float = 1.0
) -> list[Task]:
    """Return as few equal tasks as can use that many CPUs, each at most `most`."""
    count = math.ceil(cpus / most - _SMALL) or 1
    return [Task(demand=min(cpus / count, most), weight=weight, cpus=where) for _ in range(count)]


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 1.0
