"""What several commands say alike of options that do not go together, or that lack another. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOCK, MONITOR = "the mock grid has no real hosts", "the monitor's pages are of this machine only"


def excluded(what: str, options: Mapping[str, Any], reasons: Mapping[str, str]) -> list[str]:
    """A problem for each option that was given and cannot be together with `what`. reasons : by name of the option"""
    return [
        f"{what} and --{name} exclude each other: {why}" for name, why in reasons.items() if options.get(name)
    ]


def without_hosts(options: Mapping[str, Any]) -> list[str]:
    """What --launcher ssh lacks where no pool is named."""
    if any(options[name] is not None for name in ("grid_file", "hosts", "hostfile")):
        return []
    return ["--launcher ssh needs hosts; name them with -H LIST, --hostfile FILE or --grid FILE"]
