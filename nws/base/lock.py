"""Locks on files, for processes. The kernel releases a lock when its process ends, however it ends.

`FileLock` locks a whole file and names its holder in it. `ByteLocks` locks single bytes of one file, so that one file
serves many parts of a program.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class LockHeld(Exception):
    """Another process holds the lock. `holder`: a description of it, such as "process 7 of eve on vm, since ..."."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"held by {holder}")
        self.holder = holder


class FileLock:
    """An exclusive lock on a file, held from construction to `release`. A process that is forked holds it as well.

    The file contains a description of the holder. Raises `LockHeld`, or `OSError` if the file cannot be created.

    mode : permissions of a new file.  private : reject links and files of other users.
    remove : remove the file on release.  description : of the holder; process, user, host and time by default
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: int = 0o600,
        private: bool = False,
        remove: bool = False,
        description: str | None = None,
    ) -> None:
        self.path, self._remove = path, remove
        self._descriptor = self._acquired(mode, private)
        self.describe(_description() if description is None else description)

    def describe(self, text: str) -> None:
        """Replace the description of the holder. On a full disk it stays empty: the lock is worth more."""
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{text}\n".encode(), 0)
        except OSError:
            return

    def release(self) -> None:
        """Release the lock in this process. Does nothing if it was released."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        if self._remove:
            # Removed while locked: a process that opened it before finds another file at the path, and reopens.
            with suppress(FileNotFoundError):
                os.unlink(self.path)
        os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _acquired(self, mode: int, private: bool) -> int:
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            descriptor = open_private(self.path, flags) if private else os.open(self.path, flags, mode)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.stat(self.path), os.fstat(descriptor)):
                    return descriptor
            except BlockingIOError:
                holder = os.pread(descriptor, 4096, 0).decode(errors="replace").strip()
                os.close(descriptor)
                raise LockHeld(holder or "another process") from None
            except FileNotFoundError:
                # The holder has just removed it.
                pass
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)


class ByteLocks:
    """Exclusive locks on single bytes of a file. Processes started or forked by this one do not inherit them.

    The kernel releases all of them when the process closes any descriptor of the file: so open it once in a process.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file, or create it for this user alone. Raises `OSError`."""
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, byte: int) -> bool:
        """Lock a byte until the end of this process; return False if another process holds it."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError:
            return False
        return True

    def held(self, byte: int) -> bool:
        """Return whether another process holds the lock of a byte."""
        if not self.take(byte):
            return True
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, byte)
        return False

    def close(self) -> None:
        """Release all locks."""
        os.close(self._descriptor)


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Return a descriptor of a regular file of this user, not opened through a symbolic link; raises `OSError`.

    For trusted files in directories that other users may write to.
    """
    # not blocking, as it may be a pipe
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        os.close(descriptor)
        raise PermissionError(errno.EPERM, f"it is no regular file of user {os.geteuid()}; remove it")
    return descriptor


def user_name() -> str:
    """Return the name of this process's user; the number of one without an entry in passwd, as in containers."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())


def _description() -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} of {user_name()} on {os.uname().nodename}, since {since}"
