"""Directories of the sockets of node managers. Sent to hosts with their check: the standard library only."""

from __future__ import annotations

import contextlib
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Of the node manager that root runs for all users.
SYSTEM_DIRECTORY = "/run/apples"


def user_directory(environ: Mapping[str, str]) -> str:
    """Return the directory for this user's daemons, which may not exist."""
    runtime = environ.get("XDG_RUNTIME_DIR") or "/tmp"
    # Slurm's steps have the variable of the host where they were submitted, without the directory.
    return os.path.join(runtime if os.path.isdir(runtime) else "/tmp", f"apples-{os.getuid()}")


def sockets(directories: Sequence[str]) -> list[str]:
    """Return the sockets of node managers in directories; they may have ended."""
    found = []
    for directory in directories:
        with contextlib.suppress(OSError):
            names = sorted(n for n in os.listdir(directory) if n.startswith("node-") and n.endswith(".sock"))
            found += [os.path.join(directory, name) for name in names]
    return [path for path in found if _is_socket(path)]


def _is_socket(path: str) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISSOCK(os.stat(path).st_mode)
    return False
