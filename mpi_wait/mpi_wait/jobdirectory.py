"""The directory that the ranks of one job share on this machine, and the pages that they leave there.

It is in shared memory and locked as long as the command or a process that it started lives: the kernel releases the
lock. So a directory that can be locked was left by a command that was killed, and the next one removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import tempfile
from typing import Iterator, NamedTuple

PREFIX = "mpi-wait-job-"
SHARED_MEMORY = "/dev/shm"
#: Name of the job in its directory.
JOB = "job"

#: `page.h` of the library: magic number and version, and the offsets of the fields that are read here.
BEGIN = struct.pack("=8sI", b"APPLESMP", 3)
_RANK = struct.Struct("=28xII")
_WAYS = struct.Struct("=384x4II")
WAYS = ("mpi", "yield", "patient", "block")


class RankPage(NamedTuple):
    """One rank: the number of ranks of its world, the best way to wait and the cost of `mpi`, if it was measured.

    The cost is the time per iteration as a multiple of that of the best way, or 0.
    """

    rank: int
    ranks: int
    best_way: str | None
    cost_of_mpi: float


class JobDirectory:
    """A new directory for this user alone, in a `with` block. Raises `OSError`.

    path : of the directory.  lock : descriptor of the lock, for processes that shall hold it as well
    """

    def __enter__(self) -> JobDirectory:
        parents = [SHARED_MEMORY, tempfile.gettempdir()]
        for parent in parents:
            _remove_abandoned(parent)
        usable = [parent for parent in parents if os.access(parent, os.W_OK | os.X_OK)]
        while True:
            self.path = tempfile.mkdtemp(prefix=PREFIX, dir=usable[0] if usable else None)
            lock = _locked(self.path)
            # Between its making and its locking, another command may have removed it.
            if lock is not None and os.path.isdir(self.path):
                self.lock = lock
                return self

    def __exit__(self, *exception: object) -> None:
        _remove(self.path)
        os.close(self.lock)

    def pages(self) -> Iterator[RankPage]:
        """Yield the pages of the ranks that have begun MPI."""
        for name in os.listdir(self.path):
            if not name.startswith(f"{JOB}.") or not name[len(JOB) + 1 :].isdigit():
                continue
            with open(os.path.join(self.path, name), "rb") as file:
                raw = file.read(_WAYS.size)
            if len(raw) < _WAYS.size or not raw.startswith(BEGIN):
                continue
            rank, ranks = _RANK.unpack_from(raw)
            *costs, best = _WAYS.unpack_from(raw)
            yield RankPage(rank, ranks, WAYS[best - 1] if 0 < best <= len(WAYS) else None, costs[0] / 1000)


def _locked(path: str) -> int | None:
    """Return a descriptor with the lock of a directory; None if another process holds it, or there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _remove(path: str) -> None:
    """Remove a directory with the files that the library makes. With others in it, it is not ours and stays."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            if name.startswith((f"{JOB}.", f".{JOB}.")):
                os.unlink(os.path.join(path, name))
        os.rmdir(path)


def _remove_abandoned(parent: str) -> None:
    """Remove the directories of this user that no process holds any more."""
    try:
        entries = [entry for entry in os.scandir(parent) if entry.name.startswith(PREFIX)]
    except OSError:
        return
    for entry in entries:
        try:
            ours = entry.stat(follow_symlinks=False).st_uid == os.geteuid()
        except OSError:
            continue
        lock = _locked(entry.path) if ours else None
        if lock is not None:
            _remove(entry.path)
            os.close(lock)
