"""Commands and environments of runs; runs nothing.

`mpiexec_command` is for this machine: hydra forks here only (inside a batch allocation it would otherwise take over the
allocation). `spread_command` is for several hosts: hydra gets the hosts in rank order and a remote shell
(`apples.hosts.remoteshell`) that hands its commands to the host agents. One connection to each host therefore
carries everything, and the user's ssh settings apply. Every rank starts through the rank wrapper.

Ranks are bound to the cores of their kind where a host has several (`apples.hosts.cores`), and not to single cores: on
a shared machine a bound rank waits for other processes on its core, and no gain was measured (docs/launching.md).
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from apples.hosts import hostagent
from apples.hosts.agentconnection import HostAddress, LivenessTimeouts
from apples.hosts.hostagent import BARE, helper
from apples.launching.mpis import Family, Mpi
from apples.model.launchrequest import LaunchRequest

RANK_WRAPPER = Path(hostagent.__file__).with_name("rankwrapper.py")
HOST_AGENT = Path(hostagent.__file__)

#: Starts the rank wrapper that the agent of a host names; by default that of this machine.
_WRAPPER_THERE = 'w=${APPLES_WRAPPER:-$1}; shift; exec "${APPLES_PYTHON:-$0}" -I -S "$w" "$@"'

#: Variables of ranks, unless the user sets them. One thread per rank: the planner counts ranks, and threads of
#: neighbours would compete for their cores. No signal for UCX, which takes HUP to print its state and go on.
RANK_DEFAULTS = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "UCX_DEBUG_SIGNO": "0"}

#: Network module for programs outside this environment, if their MPICH has several. With UCX, a receive of MPICH 5.0.2
#: from MPI_ANY_SOURCE never completes if its message arrived from another host before (docs/launching.md).
USERS_NETWORK = {"MPIR_CVAR_CH4_NETMOD": "ofi"}

#: Variables of an enclosing mpiexec, with which the ranks would join the wrong job.
FOREIGN = ("PMI_", "PMIX_", "HYDI_", "MPI_LOCAL", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "APPLES_RANK_FDS")

#: Variables that choose the network interface of MPI's messages: UCX, libfabric, Open MPI.
INTERFACE_VARIABLES = ("UCX_NET_DEVICES", "FI_TCP_IFACE", "OMPI_MCA_btl_tcp_if_include")

#: Variables that are valid on one machine only, or belong to the remote shell.
HOST_ONLY = frozenset(
    (
        *("HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "MAIL"),
        *("PWD", "OLDPWD", "SHLVL", "_", "TERM", "TMPDIR"),
        *("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "LS_COLORS", "APPLES_RSH"),
    )
)
HOST_ONLY_PREFIXES = ("SSH_", "XDG_", "DBUS_", "HYDRA_", *FOREIGN)

#: Options of hydra that make it fork, or start its proxies by a remote shell, whatever allocation encloses it. Intel
#: MPI calls a launcher bootstrap server.
_HYDRA_FORK = {
    Family.MPICH: ("-launcher", "fork", "-rmk", "user"),
    Family.INTEL: ("-bootstrap", "fork", "-rmk", "user"),
}
_HYDRA_REMOTE = {
    Family.MPICH: ("-rmk", "user", "-launcher", "rsh", "-launcher-exec"),
    Family.INTEL: ("-rmk", "user", "-bootstrap", "rsh", "-bootstrap-exec"),
}

#: Options for a host file with numbers of ranks, which `-f` of Intel MPI ignores.
_HYDRA_HOSTS = {Family.MPICH: "-f", Family.INTEL: "-machinefile"}

#: Variables of hydra and of Intel MPI's fork of it: 0 so that it does not fork on this machine, which has a host agent
#: like the others; words between the remote shell and the host.
HYDRA_AUTOFORK = ("HYDRA_LAUNCHER_AUTOFORK", "I_MPI_HYDRA_BOOTSTRAP_AUTOFORK")
HYDRA_SHELL_WORDS = ("HYDRA_LAUNCHER_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS")

#: Names that MPI can carry: it may separate names by commas.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Values that are known once all host agents have reported.

    launcher : numeric address of this machine that every host can reach.  directory : where ranks start
    """

    launcher: str
    directory: str


def with_parent_death(command: list[str], launcher_pid: int) -> list[str]:
    """Return the same command, killed by the kernel when process `launcher_pid` ends."""
    # Through a program of its own: setting it between fork and exec is not safe in a launcher with threads.
    return helper("exec", str(launcher_pid), *command)


def mpiexec_command(request: LaunchRequest, mpi: Mpi, program: str) -> list[str]:
    """Return the command line of a run on this machine; `program` is the resolved path of the request's program."""
    ranks = str(len(request.plan.assignments))
    return [
        *(mpi.mpiexec, *_HYDRA_FORK[mpi.family], "-hosts", "localhost", "-n", ranks),
        *request.mpi.arguments,
        *wrapped(request, program),
    ]


def spread_command(request: LaunchRequest, mpi: Mpi, program: str, rendezvous: Rendezvous) -> list[str]:
    """Return the command line of a run over several hosts; its environment goes to every rank."""
    return [
        # "rsh" is hydra's name for a remote shell to which it adds no options of ssh.
        *(mpi.mpiexec, *_HYDRA_REMOTE[mpi.family], sys.executable),
        *(_HYDRA_HOSTS[mpi.family], str(hosts_path(request.run_dir.absolute()))),
        # hydra would give its own guess of this machine's name to proxies, which other hosts may not resolve.
        *("-localhost", rendezvous.launcher, "-wdir", rendezvous.directory),
        *("-n", str(len(request.plan.assignments))),
        *request.mpi.arguments,
        *wrapped_there(request, program),
    ]


def wrapped(request: LaunchRequest, program: str, *options: str) -> list[str]:
    """Return the command line of one rank: the rank wrapper with its `options`, then the program."""
    return [
        *(sys.executable, *BARE, str(RANK_WRAPPER), *options),
        *(str(request.run_dir.absolute()), chain_of_hosts(request)),
        *(["--label"] if request.label else []),
        *([] if request.directory is None else ["--directory", str(request.directory.absolute())]),
        *(["--cpus", _bindings(request)] if request.cpus else []),
        *("--", program, *request.command[1:]),
    ]


def wrapped_there(request: LaunchRequest, program: str, *options: str) -> list[str]:
    """Return the same for ranks whose hosts have another Python, and the rank wrapper at another path."""
    words = wrapped(request, program, *options)[len(BARE) + 2 :]
    # A shell there reads the variables that the agent of that host has set.
    return ["/bin/sh", "-c", _WRAPPER_THERE, sys.executable, str(RANK_WRAPPER), *words]


def _bindings(request: LaunchRequest) -> str:
    """Return the CPUs of each host as `alpha.fast=0,1;alpha.slow=2,3`, which the rank wrapper reads."""
    return ";".join(f"{host}={','.join(map(str, cpus))}" for host, cpus in request.cpus.items())


def groups_of(request: LaunchRequest) -> list[tuple[str, int]]:
    """Return the hosts in rank order, each with its number of consecutive ranks. A host may occur more than once."""
    ranks = sorted(request.plan.assignments, key=lambda a: a.rank)
    # Consecutive only: MPI numbers ranks in the order of the host file, and rank i has its host by the plan.
    return [(host, len(list(same))) for host, same in groupby(a.host for a in ranks)]


def chain_of_hosts(request: LaunchRequest) -> str:
    """Return the hosts in rank order as `alpha:2,beta:1`."""
    return ",".join(f"{host}:{ranks}" for host, ranks in groups_of(request))


def hostfile(request: LaunchRequest) -> str:
    """Return the text of hydra's host file, which puts rank i on its host of the plan."""
    return "".join(f"{host}:{ranks}\n" for host, ranks in groups_of(request))


def hosts_by_rank(request: LaunchRequest) -> str:
    """Return the text of a host file with the host of each rank on a line of its own."""
    return "".join(f"{host}\n" * ranks for host, ranks in groups_of(request))


def hosts_path(run_dir: Path) -> Path:
    """Return the path of the host file of a run."""
    return run_dir / "hosts.txt"


def carried(environment: Mapping[str, str]) -> list[str]:
    """Return the sorted names of the variables that go to every rank."""
    return sorted(
        name
        for name in environment
        # Exported functions of bash, for one, have names like `BASH_FUNC_f%%`.
        if _PLAIN.fullmatch(name) and name not in HOST_ONLY and not name.startswith(HOST_ONLY_PREFIXES)
    )


def rank_environment(
    request: LaunchRequest, base: Mapping[str, str], foreign: tuple[str, ...] = FOREIGN
) -> dict[str, str]:
    """Return the environment of `mpiexec` and its ranks: the request's variables, else the user's, else the defaults.

    Args:
        base: the user's environment
        foreign: prefixes of names in `base` that are left out
    """
    user = {name: value for name, value in base.items() if not name.startswith(foreign)}
    # Later ones count: the user's OMP_NUM_THREADS goes before the default.
    return {**RANK_DEFAULTS, **user, **request.environment}


def local_environment(request: LaunchRequest, base: Mapping[str, str], _socket: str) -> dict[str, str]:
    """Return the environment of an `mpiexec` on this machine, which needs no remote shells."""
    return rank_environment(request, base)


def launch_environment(
    request: LaunchRequest, base: Mapping[str, str], socket: str, defaults: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of an `mpiexec` for several hosts, which is also that of all ranks.

    With `-genvlist` for a choice among more variables, hydra of MPICH 5.0.2 ends when a rank spawns others.

    Args:
        base: the user's environment
        socket: name of the socket for its remote shells
        defaults: variables that apply if neither the request nor the user sets them
    """
    variables = {**defaults, **rank_environment(request, base, (*FOREIGN, "HYDRA_"))}
    return {
        **{name: variables[name] for name in carried(variables)},
        "APPLES_RSH": socket,
        # A forked proxy here would be no child of the host agent, and would survive the lifeline.
        **dict.fromkeys(HYDRA_AUTOFORK, "0"),
        **dict.fromkeys(HYDRA_SHELL_WORDS, " ".join([*BARE, str(HOST_AGENT), "rsh"])),
    }


def network_environment(interface: str | None, base: Mapping[str, str]) -> dict[str, str]:
    """Return variables that make MPI use a network interface, except those that the user has set in `base`."""
    if interface is None:
        return {}
    variables = dict.fromkeys(INTERFACE_VARIABLES, interface)
    # The user knows the network; the check of hosts saw only by which interface they were reached.
    return {name: value for name, value in variables.items() if name not in base}


def search_path(request: LaunchRequest) -> str:
    """Return the PATH in which the program is looked up: the request's, else the user's."""
    return request.environment.get("PATH", os.environ.get("PATH", os.defpath))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchMethod:
    """How a launcher reaches the hosts of a run and starts its ranks.

    agents : host → its address, and the command that starts its agent; None forks the agent on this machine
    command : builds the command that starts all ranks, once the agents have reported
    environment : builds its environment from the user's and the name of the socket for its remote shells
    hostfile : builds the text of its host file
    fd_servers : name of the servers from which ranks fetch their descriptors; None if they inherit them
    daemons : host → number of processes that the command starts there by remote shells; None for one for each group
        of consecutive ranks.  shell : it gives remote shells one text for a shell, as for ssh
    names : of the command and its daemons, for messages
    here : the run needs this machine only: its agent starts the command, and no host can be lost
    spawns : the command writes the output of ranks that a program spawns, among its own messages
    timeouts : when a silent host counts as lost
    """

    agents: Mapping[str, tuple[HostAddress, Sequence[str] | None]]
    command: Callable[[Rendezvous], list[str]]
    environment: Callable[[LaunchRequest, Mapping[str, str], str], dict[str, str]] = local_environment
    hostfile: Callable[[LaunchRequest], str] = hostfile
    fd_servers: str | None = None
    daemons: Mapping[str, int] | None = None
    shell: bool = False
    names: tuple[str, str] = ("mpiexec", "hydra_pmi_proxy")
    here: bool = False
    spawns: bool = True
    timeouts: LivenessTimeouts = field(default_factory=LivenessTimeouts)
