"""The kernel's view of CPUs and tasks: counters read from /proc, all since boot or birth.

Only counters are read here; `nws.sensors.load` makes rates of two readings. The root is an argument, so that tests read
a fake tree. Layout: proc(5), and Documentation/scheduler/sched-stats.rst of the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nws.base.errors import ProbeError
from nws.sensors.sharing import IDLE_POLICY_WEIGHT, REALTIME_WEIGHT, weight_of_nice

_SCHED_FIFO, _SCHED_RR, _SCHED_IDLE, _SCHED_DEADLINE = 1, 2, 5, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Seconds one CPU has spent since boot.

    normal : user and system time of tasks.  niced : user time of tasks with a positive nice value
    interrupts : hard and soft.  idle : with waiting for I/O.  steal : taken by the hypervisor
    """

    normal: float
    niced: float
    interrupts: float
    idle: float
    steal: float

    @property
    def tasks(self) -> float:
        """Seconds of tasks of any nice value."""
        return self.normal + self.niced


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTimes:
    """Seconds one thread ran, and waited for a CPU while it could have run (None: not known).

    ended : CPU seconds of the process' children that ended and were waited for; of its first thread only
    """

    pid: int
    run: float
    wait: float | None
    ended: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTraits:
    """Scheduler weight of one thread, the CPUs it may run on, its cgroup paths (hierarchy → path).

    niced : whether its CPU time counts as niced, which depends on the nice value under any scheduling policy
    session : name and weight of the autogroup its session is scheduled as, None where the kernel knows none
    """

    weight: float
    niced: bool
    cpus: frozenset[int]
    groups: Mapping[str, str]
    session: tuple[str, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcFs:
    """Reader of one /proc tree.

    affinity : thread → CPUs it may run on; 0 is the calling thread
    ticks_per_s : unit of the times in /proc/stat
    """

    root: Path = Path("/proc")
    affinity: Callable[[int], set[int]] = os.sched_getaffinity
    ticks_per_s: int = field(default_factory=lambda: os.sysconf("SC_CLK_TCK"))

    def usable_cpus(self) -> frozenset[int]:
        """Return CPUs this process may run on."""
        return frozenset(self.affinity(0))

    def cpu_times(self) -> tuple[dict[int, CpuTimes], int]:
        """Return times of every CPU that is online, and the tasks that are running or waiting for a CPU now."""
        path, running, times = self.root / "stat", 1, {}
        for line in self._text(path).splitlines():
            key, *fields = line.split()
            if key.startswith("cpu") and key != "cpu":
                user, nice, system, idle, iowait, irq, softirq, steal = (
                    int(f) / self.ticks_per_s for f in (fields + ["0"] * 8)[:8]
                )
                times[int(key[3:])] = CpuTimes(
                    normal=user + system,
                    niced=nice,
                    interrupts=irq + softirq,
                    idle=idle + iowait,
                    steal=steal,
                )
            elif key == "procs_running":
                running = int(fields[0])
        if not times:
            raise ProbeError(f"{path}: no line begins with cpu0; CPU load cannot be measured on this system")
        return times, running

    def tasks(self) -> dict[int, TaskTimes]:
        """Return times of every thread we may see, by thread id; those that end meanwhile are left out."""
        by_task: dict[int, TaskTimes] = {}
        base = str(self.root)
        for name in os.listdir(base):
            if not name.isdigit():
                continue
            try:
                threads = os.listdir(f"{base}/{name}/task")
            except OSError:
                continue
            for thread in threads:
                times = self._task_times(f"{base}/{name}/task/{thread}", int(name))
                if times is not None:
                    by_task[int(thread)] = times
            if (first := by_task.get(int(name))) is not None:
                by_task[int(name)] = replace(first, ended=self._ended_s(f"{base}/{name}/stat"))
        return by_task

    def _ended_s(self, path: str) -> float:
        try:
            fields = _after_name(_bytes(path))
            return (int(fields[13]) + int(fields[14])) / self.ticks_per_s
        except (OSError, ValueError, IndexError):
            return 0.0

    def _task_times(self, directory: str, pid: int) -> TaskTimes | None:
        try:
            run, wait, _ = _bytes(f"{directory}/schedstat").split()
            return TaskTimes(pid=pid, run=int(run) / 1e9, wait=int(wait) / 1e9)
        except (OSError, ValueError):
            pass
        try:
            fields = _after_name(_bytes(f"{directory}/stat"))
            return TaskTimes(pid=pid, run=(int(fields[11]) + int(fields[12])) / self.ticks_per_s, wait=None)
        except (OSError, ValueError, IndexError):
            return None

    def traits(self, pid: int, tid: int) -> TaskTraits | None:
        """Return how the scheduler treats a thread; None when it has ended or may not be looked at."""
        try:
            fields = _after_name(_bytes(f"{self.root}/{pid}/task/{tid}/stat"))
            nice, policy = int(fields[16]), int(fields[38])
            groups = parse_groups((self.root / str(pid) / "cgroup").read_text())
            cpus = frozenset(self.affinity(tid))
        except (OSError, ValueError, IndexError):
            return None
        if policy in (_SCHED_FIFO, _SCHED_RR, _SCHED_DEADLINE):
            weight = REALTIME_WEIGHT
        elif policy == _SCHED_IDLE:
            weight = IDLE_POLICY_WEIGHT
        else:
            weight = weight_of_nice(nice)
        return TaskTraits(weight=weight, niced=nice > 0, cpus=cpus, groups=groups, session=self._session(pid))

    def groups_sessions(self) -> bool:
        """Return whether the kernel schedules each session as one group, wherever no CPU cgroup does it instead."""
        try:
            return _bytes(f"{self.root}/sys/kernel/sched_autogroup_enabled").strip() == b"1"
        except OSError:
            return False

    def _session(self, pid: int) -> tuple[str, float] | None:
        try:
            name, _, nice = _bytes(f"{self.root}/{pid}/autogroup").decode().split()
        except (OSError, ValueError):
            return None
        # kernel threads and init are in the root group one by one
        return None if name in ("/autogroup-0", "/") else (name, weight_of_nice(int(nice)))

    def memory_available(self) -> float:
        """Return bytes a new process can touch without paging, host-wide: MemAvailable; raises `ProbeError`."""
        path = self.root / "meminfo"
        for line in self._text(path).splitlines():
            key, _, rest = line.partition(":")
            if key == "MemAvailable":
                return float(rest.split()[0]) * 1024
        raise ProbeError(f"{path}: no line MemAvailable; free memory needs Linux 3.14 or newer")

    def _text(self, path: Path) -> str:
        try:
            return path.read_text()
        except OSError as error:
            raise ProbeError(
                f"{path}: {error.strerror or error}; the sensors of a host need Linux' /proc mounted there"
            ) from error


def parse_groups(text: str) -> dict[str, str]:
    """Return controller → cgroup path out of /proc/PID/cgroup; cgroup v2 is the controller with no name."""
    groups = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _bytes(path: str) -> bytes:
    # a third of the cost of Path.read_bytes, and a host has thousands of threads
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _after_name(stat: bytes) -> list[bytes]:
    """Return fields from the third on; the second, the name in parentheses, may itself hold blanks."""
    return stat[stat.rindex(b")") + 2 :].split()
