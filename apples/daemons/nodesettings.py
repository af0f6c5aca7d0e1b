"""What one node manager was told when it was started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from apples.daemons.settings import SharingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What `apples node` was told.

    cpus : CPUs of the node, to which processes are pinned; None for all of this process, and no pinning
    key : shared with the manager, None where there is no manager.  while_needed : end when nobody is registered
    """

    name: str
    sharing: SharingSettings
    socket: Path
    cpus: tuple[int, ...] | None = None
    key: bytes | None = None
    while_needed: bool = False

    @property
    def processors(self) -> int:
        """How many the node has."""
        return len(self.cpus) if self.cpus is not None else len(os.sched_getaffinity(0))
