"""Checks before a launch on this machine: every reason why it could not start, before anything is started.

Nothing here changes anything. All hosts of the plan must be this machine, the program must exist, the run directory
must be writable, and /dev/shm must have room for MPICH's segment. With too little room `mpiexec` starts, and every rank
dies of SIGBUS at its first message.
"""

import os
import shutil
import socket
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from apples.errors import LaunchError, NotExecutable, ProgramNotFound
from apples.launching.command import search_path
from apples.launching.mpis import Family, Mpi, in_environment, mpi_of
from apples.launching.seenmpi import library_family, remember_family, seen_family
from apples.model.launchrequest import LaunchRequest
from nws.base import scripts

SHARED_MEMORY = Path("/dev/shm")

#: Size of MPICH 5.0's segment, read off for 1, 2, 4 and 8 ranks; it fails below and runs above.
SHARED_BYTES_PER_RANK, SHARED_BYTES_FIXED = 1_057_344, 4_096


def find_mpiexec(beside: Path | None = None) -> str:
    """Return the path of this environment's `mpiexec`, beside its interpreter. Raises `ProgramNotFound`."""
    # Of the same environment, not that of PATH: ranks and `mpiexec` must be of one MPI.
    path = (beside or Path(sys.executable).parent) / "mpiexec"
    if not path.is_file():
        raise ProgramNotFound(
            f"no mpiexec in {path.parent}, the directory of this Python; ranks are started with the mpiexec of the "
            f"same environment. Install it with: {sys.executable} -m pip install 'apples-grid[app]'"
        )
    if not os.access(path, os.X_OK):
        raise NotExecutable(
            f"{path} may not be executed; give it the permission (chmod +x) or reinstall mpich"
        )
    return str(path)


def find_mpi(request: LaunchRequest, beside: Path | None = None) -> Mpi:
    """Return the MPI that starts the request's program; raises `LaunchError` if it is missing, or another one's.

    Args:
        beside: directory of the environment's own `mpiexec`, by default that of the interpreter
    """
    program = find_program(request)
    # Programs of this environment need no look at their libraries, which takes a process.
    if request.mpi.which is None and (beside is not None or in_environment(program)):
        # The environment has MPICH from PyPI as a dependency, beside its interpreter.
        return Mpi(family=Family.MPICH, mpiexec=find_mpiexec(beside))
    seen = seen_family(program, request.workload.application)
    return mpi_of(program, request.mpi.which, lambda: find_mpiexec(beside), search_path(request), seen)


def learn_mpi(request: LaunchRequest, library: str) -> bool:
    """Store the MPI of a program that was started by another one's `mpiexec`; return whether it was.

    Args:
        library: as the library of the program names itself
    """
    # The library was seen at work, so it counts more than any look at files.
    family, program = library_family(library), find_program(request)
    if family is None or request.mpi.which is not None or in_environment(program):
        return False
    started_by = find_mpi(request).family
    if family is started_by or {family, started_by} == {Family.MPICH, Family.INTEL}:
        # Hydra and Intel's fork of it start each other's ranks.
        return False
    remember_family(program, request.workload.application, family)
    return True


def files_on_hosts(name: str, which: str | None) -> tuple[str, ...] | None:
    """Return the files that a program needs on every host: itself, and the daemon of its MPI.

    None for a program of this environment, which needs the whole environment there. Nothing for a program that is
    missing here, or whose MPI is.

    Args:
        name: path, or a name in PATH
        which: the user's choice of an MPI
    """
    program = shutil.which(name)
    if program is None:
        return ()
    # Hosts start it from another directory.
    program = os.path.abspath(program)
    if in_environment(program):
        return None
    try:
        mpi = mpi_of(program, which, find_mpiexec, os.environ.get("PATH", os.defpath))
    except (LaunchError, NotExecutable, ProgramNotFound):
        # A missing MPI is reported by the check of the run; the hosts need the program in any case.
        return (program,)
    return (program, *([mpi.daemon] if mpi.daemon else []))


def find_program(request: LaunchRequest) -> str:
    """Return the path of the request's program; raises `ProgramNotFound` or `NotExecutable` (exit codes 127, 126)."""
    if not request.command:
        raise LaunchError("the command of the run is empty; give the program that every rank is to execute")
    return executable(request.command[0], search_path(request))


def executable(name: str, search: str | None = None) -> str:
    """Return the path of a program; raises `ProgramNotFound` or `NotExecutable` (exit codes 127, 126).

    search : directories to search, by default those of PATH
    """
    path = shutil.which(name, path=search)
    if path is not None:
        if (fault := scripts.fault(path)) is not None:
            raise NotExecutable(f"program {name!r} cannot be executed: {fault}")
        # The ranks may start in another directory than this process.
        return os.path.abspath(path)
    if os.sep not in name:
        raise ProgramNotFound(
            f"program {name!r} is in none of the directories of PATH; give its path, or install it"
        )
    if not os.path.exists(name):
        raise ProgramNotFound(f"program {name!r} does not exist; give the path of an executable file")
    # `shutil.which` returns nothing for either.
    kind = "is a directory" if os.path.isdir(name) else "may not be executed (chmod +x would allow it)"
    raise NotExecutable(f"program {name!r} {kind}; give the path of an executable file")


def _check_ranks(request: LaunchRequest) -> None:
    if not request.plan.assignments:
        raise LaunchError("the plan has no ranks; make a plan for at least one")


def check_known(request: LaunchRequest, hosts: Collection[str], which: str) -> None:
    """Raise `LaunchError` if the plan has no ranks or unknown hosts.

    Args:
        hosts: allowed in the plan
        which: describes them in the message, as in "that were checked"
    """
    _check_ranks(request)
    unknown = [host for host in request.plan.hosts if host not in hosts]
    if unknown:
        legal = ", ".join(hosts) or "none"
        raise LaunchError(f"hosts {', '.join(unknown)} are not among those {which}: {legal}")


def check_hosts(request: LaunchRequest, addresses: Mapping[str, str]) -> None:
    """Raise `LaunchError` with the hosts of the plan that are not this machine.

    Args:
        addresses: host name → address to use instead of the name
    """
    _check_ranks(request)
    # Without a look-up: a name server that does not answer must not hold up a run on one machine.
    here = names_of_this_machine()
    elsewhere = [host for host in request.plan.hosts if addresses.get(host, host) not in here]
    if elsewhere:
        known = ", ".join(sorted(here))
        raise LaunchError(
            f"hosts {', '.join(elsewhere)} are not this machine, and the mpiexec launcher runs ranks on this machine "
            f"only ({known}). Give such a host `address: localhost` in the grid file to mean this machine, "
            "call other hosts with --launcher ssh, or run on the mock grid"
        )


def names_of_this_machine() -> frozenset[str]:
    """Return the names and addresses of this machine."""
    name = socket.gethostname()
    return frozenset({"localhost", "127.0.0.1", "::1", name, name.partition(".")[0]})


def check_run_dir(request: LaunchRequest) -> None:
    """Raise `LaunchError` if statuses cannot be written."""
    where = request.run_dir
    if not where.is_dir():
        raise LaunchError(f"run directory {where} does not exist; create it, or give another")
    if not os.access(where, os.W_OK | os.X_OK):
        raise LaunchError(
            f"run directory {where} may not be written; change its permissions, or give another"
        )


def check_time_limit(request: LaunchRequest) -> None:
    """Raise `LaunchError` for a time limit of no length."""
    if request.time_limit_s is not None and not request.time_limit_s > 0.0:
        raise LaunchError(f"time limit {request.time_limit_s} s: give more than 0 seconds, or no limit")


def check_shared_memory(ranks: int, where: Path = SHARED_MEMORY) -> None:
    """Raise `LaunchError` if `where` has no room for MPICH's segment for `ranks` ranks."""
    # MPICH does not reserve the memory that it maps, so nothing fails before the first write beyond the end.
    need = SHARED_BYTES_FIXED + ranks * SHARED_BYTES_PER_RANK
    try:
        state = os.statvfs(where)
    except OSError as error:
        raise LaunchError(
            f"{where} cannot be used ({error.strerror}); MPI ranks exchange messages through it. "
            "Mount a tmpfs there (mount -t tmpfs tmpfs /dev/shm)"
        ) from error
    free = state.f_bavail * state.f_frsize
    if free < need:
        raise LaunchError(
            f"{where} has {free / 2**20:.1f} MiB free and {ranks} ranks need {need / 2**20:.1f} MiB, without which "
            "they die of SIGBUS. Make it larger (containers: --shm-size=64m), remove old files there, or use "
            "fewer ranks"
        )
