"""The temporary directory of a launch, and removal of those whose owner was killed.

Each directory holds a lock file. The kernel releases the lock when the owner ends, however it ends, so that a directory
whose lock is free has no owner.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nws.base.lock import FileLock, LockHeld

_PREFIX = "apples-run-"
_LOCK = ".owner"


@contextmanager
def run_directory() -> Iterator[Path]:
    """Yield a new directory in `$TMPDIR`, removed at the end of the block; remove abandoned ones first.

    Raises `OSError` if it cannot be made.
    """
    _remove_abandoned()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with FileLock(directory / _LOCK):
            try:
                yield directory
            finally:
                # while it is locked, so that no other process takes it for abandoned
                shutil.rmtree(directory, ignore_errors=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _remove_abandoned() -> None:
    """Remove run directories of this user whose owner has ended; leave those that cannot be removed."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            # without a lock file it is just being made, or not ours
            if directory.lstat().st_uid != os.geteuid() or not (directory / _LOCK).is_file():
                continue
            with FileLock(directory / _LOCK, private=True):
                shutil.rmtree(directory, ignore_errors=True)
        except (LockHeld, OSError):
            # in use, or removed by another process at this moment
            continue
