"""Run a plan with real ranks on this machine, through the environment's own `mpiexec` (the MPICH wheel).

It describes a launch for `apples.launching.engine`: one forked host agent, which starts `mpiexec`. Paper: Wolski et al.
2000, §2.1 (the actuator).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from apples.launching import preflight
from apples.launching.agentconnection import HostAddress
from apples.launching.command import mpiexec_command
from apples.launching.engine import launch
from apples.launching.launcher import LaunchRequest, Notify
from apples.launching.processes import LaunchMethod
from apples.launching.steering import steered
from apples.launching.termination import GracePeriods
from apples.model.plan import Outcome


class MpiexecLauncher:
    """Real ranks on this machine.

    addresses : host name → address from the grid file; hosts must be this machine by address or name
    bin_dir : directory of `mpiexec`, by default that of the interpreter
    grace : time that ranks have to end before they are killed
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
        """Raise `LaunchError`, `NotExecutable` or `ProgramNotFound` if the run cannot start."""
        preflight.check_hosts(request, self._addresses)
        preflight.check_time_limit(request)
        preflight.check_run_dir(request)
        self.command_line(request)
        preflight.check_shared_memory(len(request.plan.assignments))

    def command_line(self, request: LaunchRequest) -> list[str]:
        """Return the command that `run` executes; raises `ProgramNotFound` or `NotExecutable`."""
        mpiexec = preflight.find_mpiexec(self._bin_dir)
        return mpiexec_command(request, mpiexec, preflight.find_program(request))

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Run to the end and return the outcome; no process is left, whatever happens. Raises `LaunchError`."""
        self.check(request)
        command = self.command_line(request)
        agents = {"localhost": (HostAddress(host="localhost"), None)}
        method = LaunchMethod(agents=agents, command=lambda _: command, here=True)
        return launch(steered(request), method, self._grace, notify)
