"""One job under the monitor: its environment before it starts, its figures while it runs and after, then nothing left.

Starts nothing by itself: the launcher of `apples-run` and `apples share` put `environment` around what they start.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from apples.coscheduling.events import Wait
from apples.monitoring.efficiencies import monitor_document
from apples.monitoring.environment import SPIN_S, make_directory, monitor_environment, pages, remove_pages
from apples.monitoring.page import PageCounters


class MonitoredJob:
    """A context: the pages of the job are there inside of it and removed at its end.

    name : of the job, a new one by default.  directory : for the pages, the user's own by default
    environment : variables that its processes must start with
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        wait: Wait | None = None,
        spin_s: float = SPIN_S,
        base: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """Make the directory and build the library; raises `ConfigError` (name), `MonitorError`.

        wait : how processes wait from the start, None as their MPI does.  base : environment to be added to
        """
        self.name = name or f"run-{os.getpid()}-{secrets.token_hex(3)}"
        self._directory = make_directory(directory)
        self.environment = monitor_environment(
            self._directory, self.name, wait=wait, spin_s=spin_s, base=base
        )

    def __enter__(self) -> Self:
        """The job itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove what it has left."""
        remove_pages(self._directory, self.name)

    def figures(self) -> list[PageCounters]:
        """Of the ranks that have begun, in rank order; raises `MonitorError`."""
        found = pages(self._directory, self.name)
        try:
            return [page.figures() for page in found]
        finally:
            for page in found:
                page.close()

    def document(self) -> dict[str, Any]:
        """JSON document of the figures and efficiencies; see `apples.monitoring.efficiencies`."""
        return monitor_document(self.figures())
