"""Where state lives between runs, and what this host is called. One rule for the weather and for the agent.

`$APPLES_STATE` wins, else `$XDG_STATE_HOME/apples`, else `~/.local/state/apples`. Nothing is created here.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path


def state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Directory for everything kept between runs, absolute; it need not exist yet.

    A relative `$XDG_STATE_HOME` is ignored, as the XDG base directory specification asks.
    """
    env = os.environ if environ is None else environ
    if own := env.get("APPLES_STATE"):
        return Path(own).expanduser().absolute()
    xdg = Path(env.get("XDG_STATE_HOME", ""))
    base = xdg if xdg.is_absolute() else Path.home() / ".local" / "state"
    return base / "apples"


def local_host() -> str:
    """Name of this host as series carry it: the node name up to the first dot, illegal characters made dashes."""
    return re.sub(r"[@>,/\\\s]", "-", socket.gethostname().partition(".")[0]) or "localhost"
