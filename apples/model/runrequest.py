"""The user's request for one run: size, application, planner options, and the policy for failures. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from apples.model.grid import Snapshot
from apples.model.progress import AdaptationController
from apples.model.template import Application


class Benchmarks(Enum):
    """Benchmarks that a request may run: all, those of applications of this package, or none."""

    ALL = "all"
    BUILT_IN = "built-in"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilience:
    """Attempts and checkpoints of a run.

    attempts : maximum number.  file : path of the checkpoint, None for none.  own : a file of this package's state
        directory, removed after success
    needed : write checkpoints even where expected failures alone do not justify them (the run may move to other hosts)
    resume : start from the iteration that the file holds
    rule : "young" (optimal interval), "iterations" (each `every`, None for one at the end), or "time" (each `every_s`)
    mtbf_s : mean time between failures of one host, None to estimate it from the history
    """

    attempts: int = 1
    file: Path | None = None
    own: bool = False
    needed: bool = False
    resume: bool = False
    rule: str = "young"
    every: int | None = None
    every_s: float | None = None
    mtbf_s: float | None = None


class Monitor(Protocol):
    """The used part of `apples.monitoring.job.MonitoredRun`; `environment` and `collect` raise `MonitorError`."""

    #: The values of each rank (`apples.monitoring.counters.PageCounters`) of the last attempt.
    figures: list[Any]

    def environment(self, run_dir: Path, wait: Any = None) -> Mapping[str, str]:
        """Return the variables for the ranks of an attempt.

        wait : how they wait (`apples.coscheduling.events.Wait`), None as the user decided
        """

    def collect(self, run_dir: Path) -> None:
        """Read the pages of an attempt that has ended."""

    def document(self) -> dict[str, Any]:
        """Return the JSON document of the run."""


class SharingPolicy(Protocol):
    """The used part of `apples.coscheduling.policies.PolicyKind`."""

    @property
    def needs_monitor(self) -> bool:
        """Return whether the node manager must see when ranks communicate; their waits are then its decision."""


class Sharing(Protocol):
    """How a run shares its hosts. job : the job's name there"""

    job: str

    @property
    def kind(self) -> SharingPolicy | None:
        """Return the policy; None while it has none."""

    def settle(self, hosts: Sequence[str]) -> None:
        """Decide, for the hosts of a plan, whether its ranks are under a policy."""

    def observed(self) -> dict[str, Any]:
        """Return, after the run, the observations of the node managers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run as the user asked for it.

    size : total rows.  template : the application.  settings : its options
    overrides : fields of `apples.planning.planningoptions.PlanningOptions` that the user set
    environment : variables for the ranks
    time_limit_s : wall seconds of all attempts together
    sharing : how it shares its hosts, None for one that may have no policy.  monitor : the MPI monitor in the ranks
    adaptive_waits : without a policy, ranks that share CPUs with other processes leave them to these while they wait
    polling : without a policy, ranks poll while they wait, whatever share of a CPU they have
    benchmarks : those that may be run now if they are missing
    make_controller : returns the adaptation controller of one attempt, from request and decision; None without
        adaptation
    """

    size: int
    template: Application
    settings: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = "apples"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    label: bool = False
    time_limit_s: float | None = None
    program_output_to_stderr: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    sharing: Sharing | None = None
    monitor: Monitor | None = None
    adaptive_waits: bool = False
    polling: bool = False
    resilience: Resilience = field(default_factory=Resilience)
    benchmarks: Benchmarks = Benchmarks.ALL
    make_controller: Callable[[RunRequest, Any], AdaptationController] | None = None

    @property
    def policy(self) -> SharingPolicy | None:
        """Return the policy of the ranks as far as it is known; None without one."""
        return None if self.sharing is None else self.sharing.kind

    def as_waiting(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot for ranks that wait as those of this run do."""
        polling = self.polling if self.policy is None else not self.policy.needs_monitor
        return snapshot.for_polling_ranks() if polling else snapshot

    def with_fewer_ranks(self, slots: int) -> RunRequest:
        """Return the request with its number of ranks as a maximum, if `slots` is smaller than that number."""
        ranks = self.overrides.get("ranks")
        if ranks is None or ranks <= slots:
            return self
        others = {name: value for name, value in self.overrides.items() if name != "ranks"}
        return replace(self, overrides={**others, "max_ranks": ranks})
