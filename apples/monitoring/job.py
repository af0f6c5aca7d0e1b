"""One job under the monitor: its environment before the start, its values during and after the run.

Starts nothing: `apples-run` and `apples share` add `environment` to the programs that they start.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from apples.coscheduling.events import Wait
from apples.monitoring.counters import PageCounters
from apples.monitoring.efficiencies import monitor_document
from apples.monitoring.environment import SPIN_S, make_directory, monitor_environment, pages, remove_pages


class MonitoredJob:
    """A context in which the pages of a job exist; they are removed at its end.

    name : name of the job, a new one by default.  directory : of the pages, the user's own by default
    environment : variables for its processes
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

        The argument `wait` sets how processes wait, None as their MPI does; `base` is the environment to be extended.
        """
        self.name = name or f"run-{os.getpid()}-{secrets.token_hex(3)}"
        self._directory = make_directory(directory)
        self.environment = monitor_environment(
            self._directory, self.name, wait=wait, spin_s=spin_s, base=base
        )

    def __enter__(self) -> Self:
        """Return the job itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove pages and bell."""
        remove_pages(self._directory, self.name)

    def figures(self) -> list[PageCounters]:
        """Return the values of the ranks that have begun, in rank order; raises `MonitorError`."""
        found = pages(self._directory, self.name)
        try:
            return [page.figures() for page in found]
        finally:
            for page in found:
                page.close()

    def document(self) -> dict[str, Any]:
        """Return the JSON document of values and efficiencies; see `apples.monitoring.efficiencies`."""
        return monitor_document(self.figures())
