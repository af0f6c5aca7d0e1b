"""Copies of a store that is in use."""

import os
from pathlib import Path

from nws.base.errors import StoreError
from nws.base.files import Replacement
from nws.memory.database import Database


def back_up(database: Database, target: Path) -> int:
    """Copy a store to a file, as it is at one instant, and return its length in bytes; raises `StoreError`."""
    if target.exists() and target.samefile(database.path):
        raise StoreError(f"{target}: it is the store itself; name another file")
    try:
        with Replacement(target, mode=0o600, sync=True) as temporary:
            database.copy_to(temporary)
            return os.stat(temporary).st_size
    except OSError as error:
        raise StoreError(
            f"{target}: the copy cannot be written: {error.strerror or error}; make room, or name another file"
        ) from error
