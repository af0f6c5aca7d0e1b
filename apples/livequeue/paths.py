"""Where a queue's store and its socket are.

The store is `$APPLES_STATE/queue/jobs.db` unless named. The socket's path may be 107 bytes long at most, so it stands
in the user's own directory for daemons, named after the store; that of a manager which serves everybody in
/run/apples.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from apples.daemons.paths import SYSTEM_DIRECTORY, user_directory
from nws.base.paths import state_dir

SOCKET_VARIABLE = "APPLES_QUEUE_SOCKET"
SYSTEM_SOCKET = SYSTEM_DIRECTORY / "queue.sock"


def store_path(given: Path | None = None) -> Path:
    """The store, absolute; it need not exist."""
    return (given or state_dir() / "queue" / "jobs.db").absolute()


def own_socket(store: Path) -> Path:
    """Where the manager of a store listens for its own user."""
    digest = hashlib.sha256(os.fsencode(store.resolve())).hexdigest()[:12]
    return user_directory() / f"queue-{digest}.sock"


def known_sockets(given: Path | None = None) -> list[Path]:
    """Sockets to ask, the likeliest first. given : the only one, where the user names it"""
    named = given or os.environ.get(SOCKET_VARIABLE)
    if named:
        return [Path(named)]
    return [own_socket(store_path()), SYSTEM_SOCKET]
