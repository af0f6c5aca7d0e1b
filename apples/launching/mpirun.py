"""Run a plan with `mpiexec` on the hosts that an access describes: this machine alone, or several hosts over ssh.

The functions describe a launch for `apples.launching.engine`. On this machine alone one forked host agent starts
`mpiexec`. Over several hosts `mpiexec` runs here, each host has one ssh connection, and rank i is on its host of the
plan. `apples.hosts.hostpreflight` has checked before which hosts can take part. A host that is lost during the run ends
it; the caller decides how to continue. Paper: Wolski et al. 2000, §2.1 (the actuator).
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from apples.hosts.agentconnection import HostAddress, LivenessTimeouts
from apples.hosts.steering import steered
from apples.hosts.travelling import agent_command
from apples.launching import openmpi, preflight
from apples.launching.command import (
    USERS_NETWORK,
    LaunchMethod,
    Rendezvous,
    carried,
    launch_environment,
    mpiexec_command,
    rank_environment,
    spread_command,
)
from apples.launching.engine import launch
from apples.launching.mpis import Family, Mpi, in_environment
from apples.launching.termination import GracePeriods
from apples.model.launchrequest import LaunchRequest, Notify
from apples.model.plan import Outcome
from nws.base.sshcommand import find_ssh, ssh_command


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess:
    """The hosts of plans, and how the launcher reaches them.

    addresses : host → its address
    launcher : address of this machine at which all hosts reach it, None for that from which they were reached by ssh
    here : only this machine runs ranks; hosts of plans are this machine by address or name, and need no entry
    bin_dir : directory of this environment's `mpiexec`, by default that of the interpreter; the same on every host
    grace : time that ranks have to end before they are killed.  timeouts : when a silent host counts as lost
    """

    addresses: Mapping[str, HostAddress] = field(default_factory=dict)
    launcher: str | None = None
    here: bool = False
    bin_dir: Path | None = None
    grace: GracePeriods = field(default_factory=GracePeriods)
    timeouts: LivenessTimeouts = field(default_factory=LivenessTimeouts)


def check(request: LaunchRequest, access: HostAccess) -> None:
    """Raise `LaunchError`, `SshNotFound`, `NotExecutable` or `ProgramNotFound` if the run cannot start."""
    if access.here:
        addresses = {host: one.address for host, one in access.addresses.items() if one.address is not None}
        # Without an address a host is known by its name, which must be this machine's.
        preflight.check_hosts(request, addresses)
    else:
        preflight.check_known(request, access.addresses, "that were checked")
    preflight.check_time_limit(request)
    preflight.check_run_dir(request)
    mpi = preflight.find_mpi(request, access.bin_dir)
    if access.here and mpi.family is not Family.OPEN_MPI:
        preflight.check_shared_memory(len(request.plan.assignments))
    if not access.here and any(access.addresses[h].address is not None for h in request.plan.hosts):
        find_ssh()


def command_line(request: LaunchRequest, access: HostAccess) -> list[str]:
    """Return the command that `run` executes, without the address and directory that agents report.

    Raises `LaunchError`, `ProgramNotFound` or `NotExecutable`.
    """
    return _method(request, access).command(Rendezvous(launcher="ADDRESS", directory=os.getcwd()))


def run(request: LaunchRequest, access: HostAccess, notify: Notify) -> Outcome:
    """Run to the end and return the outcome. No process is left on any host. Raises `LaunchError`."""
    # Before anything is started: a run that cannot start must leave no files.
    check(request, access)
    request = steered(request)
    return launch(request, _method(request, access), access.grace, notify)


def _method(request: LaunchRequest, access: HostAccess) -> LaunchMethod:
    """Return the launch that the MPI of the program needs."""
    mpi, program = preflight.find_mpi(request, access.bin_dir), preflight.find_program(request)
    if access.here:
        agents: dict[str, tuple[HostAddress, list[str] | None]]
        # Whatever name the plan has for this machine, one agent serves it.
        agents = {"localhost": (HostAddress(host="localhost"), None)}
    else:
        agents = {
            host: (access.addresses[host], _agent(access.addresses[host])) for host in request.plan.hosts
        }
    if mpi.family is Family.OPEN_MPI:
        return _open_mpi(request, access, mpi, program, agents)
    if access.here:
        here_command = mpiexec_command(request, mpi, program)
        return LaunchMethod(agents=agents, command=lambda _: here_command, here=True)
    defaults = {} if in_environment(program) else USERS_NETWORK
    return LaunchMethod(
        agents=agents,
        command=lambda rendezvous: spread_command(
            request, mpi, program, replace(rendezvous, launcher=access.launcher or rendezvous.launcher)
        ),
        environment=lambda request, base, shells: launch_environment(request, base, shells, defaults),
        timeouts=access.timeouts,
    )


def _open_mpi(
    request: LaunchRequest,
    access: HostAccess,
    mpi: Mpi,
    program: str,
    agents: Mapping[str, tuple[HostAddress, list[str] | None]],
) -> LaunchMethod:
    # Not guessable, because abstract sockets have no permissions.
    fd_servers = f"apples-{secrets.token_hex(16)}"
    local_hosts = [host for host, (_, command) in agents.items() if command is None]
    names = carried(rank_environment(request, os.environ))

    def command(rendezvous: Rendezvous) -> list[str]:
        if access.here:
            return openmpi.here_command(request, mpi, program, fd_servers)
        return openmpi.spread_command(request, mpi, program, rendezvous, names, fd_servers)

    return LaunchMethod(
        agents=agents,
        command=command,
        environment=lambda request, base, shells: openmpi.environment(request, mpi, base, shells),
        hostfile=lambda request: openmpi.hostfile(request, local_hosts),
        fd_servers=fd_servers,
        # `mpiexec` starts ranks on its own host without a daemon, however many groups there are.
        daemons={host: 1 for host in agents if host not in local_hosts},
        shell=True,
        names=openmpi.NAMES,
        here=access.here,
        timeouts=access.timeouts,
    )


def _agent(address: HostAddress) -> list[str] | None:
    """Return the command that starts the agent of a host; None for this machine, where it is forked."""
    return None if address.address is None else ssh_command(find_ssh(), address.address, agent_command())
