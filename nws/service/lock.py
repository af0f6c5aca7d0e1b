"""The lock that lets one service use a store: two would issue the same names with different keys.

Programs that only read or write measurements in the store need no lock.
"""

from pathlib import Path

from nws.base.errors import StoreError
from nws.base.lock import FileLock, LockHeld


def store_lock(store: Path) -> FileLock:
    """Return the lock of a store, held; raises `StoreError` if another service holds it."""
    path = store.with_name(f"{store.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(path)
    except LockHeld as held:
        raise StoreError(
            f"{store}: another weather service runs on this store, {held.holder}; end it, or name another store"
        ) from None
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be made: {error.strerror or error}; set the store to a file in a writable directory"
        ) from error
