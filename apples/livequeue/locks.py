"""Who lives: a supervisor holds its job's byte of one file, the manager byte 0, as long as the process lives.

Record locks belong to a process: the kernel gives them back however it ends, and what it starts does not inherit them.
So the file must be opened once in a process, and stay open.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from apples.errors import HistoryError

MANAGER = 0
"""The manager's byte; a job's is its id."""


class Locks:
    """The file of locks beside a store."""

    def __init__(self, store: Path) -> None:
        """store : the queue's database. Raises `HistoryError`."""
        self.path = store.with_name(f"{store.name}.locks")
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HistoryError(f"{self.path}: cannot be used ({error.strerror})") from error

    def take(self, byte: int) -> bool:
        """Hold it until the end of this process; false where another holds it."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError:
            return False
        return True

    def held(self, byte: int) -> bool:
        """Does another process hold it?"""
        if not self.take(byte):
            return True
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, byte)
        return False

    def close(self) -> None:
        """Give everything back."""
        os.close(self._fd)
