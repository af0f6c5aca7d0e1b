"""One registered process, as the node manager keeps it: its grip, its page, and what it was last told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from apples.coscheduling.classes import MonitorCounts
from apples.coscheduling.events import Wait
from apples.daemons.processcontrol import ProcessControl
from apples.daemons.processes import ProcessRegistration
from apples.monitoring.page import PageCounters


class Page(Protocol):
    """What of `apples.monitoring.page.MonitorPage` is used; every method may raise `ApplesError`."""

    def figures(self, held_since_s: float | None = None) -> PageCounters:
        """What it has counted. held_since_s : since when it is held stopped, None while it runs"""

    def set_wait(self, wait: Wait | None, spin_s: float = ...) -> None:
        """How the process waits."""

    def add_stopped(self, seconds: float) -> None:
        """Time it was held stopped."""

    def set_scheduled(self, scheduled: bool) -> None:
        """Whether its job has the node."""

    def requests(self) -> int:
        """Messages from scheduled senders that came while it was not scheduled."""

    def close(self) -> None:
        """Let go of it."""


@dataclass(slots=True, kw_only=True)
class ManagedProcess:
    """One registered process.

    stopped_at : since when it is held stopped, None while it runs.  stopped_s : how long it was in all, before that
    reading, ran_s, threads : as of the last look into its page; `ran_s` is how long it could run
    looked_at : when it was last seen whether somebody else has stopped it
    wait, favoured, processors, scheduled : what it was last told.  limited_at : when its quota was last written
    refused : why the manager does not take its job
    """

    registration: ProcessRegistration
    control: ProcessControl
    page: Page | None
    arrived_at: float
    stopped_at: float | None = None
    stopped_s: float = 0.0
    wait: Wait | None = None
    favoured: bool = False
    processors: float | None = None
    limited: bool = False
    limited_at: float = 0.0
    scheduled: bool | None = None
    requests: int = 0
    looked_at: float = 0.0
    refused: str | None = None
    reading: MonitorCounts = field(default_factory=MonitorCounts)
    ran_s: float = 0.0
    threads: int = 1

    def held_s(self, now: float) -> float:
        """Seconds held stopped so far."""
        return self.stopped_s + (0.0 if self.stopped_at is None else now - self.stopped_at)
