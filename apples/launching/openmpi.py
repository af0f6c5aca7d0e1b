"""Commands and environments of runs with Open MPI, 4 and 5; runs nothing.

Its `mpiexec` starts the ranks on its own host itself, and one daemon on each other host through our remote shell, as
hydra starts its proxies. Settings go into the environment, so that options of the user (`--mpi-args`) take precedence.
Open MPI closes all descriptors of its ranks; they fetch theirs from the file-descriptor server of their host.
"""

import os
import socket
from collections.abc import Collection, Mapping

from apples.hosts.hostagent import helper
from apples.launching.command import (
    FOREIGN,
    Rendezvous,
    groups_of,
    hosts_path,
    rank_environment,
    wrapped,
    wrapped_there,
)
from apples.launching.mpis import Mpi
from apples.model.launchrequest import LaunchRequest

#: `mpiexec` and the process that it starts on each other host, for messages.
NAMES = ("mpiexec", "Open MPI's daemon")

#: Components that would take over an enclosing allocation, by the names of Open MPI 4 and of PRRTE.
_ALLOCATORS = {False: "^slurm,tm,gridengine,loadleveler,lsf,alps", True: "^slurm,pbs,gridengine,lsf,flux"}


def here_command(request: LaunchRequest, mpi: Mpi, program: str, fd_servers: str) -> list[str]:
    """Return the command line of a run on this machine; `program` is the resolved path of the request's program."""
    return [
        *(mpi.mpiexec, "-n", str(len(request.plan.assignments))),
        *(("--map-by", ":oversubscribe") if mpi.of_prrte else ("--oversubscribe",)),
        *("--bind-to", "none", *request.mpi.arguments),
        *wrapped(request, program, "--fds", fd_servers),
    ]


def spread_command(
    request: LaunchRequest,
    mpi: Mpi,
    program: str,
    rendezvous: Rendezvous,
    names: Collection[str],
    fd_servers: str,
) -> list[str]:
    """Return the command line of a run over several hosts; `names` are the variables that every rank gets."""
    return [
        *(mpi.mpiexec, "-n", str(len(request.plan.assignments))),
        # With `seq` the i-th line of the host file is the host of rank i.
        *("--hostfile", str(hosts_path(request.run_dir.absolute()))),
        *(("--map-by", "seq:oversubscribe") if mpi.of_prrte else ("--map-by", "seq", "--oversubscribe")),
        *("--bind-to", "none", "--wdir", rendezvous.directory),
        *(word for name in names for word in ("-x", name)),
        *request.mpi.arguments,
        *wrapped_there(request, program, "--fds", fd_servers),
    ]


def hostfile(request: LaunchRequest, here: Collection[str]) -> str:
    """Return the text of the host file: the host of each rank on a line of its own.

    Args:
        here: hosts that are this machine, which Open MPI knows by its host name only
    """
    this_host = socket.gethostname()
    return "".join(f"{this_host if host in here else host}\n" * ranks for host, ranks in groups_of(request))


def environment(
    request: LaunchRequest, mpi: Mpi, base: Mapping[str, str], remote_shells: str
) -> dict[str, str]:
    """Return the environment of `mpiexec`.

    Args:
        base: the user's environment
        remote_shells: name of the socket for its remote shells; empty on this machine alone
    """
    # The daemons look for it on their hosts too, although they start no others: the first one that exists counts.
    agent = f"{' '.join(helper('rsh'))}:/bin/false"
    ssh, runtime = ("ssh", "prte") if mpi.of_prrte else ("rsh", "orte")
    settings = {
        "ras": _ALLOCATORS[mpi.of_prrte],
        "plm": ssh,
        f"plm_{ssh}_agent": agent,
        # One connection to each host, so that daemons are children of the host agents.
        f"plm_{ssh}_no_tree_spawn": "1",
        f"{runtime}_leave_session_attached": "1",
        f"{runtime}_keep_fqdn_hostnames": "1",
    }
    if not remote_shells:
        # If all are killed, the next command removes its session with the run directory.
        settings[f"{runtime}_tmpdir_base"] = str(request.run_dir.absolute())
    prefix = "PRTE_MCA_" if mpi.of_prrte else "OMPI_MCA_"
    # Containers often have no other user; Open MPI wants both variables before it believes that.
    allowed = ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"] if os.geteuid() == 0 else []
    return {
        **{prefix + name: value for name, value in settings.items()},
        **{name + more: "1" for name in allowed for more in ("", "_CONFIRM")},
        **rank_environment(request, base, (*FOREIGN, "HYDRA_")),
        "APPLES_RSH": remote_shells,
    }
