"""One run at a time at a file or in a directory: a lock that says who holds it and dies with its holder.

The lock file stands beside what it protects. The kernel gives the lock back however its process ends, so a file that a
killed run has left holds nobody up. What is worth a lock is for the caller to decide.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apples.errors import LaunchError


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file at `path` for the length of the block; it is removed at the end.

    what : is protected, as in "checkpoint FILE".  Raises `LaunchError` where another process holds it, and who, or
    where the file cannot be made
    """
    try:
        handle = _taken(path, what)
    except OSError as error:
        raise LaunchError(
            f"{what} cannot be locked: {path}: {error.strerror}; give the right to write there, or take another place"
        ) from None
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, _self().encode(), 0)
        yield
    finally:
        # Removed while it is held: whoever opened it before finds another file in its place, and looks again.
        path.unlink(missing_ok=True)
        os.close(handle)


def _taken(path: Path, what: str) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.stat(path)
            if os.path.samestat(found, os.fstat(handle)):
                return handle
        except BlockingIOError:
            holder = os.pread(handle, 4096, 0).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise LaunchError(
                f"{what} is in use by {holder}; wait for its end, end it, or take another place"
            ) from None
        except FileNotFoundError:
            # Its holder has just ended.
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _self() -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"process {os.getpid()} of {user} on {socket.gethostname()}, since {since}\n"
