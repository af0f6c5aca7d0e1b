"""Kinds of cores of this machine: fast and slow ones, as sysfs tells them.

Intel's hybrid processors list the CPUs of either kind as those of a performance monitor each (`cpu_core`, `cpu_atom`).
Elsewhere the scheduler's capacity of a CPU counts, 1024 for the fastest, which Arm's device trees give. Neither knows
how fast a kind is for a program, so each has a benchmark of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from nws.base.cpulist import parse_list

DEVICES = Path("/sys/devices")
#: Names of kinds, the fastest first.
NAMES = {2: ("fast", "slow"), 3: ("fast", "middle", "slow")}
#: Capacities that differ by less are of one kind: favoured cores of a processor reach a little more than the others.
_ALIKE = 0.9


def core_kinds(usable: Collection[int], devices: Path = DEVICES) -> dict[str, tuple[int, ...]]:
    """Return the usable CPUs of each kind by its name, the fastest first; one kind without a name where all are alike.

    Args:
        usable: CPUs that ranks may use
        devices: directory of sysfs
    """
    groups = _by_monitor(devices) or _by_capacity(usable, devices)
    kinds = [tuple(sorted(set(group) & set(usable))) for group in groups]
    kinds = [cpus for cpus in kinds if cpus]
    if len(kinds) not in NAMES or sum(map(len, kinds)) != len(usable):
        return {"": tuple(sorted(usable))}
    return dict(zip(NAMES[len(kinds)], kinds, strict=True))


def _by_monitor(devices: Path) -> list[tuple[int, ...]]:
    lists = [_read(devices / name / "cpus") for name in ("cpu_core", "cpu_atom")]
    with contextlib.suppress(ValueError):
        return [parse_list(text) for text in lists]
    return []


def _by_capacity(usable: Collection[int], devices: Path) -> list[list[int]]:
    """Return the CPUs in groups of falling capacity; none if it is unknown of one of them."""
    texts = {cpu: _read(devices / f"system/cpu/cpu{cpu}/cpu_capacity") for cpu in usable}
    if not all(text.isdecimal() for text in texts.values()):
        return []
    groups: list[list[int]] = []
    largest = 0
    for cpu in sorted(texts, key=lambda cpu: -int(texts[cpu])):
        if not groups or int(texts[cpu]) < _ALIKE * largest:
            groups.append([])
            largest = int(texts[cpu])
        groups[-1].append(cpu)
    return groups


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


@contextmanager
def bound_to(cpus: Collection[int]) -> Iterator[None]:
    """Let this thread and what it starts use these CPUs only; without any, leave it as it is."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
