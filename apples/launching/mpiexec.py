"""Runs a plan with real ranks on this machine, through the environment's own `mpiexec` (the MPICH wheel).

This module joins the others: `following` is the loop, `ending` says what to do, `processes` does it, and when
everything is gone `verdict` says what it was. Hosts on other machines (`apples.launching.ssh`), batch systems and the
mock grid are other launchers. Paper: Wolski et al. 2000, §2.1 (the actuator).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from apples.launching import preflight
from apples.launching.command import mpiexec_command
from apples.launching.engine import launched
from apples.launching.launcher import LaunchRequest, Notify
from apples.launching.processes import Processes
from apples.launching.steering import steered
from apples.launching.termination import GracePeriods
from apples.model.plan import Outcome


class MpiexecLauncher:
    """Real ranks on this machine.

    addresses : host name → address, where a grid gives one; hosts must be this machine by address or name
    bin_dir : where `mpiexec` is, by default beside the interpreter
    grace : how long ranks have to end before they are killed
    """

    name = "mpiexec"

    def __init__(
        self,
        *,
        addresses: Mapping[str, str] | None = None,
        bin_dir: Path | None = None,
        grace: GracePeriods | None = None,
    ) -> None:
        self._addresses = dict(addresses or {})
        self._bin_dir = bin_dir
        self._grace = grace or GracePeriods()

    def check(self, request: LaunchRequest) -> None:
        """Raise `LaunchError`, `NotExecutable` or `ProgramNotFound` when the run cannot start."""
        preflight.check_hosts(request, self._addresses)
        preflight.check_time_limit(request)
        preflight.check_run_dir(request)
        self.command_line(request)
        preflight.check_shared_memory(len(request.plan.assignments))

    def command_line(self, request: LaunchRequest) -> list[str]:
        """The command `run` executes; raises `ProgramNotFound` or `NotExecutable`."""
        mpiexec = preflight.find_mpiexec(self._bin_dir)
        return mpiexec_command(request, mpiexec, preflight.find_program(request))

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Run to the end and judge it; no process is left behind, whatever happens. Raises `LaunchError`."""
        self.check(request)
        request = steered(request)
        return launched(request, lambda: Processes(request, self.command_line(request)), self._grace, notify)
