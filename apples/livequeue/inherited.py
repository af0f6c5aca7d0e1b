"""Limits that a job inherits from the process that submitted it, as from a shell: rlimits, nice value, CPU affinity.

The manager reads them from the kernel, so no client can claim other ones. The job's process sets them.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

#: Kinds of limits by name.
_KINDS = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}


class Inherited(NamedTuple):
    """nice: -20 to 19. rlimits: (soft, hard) by name, -1 without limit. affinity: CPU numbers."""

    nice: int
    rlimits: dict[str, Sequence[int]]
    affinity: tuple[int, ...]


def of_process(pid: int, uid: int) -> Inherited:
    """Return the limits of a process of a user; raise `OSError` if it has ended."""
    found = Inherited(
        os.getpriority(os.PRIO_PROCESS, pid),
        {name: resource.prlimit(pid, kind) for name, kind in _KINDS.items()},
        tuple(sorted(os.sched_getaffinity(pid))),
    )
    # The number may belong to a process of another user by now.
    if _effective_user(pid) != uid:
        raise ProcessLookupError
    return found


def _effective_user(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[2])
    raise ProcessLookupError


def inherit(nice: int, rlimits: Mapping[str, Sequence[int]], cpus: Iterable[int]) -> None:
    """Set the limits of this process. Without the right to raise one, it is raised as far as possible.

    cpus: those that the process may use; none to leave the affinity.
    """
    for name, (soft, hard) in rlimits.items():
        kind = _KINDS.get(name)
        if kind is not None:
            with suppress(OSError, ValueError):
                resource.setrlimit(kind, _possible(kind, soft, hard))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    cpus = set(cpus)
    if cpus:
        # CPUs may have gone since; the job then keeps those of the manager.
        with suppress(OSError):
            os.sched_setaffinity(0, cpus)


def _possible(kind: int, soft: int, hard: int) -> tuple[int, int]:
    """Return the limits, at most this process's hard limit unless it may raise it."""
    most = resource.getrlimit(kind)[1]
    if os.geteuid() == 0 or most == resource.RLIM_INFINITY:
        return soft, hard
    return _least(soft, most), _least(hard, most)


def _least(limit: int, most: int) -> int:
    return most if limit == resource.RLIM_INFINITY else min(limit, most)
