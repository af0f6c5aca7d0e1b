"""Run a plan with `mpiexec` on the hosts that an access describes: this machine alone, or several hosts over ssh.

The functions describe a launch for `apples.launching.engine`. On this machine alone one forked host agent starts
`mpiexec`. Over several hosts `mpiexec` runs here, each host has one ssh connection, and rank i is on its host of the
plan. `apples.remote.preflight` has checked before which hosts can take part. A host that is lost during the run ends
it; the caller decides how to continue. Paper: Wolski et al. 2000, §2.1 (the actuator).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from apples.launching import preflight
from apples.launching.agentconnection import HostAddress, LivenessTimeouts
from apples.launching.command import (
    Rendezvous,
    carried,
    helper,
    mpiexec_command,
    rank_environment,
    spread_command,
)
from apples.launching.engine import launch
from apples.launching.launcher import LaunchRequest, Notify
from apples.launching.processes import LaunchMethod
from apples.launching.steering import steered
from apples.launching.termination import GracePeriods
from apples.model.plan import Outcome
from apples.remote.ssh import find_ssh, ssh_command


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess:
    """The hosts of plans, and how the launcher reaches them.

    addresses : host → its address
    here : only this machine runs ranks; hosts of plans are this machine by address or name, and need no entry
    bin_dir : directory of `mpiexec`, by default that of the interpreter; the same path on every host
    grace : time that ranks have to end before they are killed.  timeouts : when a silent host counts as lost
    """

    addresses: Mapping[str, HostAddress] = field(default_factory=dict)
    here: bool = False
    bin_dir: Path | None = None
    grace: GracePeriods = field(default_factory=GracePeriods)
    timeouts: LivenessTimeouts = field(default_factory=LivenessTimeouts)


def check(request: LaunchRequest, access: HostAccess) -> None:
    """Raise `LaunchError`, `NotExecutable` or `ProgramNotFound` if the run cannot start."""
    if access.here:
        addresses = {host: one.address for host, one in access.addresses.items() if one.address is not None}
        preflight.check_hosts(request, addresses)
    else:
        preflight.check_known(request, access.addresses, "that were checked")
    preflight.check_time_limit(request)
    preflight.check_run_dir(request)
    command_line(request, access)
    if access.here:
        preflight.check_shared_memory(len(request.plan.assignments))
    elif any(access.addresses[host].address is not None for host in request.plan.hosts):
        find_ssh()


def command_line(request: LaunchRequest, access: HostAccess) -> list[str]:
    """Return the command that `run` executes, without the address and directory that agents report.

    Raises `ProgramNotFound` or `NotExecutable`.
    """
    return _command(request, access, Rendezvous(launcher="ADDRESS", directory=os.getcwd()))


def run(request: LaunchRequest, access: HostAccess, notify: Notify) -> Outcome:
    """Run to the end and return the outcome. No process is left on any host. Raises `LaunchError`."""
    check(request, access)
    request = steered(request)
    agents = (
        {"localhost": (HostAddress(host="localhost"), None)}
        if access.here
        else {host: (access.addresses[host], _agent(access.addresses[host])) for host in request.plan.hosts}
    )
    method = LaunchMethod(
        agents=agents,
        command=lambda rendezvous: _command(request, access, rendezvous),
        here=access.here,
        timeouts=access.timeouts,
    )
    return launch(request, method, access.grace, notify)


def _command(request: LaunchRequest, access: HostAccess, rendezvous: Rendezvous) -> list[str]:
    mpiexec, program = preflight.find_mpiexec(access.bin_dir), preflight.find_program(request)
    if access.here:
        return mpiexec_command(request, mpiexec, program)
    names = carried(rank_environment(request, os.environ))
    return spread_command(request, mpiexec, program, rendezvous, names)


def _agent(address: HostAddress) -> list[str] | None:
    """Return the command that starts the agent of a host; None for this machine, where it is forked."""
    return None if address.address is None else ssh_command(find_ssh(), address.address, helper("serve"))
