"""Control groups for processes that are frozen or limited.

Version 1 has a hierarchy for each controller (`freezer.state`, `cpu.cfs_quota_us`), version 2 one for all
(`cgroup.freeze`, `cpu.max`). A hierarchy is tested by making a group, since delegation may be incomplete in many ways.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from apples.errors import SharingError

Kind = Literal["freezer", "cpu"]

#: Period of limits, microseconds, and the least quota the kernel takes.
_PERIOD_US, _LEAST_US, _LONGEST_US = 100_000, 1_000, 1_000_000

#: Groups of node managers: their pid, then that of the process.
_OURS = re.compile(r"apples-[0-9]+-[0-9]+")
#: Times a group is emptied again because its processes have started others meanwhile.
_EMPTYINGS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """A hierarchy for one purpose. `root`: the group of this process.  `version`: 1 or 2"""

    kind: Kind
    root: Path
    version: int

    @property
    def control(self) -> str:
        """Name of the control file."""
        if self.kind == "freezer":
            return "freezer.state" if self.version == 1 else "cgroup.freeze"
        return "cpu.cfs_quota_us" if self.version == 1 else "cpu.max"

    @property
    def free(self) -> bytes:
        """Value that frees a group."""
        if self.kind == "freezer":
            return b"THAWED" if self.version == 1 else b"0"
        return b"-1" if self.version == 1 else b"max 100000"

    @property
    def frozen(self) -> bytes:
        """Value that freezes a group of a freezer."""
        return b"FROZEN" if self.version == 1 else b"1"


class Group:
    """One control group with processes and their later children. Raises `OSError` if it cannot be made.

    The first of `pids` must exist, others may have ended.
    """

    def __init__(self, hierarchy: Hierarchy, pids: Sequence[int]) -> None:
        self.hierarchy = hierarchy
        self._path = hierarchy.root / f"apples-{os.getpid()}-{pids[0]}"
        # Fails if it exists, so that two node managers never share a group.
        self._path.mkdir()
        try:
            for pid in pids:
                with suppress(*([ProcessLookupError] if pid != pids[0] else [])):
                    # One process for each write: the kernel takes no list.
                    _put(self._path / "cgroup.procs", str(pid).encode())
            # Kept open: the watchdog gets this descriptor, and needs no path and no right to open it.
            self.fd = os.open(self._path / hierarchy.control, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            _remove(self._path)
            raise

    def write(self, text: bytes) -> None:
        """Write a value into the control file; no error if the processes have ended."""
        with suppress(ProcessLookupError, FileNotFoundError):
            os.pwrite(self.fd, text, 0)

    def limit(self, processors: float | None) -> None:
        """Limit the group to a number of processors, None for no limit (kind cpu)."""
        if processors is None:
            self.write(self.hierarchy.free)
            return
        # The kernel takes no quota below a millisecond: a longer period then.
        period = min(max(_PERIOD_US, round(_LEAST_US / processors)), _LONGEST_US)
        quota = max(round(period * processors), _LEAST_US)
        if self.hierarchy.version == 1:
            _put(self._path / "cpu.cfs_period_us", str(period).encode())
            self.write(str(quota).encode())
        else:
            self.write(f"{quota} {period}".encode())

    def close(self) -> None:
        """Free the processes, return them to the parent group, and remove the group."""
        self.write(self.hierarchy.free)
        os.close(self.fd)
        _remove(self._path)


def _put(path: Path, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def _remove(group: Path) -> None:
    """Move the processes of a group to its parent, and remove it."""
    for _ in range(_EMPTYINGS):
        pids: list[str] = []
        with suppress(OSError):
            pids = (group / "cgroup.procs").read_text(encoding="ascii").split()
        for pid in pids:
            with suppress(OSError):
                _put(group.parent / "cgroup.procs", pid.encode())
        # Empty: only now the kernel lets the directory be removed.
        if not pids:
            break
    # A group of processes that are just ending stays until the kernel is done with them.
    with suppress(OSError):
        group.rmdir()


def sweep(*, proc: Path = Path("/proc/self")) -> None:
    """Free and remove the groups of daemons that were killed, beside the group of this process."""
    for hierarchy in _all_candidates(proc):
        for path in hierarchy.root.glob("apples-*-*"):
            # The name has the process id of its node manager. One that has got a new process is left alone.
            if _OURS.fullmatch(path.name) and not os.path.exists(f"/proc/{path.name.split('-')[1]}"):
                _free(hierarchy, path)


def release(pid: int) -> None:
    """Free a process from all groups of an earlier node manager, with all processes of these groups."""
    for hierarchy in _all_candidates(Path(f"/proc/{pid}")):
        group = hierarchy.root
        # Groups of this node manager are in use.
        if _OURS.fullmatch(group.name) and not group.name.startswith(f"apples-{os.getpid()}-"):
            _free(hierarchy, group)


def _free(hierarchy: Hierarchy, group: Path) -> None:
    with suppress(OSError):
        _put(group / hierarchy.control, hierarchy.free)
    _remove(group)


def _all_candidates(proc: Path) -> list[Hierarchy]:
    """Return the hierarchies of both kinds, usable or not."""
    kinds: tuple[Kind, ...] = ("freezer", "cpu")
    try:
        return [hierarchy for kind in kinds for hierarchy in _candidates(kind, proc)]
    except OSError:
        return []


def find(kind: Kind, *, proc: Path = Path("/proc/self")) -> Hierarchy:
    """Return a usable hierarchy; raises `SharingError` with the reasons if there is none."""
    tried = []
    for hierarchy in _candidates(kind, proc):
        try:
            _try(hierarchy)
        except OSError as error:
            tried.append(f"{hierarchy.root}: {error.strerror}")
        else:
            return hierarchy
    why = "; ".join(tried) or f"no control group file system with {kind} is mounted"
    raise SharingError(
        f"control groups cannot be used here ({why}). Run as root or in a delegated group, or use signals"
    )


def _candidates(kind: Kind, proc: Path) -> list[Hierarchy]:
    ours = {}
    for line in (proc / "cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        # Version 2 has an empty list of controllers.
        ours.update(dict.fromkeys(controllers.split(","), path))
    mounts = []
    for line in (proc / "mounts").read_text(encoding="utf-8").splitlines():
        _, mount_point, kind_of_mount, options, *_ = line.split()
        if kind_of_mount == "cgroup" and kind in options.split(","):
            mounts.append(Hierarchy(kind=kind, root=_within(mount_point, ours.get(kind, "/")), version=1))
        elif kind_of_mount == "cgroup2":
            mounts.append(Hierarchy(kind=kind, root=_within(mount_point, ours.get("", "/")), version=2))
    # On hosts with both, controllers that are mounted as version 1 are missing in version 2, and its test fails.
    return sorted(mounts, key=lambda h: -h.version)


def _within(mount: str, path: str) -> Path:
    """Return the path of a group below a mount, which in a container may show our own group as its root."""
    whole = Path(mount) / path.lstrip("/")
    return whole if whole.is_dir() else Path(mount)


def _try(hierarchy: Hierarchy) -> None:
    """Make a group with a child process in it, and use it; raises `OSError`."""
    if hierarchy.kind == "cpu" and hierarchy.version == 2:
        with open(hierarchy.root / "cgroup.subtree_control", "wb", buffering=0) as file:
            # Children have the file `cpu.max` only if their parent passes the controller on.
            file.write(b"+cpu")
    # Waits for input until it is killed.
    # Some containers let a group be made, but no process be moved into it.
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    group = None
    try:
        group = Group(hierarchy, [child.pid])
        if hierarchy.kind == "freezer":
            group.write(hierarchy.frozen)
            group.write(hierarchy.free)
        else:
            group.limit(0.5)
    finally:
        child.kill()
        child.communicate()
        if group is not None:
            group.close()
