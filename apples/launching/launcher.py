"""What a world must offer so that the agent can run a plan in it.

Two worlds stand behind this seam: `apples.launching.mpiexec` starts real ranks on this machine,
`apples.simulation.mock_launcher` executes the run in simulated time. Nobody else sees which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from apples.adapting.progress import AdaptationController
from apples.model.plan import Outcome, Plan
from apples.model.template import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One run to be started.

    command : program and arguments of every rank.  run_dir : existing directory for statuses and records
    environment : variables set for the ranks on top of ours
    label : prefix every line of output with its rank
    time_limit_s : wall seconds after which the run is ended (exit code 124)
    checkpoint_every : iterations between checkpoints, None for none on the way; real ranks are told by their command
    program_output_to_stderr : keep our stdout free for one JSON document
    controller : hears how the run goes and may move its slabs or end it; None for a run that is left alone
    """

    plan: Plan
    workload: Workload
    command: tuple[str, ...]
    run_dir: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    label: bool = False
    time_limit_s: float | None = None
    program_output_to_stderr: bool = False
    checkpoint_every: int | None = None
    controller: AdaptationController | None = None


Notify = Callable[[str], None]
"""Receives one line for the user's eyes (never for parsing)."""


class Launcher(Protocol):
    """A world in which plans are run."""

    name: str

    def check(self, request: LaunchRequest) -> None:
        """Raise `LaunchError` (or a subclass) when the run cannot start; touches nothing."""

    def command_line(self, request: LaunchRequest) -> list[str]:
        """The command `run` would execute, for `--dry-run` and `-v`."""

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Run to the end; leaves no process behind, whatever happens. `observations` may stay empty."""
