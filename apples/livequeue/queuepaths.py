"""Paths of a queue's store and its socket.

The default store is `$APPLES_STATE/queue/jobs.db`. The path of a Unix socket has at most 107 bytes, so the socket is in
the user's directory for daemons and has a digest of the store's path in its name. The socket of a manager for all users
is in /run/apples.
"""

import hashlib
import os
from pathlib import Path

from apples.daemons.paths import SYSTEM_DIRECTORY, user_directory
from nws.base.paths import state_dir

SOCKET_VARIABLE = "APPLES_QUEUE_SOCKET"
SYSTEM_SOCKET = SYSTEM_DIRECTORY / "queue.sock"


def store_path(given: Path | None = None) -> Path:
    """Return the absolute path of the store, which need not exist."""
    return (given or state_dir() / "queue" / "jobs.db").absolute()


def own_socket(store: Path) -> Path:
    """Return the socket of a manager that serves its own user."""
    digest = hashlib.sha256(os.fsencode(store.resolve())).hexdigest()[:12]
    return user_directory() / f"queue-{digest}.sock"


def known_sockets(given: Path | None = None) -> list[Path]:
    """Return the sockets to try, in order. `given`: the only one, if the user names it."""
    named = given or os.environ.get(SOCKET_VARIABLE)
    if named:
        return [Path(named)]
    return [own_socket(store_path()), SYSTEM_SOCKET]
