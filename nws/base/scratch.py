"""Temporary directories of commands, and removal of those whose owner was killed.

Each directory holds a lock file. The kernel releases the lock when the owner ends, however it ends, so that a directory
whose lock is free has no owner. Empty files in it whose names begin with `SHARED` name the shared memory that goes with
the directory. Rank supervisors on hosts import this, so it imports little.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nws.base.lock import FileLock

SHARED_MEMORY = "/dev/shm"
#: Begin of the name of a file that stands for segments: `.shm-PREFIX` for all whose names begin with PREFIX.
SHARED = ".shm-"
_OWNER = ".owner"


class ScratchDirectory:
    """A new directory for this user alone, removed at the end of a `with` block. Raises `OSError`.

    Abandoned ones are removed first.

    prefix : begin of its name, `apples-` or `.apples-`.  parent : where it is made, by default in `$TMPDIR`
    notify : gets a line if there were abandoned ones
    """

    def __init__(
        self,
        prefix: str,
        parent: str | os.PathLike[str] | None = None,
        *,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        self._prefix, self._parent, self._notify = prefix, parent, notify

    def __enter__(self) -> Path:
        import tempfile
        from pathlib import Path

        from nws.base.lock import LockHeld

        parent = os.fspath(self._parent or tempfile.gettempdir())
        abandoned = remove_abandoned(*{parent, tempfile.gettempdir(), SHARED_MEMORY})
        if abandoned and self._notify is not None:
            self._notify(f"removed what killed commands had left: {', '.join(abandoned)}")
        while True:
            self._directory = Path(tempfile.mkdtemp(prefix=self._prefix, dir=parent))
            try:
                self._lock = own(self._directory)
                return self._directory
            except (LockHeld, FileNotFoundError):
                # between its making and its locking, another command took it for abandoned
                continue

    def __exit__(self, *exception: object) -> None:
        import shutil

        # while it is locked, so that no other process takes it for abandoned
        shutil.rmtree(self._directory, ignore_errors=True)
        if self._lock is not None:
            self._lock.release()


def own(directory: str | os.PathLike[str]) -> FileLock | None:
    """Lock a directory for this process, so that others can see when it is abandoned.

    Return None on file systems without locks, where it is never removed by others.
    """
    from nws.base.lock import FileLock

    path = os.path.join(directory, _OWNER)
    try:
        return FileLock(path)
    except FileNotFoundError:
        raise
    except OSError:
        _unlink(path)
        return None


def add_shared(directory: str, prefix: str) -> None:
    """Note in a directory that segments of shared memory whose names begin so go with it, if it can be written."""
    try:
        os.close(
            os.open(os.path.join(directory, SHARED + prefix), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        )
    except OSError:
        return


def remove_noted(directory: str) -> None:
    """Remove the segments that are noted in a directory, and the notes."""
    for name in _names(directory):
        if name.startswith(SHARED) and len(name) > len(SHARED):
            remove_shared(name[len(SHARED) :])
            _unlink(os.path.join(directory, name))


def remove_abandoned(*parents: str) -> list[str]:
    """Remove directories of this user whose owner has ended, with their shared memory; return their paths.

    Those that cannot be removed stay.
    """
    return [path for parent in parents for path in _owned(parent) if _removed(path)]


def remove_shared(prefix: str) -> None:
    """Remove the segments of shared memory whose names begin so; those of other users stay."""
    for name in _names(SHARED_MEMORY):
        if name.startswith(prefix):
            _unlink(os.path.join(SHARED_MEMORY, name))


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _owned(parent: str) -> list[str]:
    """Return the directories in `parent` that have an owner, or had one."""
    paths = [os.path.join(parent, name) for name in _names(parent) if name.lstrip(".").startswith("apples-")]
    # without a lock file it is just being made, or not ours
    return [path for path in paths if os.path.isfile(os.path.join(path, _OWNER))]


def _removed(directory: str) -> bool:
    """Remove a directory of this user and host if its lock is free; return whether it was."""
    import shutil

    from nws.base.lock import FileLock, LockHeld

    owner = os.path.join(directory, _OWNER)
    try:
        if os.lstat(directory).st_uid != os.geteuid():
            return False
        with open(owner, encoding="utf-8", errors="replace") as file:
            # locks of another host may not be seen here
            if f" on {os.uname().nodename}, " not in file.read(4096):
                return False
        with FileLock(owner, private=True):
            remove_noted(directory)
            shutil.rmtree(directory, ignore_errors=True)
            return True
    except (LockHeld, OSError):
        # in use, or removed by another process at this moment
        return False


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        # another process was faster, or it belongs to another user
        return
