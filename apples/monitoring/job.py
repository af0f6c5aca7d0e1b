"""One job under the monitor: its environment before the start, its values during and after the run.

Starts nothing: `apples-run` and `apples share` add variables to the programs that they start. `MonitoredJob` is for
this machine, `MonitoredRun` for any hosts.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from apples.coscheduling.events import Wait
from apples.errors import MonitorError
from apples.monitoring.build import monitor_library
from apples.monitoring.counters import PageCounters
from apples.monitoring.efficiencies import monitor_document
from apples.monitoring.environment import (
    SPIN_S,
    figures_of,
    monitor_environment,
    page_directory,
    remove_pages,
)
from apples.monitoring.names import LIBRARY


class MonitoredJob:
    """A context in which the pages of a job exist; they are removed at its end.

    name : name of the job, a new one by default.  directory : of the pages, a new one by default
    notify : gets a line if killed commands had left pages
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
        notify: Callable[[str], None] | None = None,
    ) -> None:
        """Make the directory and build the library; raises `ConfigError` (name), `MonitorError`.

        The argument `wait` sets how processes wait, None as their MPI does; `base` is the environment to be extended.
        """
        self.name = name or f"run-{os.getpid()}-{secrets.token_hex(3)}"
        with ExitStack() as stack:
            self._directory = directory or stack.enter_context(page_directory(notify))
            self.environment = monitor_environment(
                self._directory, self.name, wait=wait, spin_s=spin_s, base=base
            )
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        remove_pages(self._directory, self.name)
        self._stack.close()

    def figures(self) -> list[PageCounters]:
        """Return the values of the ranks that have begun, in rank order; raises `MonitorError`."""
        return figures_of(self._directory, self.name)

    def document(self) -> dict[str, Any]:
        """Return the JSON document of values and efficiencies; see `apples.monitoring.efficiencies`."""
        return monitor_document(self.figures())


#: Name of the job in a run directory, where there is no other.
JOB = "run"


class MonitoredRun:
    """The monitor in the ranks of a run over any hosts: library and pages are in the run directory of each attempt.

    Host agents copy the library to hosts that do not share the run directory, and send the pages back.
    """

    def __init__(self, *, wait: Wait | None = None, job: str = JOB, directory: Path | None = None) -> None:
        """Build the library; raises `MonitorError`.

        Args:
            wait: How ranks wait; None as their MPI does.
            job: Name of the job.
            directory: Of the pages; None for the run directory.
        """
        self._wait, self._job, self._directory = wait, job, directory
        self._library = monitor_library()
        #: Values of the ranks of the last attempt that has ended.
        self.figures: list[PageCounters] = []

    def environment(self, run_dir: Path, wait: Wait | None = None) -> dict[str, str]:
        """Copy the library to a run directory, and return the variables for its ranks; raises `MonitorError`.

        The argument `wait` is used if the run has none of its own.
        """
        library = run_dir.absolute() / LIBRARY
        try:
            shutil.copyfile(self._library, library)
        except OSError as error:
            raise MonitorError(f"{library}: cannot copy the monitor's library: {error.strerror}") from error
        pages = self._directory or run_dir.absolute()
        return monitor_environment(pages, self._job, wait=self._wait or wait, library=library)

    def collect(self, run_dir: Path) -> None:
        """Read the pages of an attempt that has ended; raises `MonitorError`."""
        self.figures = figures_of(self._directory or run_dir, self._job)

    def document(self) -> dict[str, Any]:
        """Return the JSON document of the last attempt; see `apples.monitoring.efficiencies`."""
        return monitor_document(self.figures)
