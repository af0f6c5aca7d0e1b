"""One service for one store: two would give out the same names with different keys, and different schedules.

The lock is the system's, held while the process lives and let go of however it ends. Programs that only read or write
measurements in the same file need none.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from nws.base.errors import StoreError


class StoreLock:
    """Held from making it to `release`; raises `StoreError` when another service holds it."""

    def __init__(self, store: Path) -> None:
        path = store.with_name(f"{store.name}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # not truncated before it is ours: the process that holds it has its number in there
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"{path}: cannot be made: {error.strerror or error}; set the store to a file in a directory that may "
                "be written to"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            number = os.read(self._file, 20).decode("ascii", "replace").strip()
            os.close(self._file)
            raise StoreError(
                f"{store}: another weather service runs on this store"
                f"{f', process {number}' if number.isdecimal() else ''}; end it, or name another store"
            ) from error
        self._note()

    def release(self) -> None:
        """Let the next one in."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _note(self) -> None:
        """Who holds it, for the message to the next; a full disk does not stop a service that can still be read."""
        try:
            os.ftruncate(self._file, 0)
            os.write(self._file, f"{os.getpid()}\n".encode())
        except OSError:
            return
