"""Directories of the sockets of node managers. Sent to hosts with their check: the standard library only."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Of the node manager that root runs for all users.
SYSTEM_DIRECTORY = "/run/apples"


def user_directory(environ: Mapping[str, str]) -> str:
    """Return the directory for this user's daemons, which may not exist."""
    runtime = environ.get("XDG_RUNTIME_DIR") or "/tmp"
    # Slurm's steps have the variable of the host where they were submitted, without the directory.
    return os.path.join(runtime if os.path.isdir(runtime) else "/tmp", f"apples-{os.getuid()}")


def sockets(environ: Mapping[str, str]) -> list[list[str]]:
    """Return the sockets of this user's node managers, and of those of all users; some may have ended."""
    return [_sockets_in(directory) for directory in (user_directory(environ), SYSTEM_DIRECTORY)]


def _sockets_in(directory: str) -> list[str]:
    try:
        # The owner of the directory does not count: clients check the user who listens.
        names = os.listdir(directory)
    except OSError:
        return []
    paths = (
        os.path.join(directory, n) for n in sorted(names) if n.startswith("node-") and n.endswith(".sock")
    )
    return [path for path in paths if _is_socket(path)]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False
