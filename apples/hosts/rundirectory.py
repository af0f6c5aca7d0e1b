"""The run directory as a host agent sees it: shared with the launcher's host, or one of its own.

Imported by the host agent, so it imports little.
"""

from __future__ import annotations

import contextlib
import os
import stat

from apples.hosts.frames import FromAgent
from apples.hosts.steering import PROGRESS, SLABS
from nws.base.scratch import own, remove_abandoned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from apples.hosts.frames import FrameWriter

#: Larger files of a run directory are results. They stay on the host.
LARGEST_FILE = 16 << 20
#: The pipe by which ranks ask whether all ranks have the monitor, the file of the answer, and the end of the name of
#: the file in which they announce themselves (`apples/monitoring/shim/world.c`).
ASK, ANSWER, WORLD = ".ask", ".answer", ".world"
#: Bytes of an entry of that file, and those at its begin that are host and process.
ENTRY_BYTES, PROCESS_BYTES = 16, 12


class Announcements:
    """The ranks on this host that have the monitor, of a run over several hosts.

    sources : the pipe that is readable when a rank asks whether all have it; empty if ranks cannot ask, and none counts
    """

    def __init__(self, run_dir: str, launcher: FrameWriter, *, several: bool) -> None:
        self._run_dir, self._launcher = run_dir, launcher
        self.sources: dict[int, Callable[[int], None]] = {}
        if several:
            path = os.path.join(run_dir, ASK)
            with contextlib.suppress(OSError):
                with contextlib.suppress(FileExistsError):
                    os.mkfifo(path, 0o600)
                self.sources[os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)] = self.send

    def send(self, fd: int | None = None) -> None:
        """Send the launcher the ranks that have announced themselves, after a rank has asked on the pipe."""
        entries = b""
        if fd is not None:
            # Another agent with this directory may have read it.
            with contextlib.suppress(BlockingIOError):
                os.read(fd, LARGEST_FILE)
        for name in os.listdir(self._run_dir) if self.sources else ():
            if name.endswith(WORLD):
                with open(os.path.join(self._run_dir, name), "rb") as file:
                    entries += file.read(LARGEST_FILE)
        self._launcher.send(FromAgent.ANNOUNCED, entries)


def find(run_dir: str, token: str) -> bool:
    """Return whether the run directory is shared with the launcher, whose file `token` is in it; otherwise make one.

    It is locked by this process; those of agents that were killed are removed.
    """
    try:
        with open(os.path.join(run_dir, token), "rb"):
            return True
    except OSError:
        remove_abandoned(os.path.dirname(run_dir))
        # Fails if it exists: an equal path on another disk may hold another run's files.
        os.makedirs(run_dir, mode=0o700)
        own(run_dir)
        return False


def send_back(run_dir: str, launcher: FrameWriter) -> None:
    """Send the launcher the files of the ranks, and remove the directory, which is this host's own."""
    for name in sorted(set(os.listdir(run_dir)) - {PROGRESS, SLABS}):
        if name.startswith("."):
            # Left by a writer that was killed.
            continue
        path = os.path.join(run_dir, name)
        state = os.lstat(path)
        # By `lstat`: a link in the run directory may lead anywhere.
        if stat.S_ISREG(state.st_mode) and state.st_size <= LARGEST_FILE:
            with open(path, "rb") as file:
                launcher.send(FromAgent.FILE, name.encode() + b"\n" + file.read())
    _remove(run_dir)


def _remove(directory: str) -> None:
    for root, directories, files in os.walk(directory, topdown=False):
        for name in files:
            os.unlink(os.path.join(root, name))
        for name in directories:
            path = os.path.join(root, name)
            # `os.walk` counts links to directories among the directories.
            (os.unlink if os.path.islink(path) else os.rmdir)(path)
    os.rmdir(directory)
