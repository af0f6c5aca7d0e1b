"""Control groups of a testbed: CPU share, one pinned CPU, memory, freezing; and everything in them ended.

Version 1 hierarchies are used where they are mounted, version 2 elsewhere. The groups are the register of what
lives in a testbed: no list of process ids can go stale.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from .description import HostSpec
from .errors import TestbedError

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "freezer")

#: A short period makes small shares smooth; a quota below a millisecond is refused by the kernel.
PERIOD_US, LEAST_QUOTA_US = 10_000, 1_000

#: Seconds that killed processes may take to be gone.
GONE_S = 10.0
#: Looks at a host, 10 ms apart, after which freezing or thawing it is tried anew.
_ANEW = 50


def version(root: Path = ROOT) -> int:
    """2 where only the unified hierarchy is mounted, 1 with the old controllers, 0 without any."""
    if (root / "cgroup.controllers").exists():
        return 2
    return 1 if all((root / name).is_dir() for name in CONTROLLERS) else 0


def quota_us(share: float) -> tuple[int, int]:
    """Quota and period, microseconds, for a share of one CPU; -1 for all of it."""
    if share >= 1.0:
        return -1, PERIOD_US
    period = max(PERIOD_US, int(LEAST_QUOTA_US / share) + 1)
    return max(LEAST_QUOTA_US, int(share * period)), period


class Groups:
    """The control groups of one testbed: one for each host, and `core` for what serves them."""

    def __init__(self, name: str, root: Path = ROOT) -> None:
        self.top = f"testbed-{name}"
        self._root = root
        self._version = version(root)
        self._controllers: tuple[str, ...] = ("",) if self._version == 2 else CONTROLLERS

    def directories(self, host: str = "") -> list[Path]:
        """Where the groups of a host (or all of it) are, one for each hierarchy."""
        return [self._root / c / self.top / host for c in self._controllers]

    def mounts(self, host: str) -> list[tuple[Path, str]]:
        """Group of a host in each hierarchy, and the controller it is to be seen under inside."""
        return list(zip(self.directories(host), self._controllers, strict=True))

    def make(self, host: str) -> None:
        """Make the groups of a host, without limits."""
        for top, own, controller in zip(
            self.directories(), self.directories(host), self._controllers, strict=True
        ):
            top.mkdir(exist_ok=True)
            if self._version == 2:
                (top / "cgroup.subtree_control").write_text("+cpu +cpuset +memory")
            own.mkdir(exist_ok=True)
            if controller == "cpuset":
                for group in (top, own):
                    for file in ("cpuset.cpus", "cpuset.mems"):
                        (group / file).write_text((group.parent / file).read_text())

    def apply(self, spec: HostSpec) -> None:
        """Set the limits of a host."""
        quota, period = quota_us(spec.cpu)
        directories = dict(zip(self._controllers, self.directories(spec.name), strict=True))
        if self._version == 2:
            files = [
                ("", "cpuset.cpus", str(spec.cpuset)),
                ("", "cpu.max", f"{'max' if quota < 0 else quota} {period}"),
                ("", "memory.max", str(spec.memory_bytes)),
            ]
        else:
            files = [
                ("cpuset", "cpuset.cpus", str(spec.cpuset)),
                # no quota first: a quota that is too large for a shorter period is refused
                ("cpu", "cpu.cfs_quota_us", "-1"),
                ("cpu", "cpu.cfs_period_us", str(period)),
                ("cpu", "cpu.cfs_quota_us", str(quota)),
                ("memory", "memory.limit_in_bytes", str(spec.memory_bytes)),
            ]
        for controller, file, value in files:
            (directories[controller] / file).write_text(value)

    def entering(self, host: str) -> str:
        """Shell commands that move the shell into the groups of a host."""
        return "".join(f"echo $$ > {d}/cgroup.procs; " for d in self.directories(host))

    def freeze(self, host: str, frozen: bool) -> None:
        """Stop everything of a host where it stands, or let it go on; returns when it is so."""
        if self._version == 2:
            (self.directories(host)[0] / "cgroup.freeze").write_text("1" if frozen else "0")
            return
        state = self._root / "freezer" / self.top / host / "freezer.state"
        wanted = "FROZEN" if frozen else "THAWED"
        tries = itertools.count()

        def done() -> bool:
            # The kernel keeps a host in FREEZING for good if a process starts another one just then: try it anew.
            if next(tries) % _ANEW == 0:
                state.write_text("THAWED")
                state.write_text(wanted)
            return state.read_text().strip() == wanted

        _until(done, f"{host} does not become {wanted}")

    def processes(self, host: str = "") -> list[int]:
        """Everything that lives in a host, or in the whole testbed, seen from the machine."""
        found: set[int] = set()
        for directory in self.directories(host):
            for file in directory.rglob("cgroup.procs"):
                with contextlib.suppress(OSError):
                    found.update(map(int, file.read_text().split()))
        return sorted(found)

    def kill(self, host: str = "") -> None:
        """End everything of a host, or of the whole testbed; returns when it is gone."""

        def gone() -> bool:
            left = self.processes(host)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        for name in [host] if host else self.hosts():
            # the frozen hear of nothing, not even of this
            with contextlib.suppress(OSError):
                self.freeze(name, False)
        _until(gone, f"processes of {host or self.top} do not end")

    def hosts(self) -> list[str]:
        """Names of the groups that exist."""
        return sorted(
            {d.name for top in self.directories() if top.is_dir() for d in top.iterdir() if d.is_dir()}
        )

    def remove(self) -> None:
        """Take all groups away; nothing may live in them."""
        for top in self.directories():
            for directory in [*_below(top), top]:
                with contextlib.suppress(FileNotFoundError):
                    _until(lambda d=directory: _removed(d), f"cannot remove {directory}")


def _below(top: Path) -> Iterator[Path]:
    """Directories under `top`, the deepest first."""
    if top.is_dir():
        yield from sorted((d for d in top.rglob("*") if d.is_dir()), key=lambda d: -len(d.parts))


def _removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        # busy for a moment after its last process has ended
        return False
    return True


def _until(what: object, complaint: str) -> None:
    deadline = time.monotonic() + GONE_S
    while not what():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TestbedError(f"{complaint} within {GONE_S:.0f} s")
        time.sleep(0.01)
