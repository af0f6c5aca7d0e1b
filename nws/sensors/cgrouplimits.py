"""Limits that control groups set on this process: CPU quotas and memory, versions 1 and 2, at every level.

A process is in one group of each hierarchy, and every ancestor's limit binds as well, so limits are lists from the own
group up to the mount point of the hierarchy. An absent file or the value "max" sets no limit. Read only. Layout:
Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of the kernel.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nws.sensors.procfs import parse_groups
from nws.sensors.sharing import IDLE_POLICY_WEIGHT, NORMAL_WEIGHT

#: The host's own control group namespace (include/linux/proc_ns.h); in any other, "/" is a container's group.
_HOST_NAMESPACE = "cgroup:[4026531835]"

#: Limits of version 1 at or above this mean "none" (the largest page-aligned int64).
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLimit:
    """A quota: all tasks of the group together get `cpus` CPUs.

    controller, group : hierarchy and path as in /proc/PID/cgroup
    usage_s : CPU seconds of the group since it was made; None if unknown
    """

    controller: str
    group: str
    cpus: float
    usage_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuGroup:
    """A group that competes as one: its weight (a normal process has 1024), and its quota, infinite without one."""

    name: str
    weight: float
    cpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """A limit in bytes on all memory of a group, and the part of it in use that cannot be reclaimed."""

    group: str
    limit_bytes: float
    used_bytes: float

    @property
    def free_bytes(self) -> float:
        """Return bytes the group may still take."""
        return max(self.limit_bytes - self.used_bytes, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """A group in one hierarchy, or the group that a mount shows. controller : empty for version 2"""

    controller: str
    group: str
    directory: Path
    version: int


class Cgroups:
    """Limits of the process whose `cgroup` and `mountinfo` are under `process` (default /proc/self).

    `relocate` maps a mount point to where it is read; tests give one that leads into a fake tree.
    """

    def __init__(
        self, process: Path = Path("/proc/self"), relocate: Callable[[Path], Path] = lambda path: path
    ) -> None:
        self._process = process
        self._relocate = relocate

    def cpu_limits(self) -> list[CpuLimit]:
        """Return every CPU quota that binds this process, own group first."""
        limits = []
        for level in self._levels("cpu"):
            _, cpus = self._managed(level)
            if cpus is not None:
                limits.append(
                    CpuLimit(
                        controller=level.controller, group=level.group, cpus=cpus, usage_s=self._usage(level)
                    )
                )
        return limits

    def usable_cpus(self) -> int:
        """Return CPUs that processes started here can keep busy: the affinity mask, and no more than a quota."""
        quotas = [math.ceil(limit.cpus) for limit in self.cpu_limits()]
        return max(1, min([len(os.sched_getaffinity(0)), *quotas]))

    def cpu_groups(self, groups: Mapping[str, str]) -> tuple[CpuGroup, ...]:
        """Return the groups by which a process of these paths (controller → path) competes for CPUs, outermost first.

        The host's root is none of them, nor is a group that the CPU controller does not manage.
        """
        controllers = []
        for mount in self._mounts("cpu"):
            for level in _upward(mount, groups.get(mount.controller, "/")):
                weight, cpus = self._managed(level)
                if weight is not None:
                    quota = math.inf if cpus is None else cpus
                    controllers.append(CpuGroup(name=level.group, weight=weight, cpus=quota))
        return tuple(reversed(controllers))

    def memory_limits(self) -> list[MemoryLimit]:
        """Return every memory limit that binds this process, own group first; idle file cache counts as free."""
        limits = []
        for level in self._levels("memory"):
            limit, used = _memory_v2(level.directory) if level.version == 2 else _memory_v1(level.directory)
            if limit is not None and used is not None:
                limits.append(MemoryLimit(group=level.group, limit_bytes=limit, used_bytes=used))
        return limits

    def _managed(self, level: _Level) -> tuple[float | None, float | None]:
        """Return weight and quota of a group; the weight is None if tasks in it compete one by one."""
        if level.version == 2:
            # 100 is the weight of a normal process; the host's root has no such file
            weight, cpus = _number(level.directory / "cpu.weight"), _quota_v2(level.directory)
            weight = None if weight is None else weight / 100 * NORMAL_WEIGHT
        else:
            weight, cpus = _number(level.directory / "cpu.shares"), _quota_v1(level.directory)
            weight = None if level.group == "/" and not self._contained() else weight
        if weight is not None and _number(level.directory / "cpu.idle"):
            weight = IDLE_POLICY_WEIGHT
        return weight, cpus

    def _contained(self) -> bool:
        """Return whether the root this process sees is a group of the host."""
        try:
            return os.readlink(self._process / "ns/cgroup") != _HOST_NAMESPACE
        except OSError:
            return False

    def _usage(self, level: _Level) -> float | None:
        if level.version == 2:
            micro = _table(level.directory / "cpu.stat").get("usage_usec")
            return None if micro is None else micro / 1e6
        # the accounting hierarchy is mounted apart on some systems, with the same path or another
        for other in self._levels("cpuacct"):
            if (
                other.group == level.group
                and (nano := _number(other.directory / "cpuacct.usage")) is not None
            ):
                return nano / 1e9
        return None

    def _levels(self, controller: str) -> Iterator[_Level]:
        """Yield own group and its ancestors, as far as mounted, in version 2 and in that controller's hierarchy."""
        groups = self.own_groups()
        for mount in self._mounts(controller):
            if mount.controller in groups:
                yield from _upward(mount, groups[mount.controller])

    def own_groups(self) -> dict[str, str]:
        """Return controller → path of this process; empty where there are no cgroups."""
        try:
            return parse_groups((self._process / "cgroup").read_text())
        except (OSError, ValueError):
            return {}

    def _mounts(self, controller: str) -> Iterator[_Level]:
        for line in _read(self._process / "mountinfo").splitlines():
            before, _, after = line.partition(" - ")
            root, point = before.split()[3:5]
            kind, _, options = [*after.split(), "", "", ""][:3]
            directory = self._relocate(Path(_unescape(point)))
            if kind == "cgroup2":
                yield _Level(controller="", group=_unescape(root), directory=directory, version=2)
            elif kind == "cgroup" and controller in options.split(","):
                yield _Level(controller=controller, group=_unescape(root), directory=directory, version=1)


def _upward(mount: _Level, path: str) -> Iterator[_Level]:
    """Yield from the own group to the mount, which shows the group `mount.group`."""
    top = mount.group.rstrip("/")
    inside = path == mount.group or path.startswith(top + "/")
    # a group that the mount does not show (a container's view of the host's path) is the mount itself
    below = path[len(top) :].strip("/") if inside and ".." not in path else ""
    parts = below.split("/") if below else []
    for depth in range(len(parts), -1, -1):
        names = parts[:depth]
        group = path if depth == len(parts) else "/".join([top, *names]) or "/"
        yield replace(mount, group=group, directory=mount.directory.joinpath(*names))


def _quota_v2(directory: Path) -> float | None:
    fields = _read(directory / "cpu.max").split()
    if len(fields) != 2 or fields[0] == "max":
        return None
    return float(fields[0]) / float(fields[1])


def _quota_v1(directory: Path) -> float | None:
    quota, period = _number(directory / "cpu.cfs_quota_us"), _number(directory / "cpu.cfs_period_us")
    if quota is None or period is None or quota <= 0 or period <= 0:
        return None
    return quota / period


def _memory_v2(directory: Path) -> tuple[float | None, float | None]:
    limits = [_number(directory / name) for name in ("memory.max", "memory.high")]
    set_limits = [limit for limit in limits if limit is not None]
    current = _number(directory / "memory.current")
    idle_cache = _table(directory / "memory.stat").get("inactive_file", 0.0)
    return (
        min(set_limits) if set_limits else None,
        None if current is None else max(current - idle_cache, 0.0),
    )


def _memory_v1(directory: Path) -> tuple[float | None, float | None]:
    limit = _number(directory / "memory.limit_in_bytes")
    usage = _number(directory / "memory.usage_in_bytes")
    idle_cache = _table(directory / "memory.stat").get("total_inactive_file", 0.0)
    return (
        None if limit is None or limit >= _NO_LIMIT else limit,
        None if usage is None else max(usage - idle_cache, 0.0),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> float | None:
    try:
        value = float(_read(path))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _table(path: Path) -> dict[str, float]:
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: float(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _unescape(path: str) -> str:
    r"""Mount points spell a blank as \040, and so on."""
    return path.encode().decode("unicode_escape") if "\\" in path else path
