"""Run a plan over several hosts: `mpiexec` here, one ssh connection to each host, rank i on its host.

It describes a launch for `apples.launching.engine`. `apples.remote.preflight` has checked before which hosts can take
part. A host that is lost during the run ends it; the caller decides how to continue. Paper: Wolski et al. 2000, §2.1
(the actuator).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from apples.launching import preflight
from apples.launching.agentconnection import HostAddress, LivenessTimeouts
from apples.launching.command import Rendezvous, carried, helper, rank_environment, spread_command
from apples.launching.engine import launch
from apples.launching.launcher import LaunchRequest, Notify
from apples.launching.processes import LaunchMethod
from apples.launching.steering import steered
from apples.launching.termination import GracePeriods
from apples.model.plan import Outcome
from apples.remote.ssh import find_ssh, ssh_command


class SshLauncher:
    """Real ranks on several hosts.

    addresses : host → its address; hosts of plans must be among them
    bin_dir : directory of `mpiexec`, by default that of the interpreter; the same path on every host
    grace : time that ranks have to end before they are killed.  timeouts : when a silent host counts as lost
    """

    name = "ssh"

    def __init__(
        self,
        addresses: Mapping[str, HostAddress],
        *,
        bin_dir: Path | None = None,
        grace: GracePeriods | None = None,
        timeouts: LivenessTimeouts | None = None,
    ) -> None:
        self._addresses = dict(addresses)
        self._bin_dir = bin_dir
        self._grace = grace or GracePeriods()
        self._timeouts = timeouts or LivenessTimeouts()

    def check(self, request: LaunchRequest) -> None:
        """Raise `LaunchError`, `NotExecutable` or `ProgramNotFound` if the run cannot start."""
        preflight.check_request(request, self._addresses, "that were checked")
        self.command_line(request)
        if any(self._addresses[host].address is not None for host in request.plan.hosts):
            find_ssh()

    def command_line(self, request: LaunchRequest) -> list[str]:
        """Return the command that `run` executes, without the address and directory that agents report.

        Raises `ProgramNotFound` or `NotExecutable`.
        """
        return self._command(request, Rendezvous(launcher="ADDRESS", directory=os.getcwd()))

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Run to the end and return the outcome. No process is left on any host. Raises `LaunchError`."""
        self.check(request)
        request = steered(request)
        method = LaunchMethod(
            agents={host: (self._addresses[host], self._agent_command(host)) for host in request.plan.hosts},
            command=lambda rendezvous: self._command(request, rendezvous),
            timeouts=self._timeouts,
        )
        return launch(request, method, self._grace, notify)

    def _command(self, request: LaunchRequest, rendezvous: Rendezvous) -> list[str]:
        mpiexec, program = preflight.find_mpiexec(self._bin_dir), preflight.find_program(request)
        names = carried(rank_environment(request, os.environ))
        return spread_command(request, mpiexec, program, rendezvous, names)

    def _agent_command(self, host: str) -> list[str] | None:
        address = self._addresses[host].address
        return None if address is None else ssh_command(find_ssh(), address, helper("serve"))
