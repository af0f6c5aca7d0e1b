"""The state directory, and the name of this host. One rule for the weather and for the agent.

`$APPLES_STATE` has precedence, then `$XDG_STATE_HOME/apples`, then `~/.local/state/apples`. Nothing is created here.
A state directory that other users may write to is refused, also one that they can replace: a library in it is
preloaded into programs.
"""

import os
import re
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

from nws.base.errors import StoreError


def state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return directory for everything kept between runs, absolute; it need not exist yet.

    A relative `$XDG_STATE_HOME` is ignored, as the XDG base directory specification asks. Raises `StoreError` without a
    home directory, and if other users may write to the directory.
    """
    env = os.environ if environ is None else environ
    stated, xdg = env.get("APPLES_STATE"), Path(env.get("XDG_STATE_HOME", ""))
    try:
        if stated:
            return refuse_shared(Path(stated).expanduser().absolute())
        base = xdg if xdg.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        # a user without an entry, as in containers, or ~ of an unknown user
        where = f"APPLES_STATE {stated!r}" if stated else "where to keep state"
        raise StoreError(
            f"{where}: there is no such home directory; set APPLES_STATE to a directory"
        ) from None
    return refuse_shared(base / "apples")


def refuse_shared(path: Path) -> Path:
    """Return a path of the state if it is absent, or if only this user and root can write to it.

    A group may write if it has the number of the file's owner, as private groups of users have. A directory above it
    that all may write to needs the sticky bit, as /tmp has: otherwise the path can be replaced. Raises `StoreError`.
    """
    for parent in path.absolute().parents:
        mode = parent.stat().st_mode if parent.is_dir() else 0
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise StoreError(
                f"{path}: other users may replace it, as {parent} has mode {stat.S_IMODE(mode):04o}; run chmod o-w "
                f"{parent}, or set APPLES_STATE to another directory"
            )
    try:
        about = path.stat()
    except OSError:
        # Absent or unreadable: the caller that opens the path reports the reason.
        return path
    group = about.st_mode & stat.S_IWGRP and about.st_gid != about.st_uid
    if about.st_uid in (os.geteuid(), 0) and not group and not about.st_mode & stat.S_IWOTH:
        return path
    raise StoreError(
        f"{path}: other users may write there (owner {about.st_uid}, mode {stat.S_IMODE(about.st_mode):04o}); expected "
        f"a file or directory of user {os.geteuid()} or root. Check its contents and run chmod go-w, or set "
        "APPLES_STATE to another directory"
    )


def local_host() -> str:
    """Name of this host as series carry it: the node name up to the first dot, illegal characters made dashes."""
    return re.sub(r"[@>,/\\\s]", "-", socket.gethostname().partition(".")[0]) or "localhost"
