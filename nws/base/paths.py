"""The state directory, and the name of this host. One rule for the weather and for the agent.

`$APPLES_STATE` has precedence, then `$XDG_STATE_HOME/apples`, then `~/.local/state/apples`. Nothing is created here.
A state directory that other users may write to is refused, also one that they can replace: a library in it is
preloaded into programs.
"""

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from nws.base.errors import StoreError
from nws.base.files import untrusted


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
    """Return a path of the state if it is absent, or if only this user and root can change or replace it.

    See `nws.base.files.untrusted`. Raises `StoreError`.
    """
    if problem := untrusted(path):
        raise StoreError(
            f"{path}: other users may write there or replace it, as {problem}. Check its contents "
            f"(expected owner: user {os.geteuid()} or root), or set APPLES_STATE to another directory"
        )
    return path


def local_host() -> str:
    """Name of this host as series carry it: the node name up to the first dot, illegal characters made dashes."""
    return re.sub(r"[@>,/\\\s]", "-", socket.gethostname().partition(".")[0]) or "localhost"
