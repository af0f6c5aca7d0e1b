"""Runs a plan over several hosts: `mpiexec` here, one ssh connection to each host, rank i on the host of the plan.

Joins the others as `apples.launching.mpiexec` does for one machine. Which hosts can take part was found out before, by
`apples.remote.preflight`. A host that is lost on the way ends the run; what follows from that is the caller's.
Paper: Wolski et al. 2000, §2.1 (the actuator).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from apples.errors import LaunchError
from apples.launching import preflight
from apples.launching.agentconnection import HOST_AGENT, HostAddress, LivenessTimeouts
from apples.launching.command import BARE, ONE_THREAD
from apples.launching.engine import launched
from apples.launching.launcher import LaunchRequest, Notify
from apples.launching.remotecommand import Rendezvous, carried, spread_command
from apples.launching.remoteprocesses import RemoteProcesses
from apples.launching.steering import steered
from apples.launching.termination import GracePeriods
from apples.model.plan import Outcome
from apples.remote.ssh import find_ssh, ssh_command


class SshLauncher:
    """Real ranks on several hosts.

    places : host → how it is reached; hosts of plans must be among them
    bin_dir : where `mpiexec` is, by default beside the interpreter; on every host at the same path
    grace : how long ranks have to end before they are killed.  silence : how long a host may say nothing
    """

    name = "ssh"

    def __init__(
        self,
        places: Mapping[str, HostAddress],
        *,
        bin_dir: Path | None = None,
        grace: GracePeriods | None = None,
        silence: LivenessTimeouts | None = None,
    ) -> None:
        self._places = dict(places)
        self._bin_dir = bin_dir
        self._grace = grace or GracePeriods()
        self._silence = silence or LivenessTimeouts()

    def check(self, request: LaunchRequest) -> None:
        """Raise `LaunchError`, `NotExecutable` or `ProgramNotFound` when the run cannot start."""
        if not request.plan.assignments:
            raise LaunchError("the plan has no ranks; make a plan for at least one")
        unknown = [host for host in request.plan.hosts if host not in self._places]
        if unknown:
            legal = ", ".join(self._places) or "none"
            raise LaunchError(f"hosts {', '.join(unknown)} are not among those that were checked: {legal}")
        preflight.check_time_limit(request)
        preflight.check_run_dir(request)
        self.command_line(request)
        if any(self._places[host].address is not None for host in request.plan.hosts):
            find_ssh()

    def command_line(self, request: LaunchRequest) -> list[str]:
        """The command `run` executes, but for the address and the directory, which sTATIONS tell.

        Raises `ProgramNotFound` or `NotExecutable`.
        """
        return self._command(request, Rendezvous(launcher="ADDRESS", directory=os.getcwd()))

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Run to the end and judge it; no process is left on any host, whatever happens. Raises `LaunchError`."""
        self.check(request)
        request = steered(request)
        places = {host: (self._places[host], self._station(host)) for host in request.plan.hosts}

        def start() -> RemoteProcesses:
            return RemoteProcesses(
                request, places, lambda spread: self._command(request, spread), self._silence
            )

        return launched(request, start, self._grace, notify)

    def _command(self, request: LaunchRequest, spread: Rendezvous) -> list[str]:
        mpiexec, program = preflight.find_mpiexec(self._bin_dir), preflight.find_program(request)
        names = carried({**ONE_THREAD, **os.environ, **request.environment})
        return spread_command(request, mpiexec, program, spread, names)

    def _station(self, host: str) -> list[str]:
        command = [sys.executable, *BARE, str(HOST_AGENT)]
        address = self._places[host].address
        return command if address is None else ssh_command(find_ssh(), address, command)
