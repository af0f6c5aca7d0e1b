"""CPU sensor: the shares of a new process, of a running one, and of one process per CPU.

Passive first: the competitors (`nws.sensors.load`), and a fair scheduler's division of the CPUs among them and a
newcomer (`nws.sensors.sharing`), within affinity masks and cgroup quotas. A newcomer is a process in a session of its
own, as launchers start them. Effects outside the model (groups with weights of their own, simultaneous multithreading,
a hypervisor that steals only from busy CPUs) show in an occasional short spin probe; the smoothed difference corrects
the passive reading. Source: Wolski et al. 2000, §2.4, and the NWS CPU sensor it describes.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice

from nws.sensors.load import Load, LoadMeter
from nws.sensors.sharing import (
    IDLE_POLICY_WEIGHT,
    NORMAL_WEIGHT,
    SchedulingGroup,
    Task,
    flattened,
    joined,
    newcomer_share,
    share_of_new,
    tasks_of,
    weight_of_nice,
    without,
)
from nws.sensors.spin import spin
from nws.series import Measurement, Resource, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """CPU shares of processes: one new, one running, and one new per usable CPU together.

    quota, limit : upper limits by our cgroups for one newcomer, and for one per usable CPU together; infinite without
    """

    new: float
    running: float
    capacity: float
    quota: float = math.inf
    limit: float = math.inf

    def corrected(self, bias: float, cpus: int) -> Shares:
        """Return the shares within their limits. bias : error of `new`.  cpus : number of usable ones"""
        free = min(max(self.new + bias, 0.0), 1.0)
        new = min(free, self.quota)
        running = min(max(self.running + bias, new), 1.0, max(self.quota, self.running))
        correction = free / self.new if self.new > 0 else 1.0
        capacity = max(min(self.capacity * correction, float(cpus), self.limit), new)
        return replace(self, new=new, running=running, capacity=capacity)


def _mean(levels: Sequence[tuple[float, Shares]]) -> Shares:
    """Return the mean of shares with weights, whose sum is 1."""
    means = {each.name: sum(part * getattr(s, each.name) for part, s in levels) for each in fields(Shares)}
    return Shares(**means)


@dataclass(slots=True, kw_only=True)
class CpuSensor:
    """Measures CPU_NEW, CPU_RUNNING and CPU_CAPACITY of this host, and CPU_LIMIT under a quota.

    meter : the competitors.  probe : duration in s → share of one CPU of a busy loop
    probe_s : length of a probe.  probe_every : measurements between probes, unless the passive reading moves by more
        than `moved` before
    rest_s : least seconds after a probe, and more in proportion after a longer one: 0.4 % of a CPU under any load
    gain : weight of a new probe in the smoothed bias
    doubt : difference from which a second probe of `long_s` decides, as the model does not hold
    nice : nice value that our child processes inherit
    """

    host: str
    clock: Callable[[], float] = time.time
    meter: LoadMeter = field(default_factory=LoadMeter)
    probe: Callable[[float], float] = spin
    probe_s: float = 0.1
    probe_every: int = 10
    moved: float = 0.1
    rest_s: float = 30.0
    gain: float = 0.25
    doubt: float = 0.15
    long_s: float = 1.0
    nice: int = field(default_factory=lambda: os.nice(0))
    _bias: float = 0.0
    _since_probe: int | None = None
    _probed_at: float = 0.0
    _rests_until: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sample(self) -> None:
        """Read the CPUs between two measurements, about once a second, so that these know how the load varies.

        From any thread; waits for a measurement under way, whose probe is no load. Raises `ProbeError`.
        """
        with self._lock:
            self.meter.sample()

    def measure(self) -> list[Measurement]:
        """Return the readings, after a short look of its own at first; raises `ProbeError`."""
        with self._lock:
            return self._measure()

    def _measure(self) -> list[Measurement]:
        load = self.meter.read()
        weight = NORMAL_WEIGHT if load.newcomers_grouped else weight_of_nice(self.nice)
        levels = _at_levels(load, weight)
        bias = self._correction(_mean(levels), load, weight)
        final = _mean([(part, each.corrected(bias, len(load.usable))) for part, each in levels])
        now = self.clock()
        values = {
            Resource.CPU_NEW: final.new,
            Resource.CPU_RUNNING: final.running,
            Resource.CPU_CAPACITY: final.capacity,
        }
        if load.quotas:
            values[Resource.CPU_LIMIT] = min(quota.cpus for quota in load.quotas)
        return [Measurement(Series(resource, self.host), now, value) for resource, value in values.items()]

    def _correction(self, passive: Shares, load: Load, weight: float) -> float:
        """Return the value to add to the passive reading; starts a probe when one is due, and updates the bias."""
        if passive.quota < passive.new:
            # the kernel enforces a quota to the letter, and lets a probe shorter than its period run free
            return self._bias
        now = self.meter.monotonic()
        moved = abs(passive.new - self._probed_at) > self.moved
        due = self._since_probe is None or moved or self._since_probe >= self.probe_every
        # a probe sees one level of a load that varies, and says nothing about the others
        if not due or now < self._rests_until or load.levels:
            self._since_probe = (self._since_probe or 0) + 1
            # a bias learned under another load does not hold under this one
            return 0.0 if moved else self._bias
        low, high = _placements(passive.new, load)
        got, spent_s = self.probe(self.probe_s), self.probe_s
        difference = got - min(max(got, low), high)
        old = 0.0 if moved else self._bias
        self._bias = old + self.gain * (difference - old)
        if self.gain and abs(difference - old) > self.doubt:
            long = self.probe(self.long_s)
            during = self.meter.read()
            # What others began or ended meanwhile is no error of the model. Short processes get less beside a probe,
            # and none is seen waiting: where only they changed, the load is the same.
            same = abs(during.visible - load.visible) < self.moved
            self._bias = long - (passive if same else shares(during, weight)).new
            spent_s += self.long_s
        self._since_probe, self._probed_at = 1, passive.new
        self._rests_until = now + self.rest_s * spent_s / self.probe_s
        return self._bias


def shares(load: Load, weight: float = NORMAL_WEIGHT) -> Shares:
    """Return the shares of processes of `weight` under `load`, in the mean over its levels. Pure.

    `running` is the share of a newcomer in the place of the weightiest competitor; `new` and `capacity` ignore quotas,
    which `quota` and `limit` return.
    """
    return _mean(_at_levels(load, weight))


def _at_levels(load: Load, weight: float) -> list[tuple[float, Shares]]:
    """Return part of the time and shares at each level."""
    rivals = [
        (flat.demand * flat.weight, flat.demand, index)
        for index, flat in enumerate(flattened(load.competitors))
        if flat.cpus & load.usable
    ]
    *_, busiest = max(rivals, key=lambda rival: rival[:2], default=(None,))
    return [(part, _shares(level, weight, busiest)) for part, level in load.at_levels()]


def _shares(load: Load, weight: float, busiest: int | None) -> Shares:
    """Return the shares at one level. busiest : the weightiest competitor, its place in the order of `tasks_of`"""
    count = len(load.usable)
    replaced = None if busiest is None else next(islice(tasks_of(load.competitors), busiest, None))
    others = without(load.competitors, replaced)
    # the one in whose place it stands may be a member of the quota's group, or not; it is, if it runs there
    running = min(_share(load, others, 1, weight), _quota_share(load, 1, weight, left_out=replaced))
    return Shares(
        new=_share(load, load.competitors, 1, weight),
        running=running,
        capacity=count * _share(load, load.competitors, count, weight),
        quota=_quota_share(load, 1, weight),
        limit=count * _quota_share(load, count, weight),
    )


def _placements(share: float, load: Load) -> tuple[float, float]:
    """Return the lowest and highest share that a short probe may see if `share` is the long-run value.

    Where competitors can move, 3 busy processes on 2 CPUs get 2/3 each in the end, but at any moment one has a CPU to
    itself and two have half of one. A probe that ends before the scheduler moves a process sees either value, and
    neither is an error of the passive reading. Tasks of SCHED_IDLE yield wherever they are.
    """
    movable = any(
        len(t.cpus & load.available.keys()) > 1 and t.demand > 0.5 and t.weight > IDLE_POLICY_WEIGHT
        for t in tasks_of(load.competitors)
    )
    if share <= 0 or not movable:
        return share, share
    sharers = 1.0 / share
    if abs(sharers - round(sharers)) < 0.05:
        return share, share
    return 1.0 / math.ceil(sharers), 1.0 / math.floor(sharers)


def _share(load: Load, members: Sequence[Task | SchedulingGroup], count: int, weight: float) -> float:
    """Return the share of each of `count` newcomers on the usable CPUs.

    Tasks confined to our CPUs leave their idle time; tasks that can go elsewhere compete over the whole machine.
    """
    newcomers = [Task(demand=1.0, weight=weight, cpus=load.usable, new=True) for _ in range(count)]
    everybody = flattened(joined(members, load.home, newcomers))
    weight = next(t.weight for t in everybody if t.new)
    tasks = [t for t in everybody if not t.new]
    here = {c: load.available[c] for c in load.usable}
    confined = [t for t in tasks if t.cpus & load.available.keys() <= load.usable]
    share = share_of_new(here, confined, count, weight)
    if len(load.usable) < len(load.available):
        share = min(share, share_of_new(load.available, tasks, count, weight))
    return share


def _quota_share(load: Load, count: int, weight: float, left_out: Task | None = None) -> float:
    """Return share of each of `count` newcomers that every quota allows; infinite without quotas."""
    most = float("inf")
    for quota in load.quotas:
        members = [task for task in quota.members if task is not left_out]
        most = min(most, newcomer_share(quota.cpus, members, count, weight))
    return most
