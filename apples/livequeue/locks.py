"""Locks that show which processes live: a supervisor holds its job's byte of one file, the manager holds byte 0."""

from pathlib import Path

from apples.errors import HistoryError
from nws.base.lock import ByteLocks

MANAGER = 0
"""The manager's byte. A job's byte is its id."""


def queue_locks(store: Path) -> ByteLocks:
    """Return the locks beside a queue's database; raise `HistoryError` if the file cannot be used."""
    path = store.with_name(f"{store.name}.locks")
    try:
        return ByteLocks(path)
    except OSError as error:
        raise HistoryError(f"{path}: cannot be used ({error.strerror})") from error
