"""A lock that lets one run at a time use a checkpoint or a run directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apples.errors import LaunchError
from nws.base.lock import FileLock, LockHeld


@contextmanager
def locked(path: Path, purpose: str) -> Iterator[None]:
    """Hold the lock file at `path` during the block; it is removed at the end.

    Args:
        path: the lock file, beside the file that it protects.
        purpose: the protected object in messages, such as "checkpoint FILE".

    Raises:
        LaunchError: another process holds the lock; the message names it. Or the file cannot be created.
    """
    try:
        lock = FileLock(path, mode=0o644, remove=True)
    except LockHeld as held:
        raise LaunchError(
            f"{purpose} is in use by {held.holder}; wait for its end, end it, or choose another one"
        ) from None
    except OSError as error:
        raise LaunchError(
            f"{purpose} cannot be locked: {path}: {error.strerror}; make its directory writable, or choose another one"
        ) from None
    with lock:
        yield
