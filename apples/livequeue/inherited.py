"""Limits that a job inherits from the process that submitted it, as from a shell: rlimits, nice value, CPU affinity.

The manager reads them from the kernel, so no client can claim other ones. The job's process sets them.
"""

import os
import resource
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

#: Limits by their name in /proc/PID/limits, which shows those of every process; `prlimit` needs a right for that.
_NAMES = {
    "Max cpu time": "RLIMIT_CPU",
    "Max file size": "RLIMIT_FSIZE",
    "Max data size": "RLIMIT_DATA",
    "Max stack size": "RLIMIT_STACK",
    "Max core file size": "RLIMIT_CORE",
    "Max resident set": "RLIMIT_RSS",
    "Max processes": "RLIMIT_NPROC",
    "Max open files": "RLIMIT_NOFILE",
    "Max locked memory": "RLIMIT_MEMLOCK",
    "Max address space": "RLIMIT_AS",
    "Max pending signals": "RLIMIT_SIGPENDING",
    "Max msgqueue size": "RLIMIT_MSGQUEUE",
    "Max nice priority": "RLIMIT_NICE",
    "Max realtime priority": "RLIMIT_RTPRIO",
    "Max realtime timeout": "RLIMIT_RTTIME",
}
#: Width of the column of names.
_COLUMN = 26


class Inherited(NamedTuple):
    """nice: -20 to 19. rlimits: (soft, hard) by name, -1 without limit. affinity: CPU numbers."""

    nice: int
    rlimits: dict[str, Sequence[int]]
    affinity: tuple[int, ...]


def of_process(pid: int, uid: int) -> Inherited:
    """Return the limits of a process of a user; raise `ProcessLookupError` if it has ended, or `OSError`."""
    inherited = Inherited(
        os.getpriority(os.PRIO_PROCESS, pid),
        _rlimits(pid),
        tuple(sorted(os.sched_getaffinity(pid))),
    )
    # The number may belong to a process of another user by now.
    if _effective_user(pid) != uid:
        raise ProcessLookupError
    return inherited


def _rlimits(pid: int) -> dict[str, Sequence[int]]:
    limits: dict[str, Sequence[int]] = {}
    for line in _lines(pid, "limits"):
        name = _NAMES.get(line[:_COLUMN].strip())
        if name is not None:
            soft, hard = line[_COLUMN:].split()[:2]
            limits[name] = _number(soft), _number(hard)
    return limits


def _number(text: str) -> int:
    return resource.RLIM_INFINITY if text == "unlimited" else int(text)


def _effective_user(pid: int) -> int:
    return next(int(line.split()[2]) for line in _lines(pid, "status") if line.startswith("Uid:"))


def _lines(pid: int, file: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        raise ProcessLookupError from None


def inherit(nice: int, rlimits: Mapping[str, Sequence[int]], cpus: Iterable[int]) -> None:
    """Set the limits of this process. Without the right to raise one, it is raised as far as possible.

    cpus: those that the process may use; none to leave the affinity.
    """
    for name, (soft, hard) in rlimits.items():
        kind = getattr(resource, name)
        try:
            resource.setrlimit(kind, (soft, hard))
        except (OSError, ValueError):
            most = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (_least(soft, most), _least(hard, most)))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    cpus = set(cpus)
    if cpus:
        # CPUs may have gone since; the job then keeps those of the manager.
        with suppress(OSError):
            os.sched_setaffinity(0, cpus)


def _least(limit: int, most: int) -> int:
    return max(limit, most) if resource.RLIM_INFINITY in (limit, most) else min(limit, most)
