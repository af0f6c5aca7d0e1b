"""The state directory, and the name of this host. One rule for the weather and for the agent.

`$APPLES_STATE` has precedence, then `$XDG_STATE_HOME/apples`, then `~/.local/state/apples`. Nothing is created here.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from nws.base.errors import StoreError


def state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return directory for everything kept between runs, absolute; it need not exist yet. `StoreError` without a home.

    A relative `$XDG_STATE_HOME` is ignored, as the XDG base directory specification asks.
    """
    env = os.environ if environ is None else environ
    own, xdg = env.get("APPLES_STATE"), Path(env.get("XDG_STATE_HOME", ""))
    try:
        if own:
            return Path(own).expanduser().absolute()
        base = xdg if xdg.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        # a user without an entry, as in containers, or ~ of an unknown user
        where = f"APPLES_STATE {own!r}" if own else "where to keep state"
        raise StoreError(
            f"{where}: there is no such home directory; set APPLES_STATE to a directory"
        ) from None
    return base / "apples"


def local_host() -> str:
    """Name of this host as series carry it: the node name up to the first dot, illegal characters made dashes."""
    return re.sub(r"[@>,/\\\s]", "-", socket.gethostname().partition(".")[0]) or "localhost"
