"""A lock that lets one run at a time use a checkpoint or a run directory."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apples.errors import LaunchError
from nws.base.lock import FileLock, LockHeld

#: Seconds between attempts.
_RETRY_S = 0.02


@contextmanager
def locked(path: Path, purpose: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock file at `path` during the block; it is removed at the end.

    Args:
        path: the lock file, beside the file that it protects.
        purpose: the protected object in messages, such as "checkpoint FILE".
        wait_s: seconds to wait for another holder to end.

    Raises:
        LaunchError: another process still holds the lock; the message names it. Or the file cannot be created.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            # Readable for all: the message to another user names the holder.
            lock = FileLock(path, mode=0o644, remove=True)
            break
        except LockHeld as held:
            if time.monotonic() >= deadline:
                raise LaunchError(
                    f"{purpose} is in use by {held.holder}; wait for its end, end it, or choose another one"
                ) from None
            time.sleep(_RETRY_S)
        except OSError as error:
            raise LaunchError(
                f"{purpose} cannot be locked: {path}: {error.strerror}; make its directory writable, or choose another "
                "one"
            ) from None
    with lock:
        yield
