"""The processes of this host that use most CPU time, for messages about a busy machine."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

from nws.sensors.procfs import ProcFs

#: Seconds over which processes are watched, and processes that are named.
_WATCHED_S, _MOST = 0.3, 3
#: CPUs of a process that is worth naming.
_LEAST = 0.1


def busiest_processes() -> list[str]:
    """Return the processes that use most CPU time, the first of them most: `stress (process 12 of ann): 1.9 CPUs`."""
    proc = ProcFs()
    before, started = _seconds(proc), time.monotonic()
    time.sleep(_WATCHED_S)
    after, passed_s = _seconds(proc), time.monotonic() - started
    others = after.keys() & before.keys() - {os.getpid()}
    used = {pid: (after[pid] - before[pid]) / passed_s for pid in others}
    most = sorted(used, key=used.__getitem__, reverse=True)[:_MOST]
    return [f"{_name(proc.root / str(pid))}: {used[pid]:.2g} CPUs" for pid in most if used[pid] >= _LEAST]


def _seconds(proc: ProcFs) -> dict[int, float]:
    """Return the CPU seconds of each process, those of its threads together."""
    seconds: dict[int, float] = {}
    for task in proc.tasks().values():
        seconds[task.pid] = seconds.get(task.pid, 0.0) + task.run
    return seconds


def _name(directory: Path) -> str:
    try:
        uid = directory.stat().st_uid
        name = (directory / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return f"process {directory.name}, which has ended"
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        owner = str(uid)
    return f"{name} (process {directory.name} of {owner})"
