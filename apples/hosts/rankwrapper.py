"""The rank wrapper, which hydra, Open MPI or Slurm starts for every rank. It forks the supervisor, and ends as the
program did.

A bare script, `python -I -S rankwrapper.py [--fds NAME] RUN_DIR HOSTS [--label] [--directory DIRECTORY]
[--cpus BINDINGS] -- PROGRAM ARGUMENTS`. It and the modules it imports avoid every import that they can, because each
delays every rank. Per rank there are three processes:

    hydra_pmi_proxy ── rank wrapper ── supervisor ── program
                          (waits)       (records)

hydra kills the wrapper without warning when any rank fails. The supervisor has its own session, so it lives long
enough to record how the program ended. Every link has a parent-death signal: if one process is killed, the program
dies. The wrapper also closes descriptors that hydra leaks into its ranks. While a rank holds them, `mpiexec` cannot
detect the death of its proxy.

The variable `APPLES_RANK_FDS` holds four inherited descriptors: lifeline, events, stdout, stderr. Without it (a command
pasted from `--dry-run`) output goes through hydra and only the parents are watched. Ranks of Slurm and of Open MPI
inherit no descriptors; with `--fds` they fetch them from the file-descriptor server NAME of their host.
"""

from __future__ import annotations

import os
import select
import signal
import sys

if __name__ == "__main__":
    # `-I -S` leaves nothing but the standard library on the path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from apples.hosts.kernel import FORWARDED, PR_SET_PDEATHSIG, close_all_but, die_like, prctl
from apples.hosts.ranksupervisor import LOST, RankSupervisor
from apples.hosts.relays import note_open_mpi
from apples.hosts.statusfile import StatusFile, host_of

#: Variables of the launch, of which programs know nothing.
OURS = (
    *("APPLES_PYTHON", "APPLES_WRAPPER", "APPLES_RSH"),
    *("HYDRA_LAUNCHER_AUTOFORK", "HYDRA_LAUNCHER_EXTRA_ARGS"),
    *("I_MPI_HYDRA_BOOTSTRAP_AUTOFORK", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"),
)


def main(arguments: list[str]) -> None:
    """Start the supervisor, forward signals to it, end as the program did. Does not return."""
    if arguments[0] == "--fds":
        fetch_fds(arguments[1], arguments[3])
        arguments = arguments[2:]
    # Before `prctl`: a parent that dies in between is noticed by the comparison below.
    parent = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    fds = inherited_fds()
    if os.getppid() != parent or parent == 1 or parent_gone(fds):
        os._exit(LOST)
    # Before the fork, so that the supervisor does not have them either.
    close_all_but(set(fds.values()))
    split = arguments.index("--")
    (run_dir, hosts, *options), command = arguments[:split], arguments[split + 1 :]
    rank = own_rank()
    if "--cpus" in options:
        bind(host_of(rank, hosts), options[options.index("--cpus") + 1])
    wrapper = os.getpid()
    # A signal between fork and handlers would end the wrapper, and leave the rank without a record.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    pid = os.fork()
    if pid == 0:
        try:
            # hydra kills the wrapper when any rank fails; the supervisor has to live longer.
            os.setsid()
            status = StatusFile(run_dir, rank, host_of(rank, hosts), fds.get("events"))
            note_open_mpi(run_dir)
            directory = options[options.index("--directory") + 1] if "--directory" in options else None
            supervisor = RankSupervisor(
                status, command, label="--label" in options, fds=fds, directory=directory
            )
            signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
            die_like(supervisor.run(wrapper))
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(LOST)
    for number in FORWARDED:
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    # hydra and Slurm see the end of the wrapper only, and judge the rank by it.
    die_like(os.waitpid(pid, 0)[1])


def bind(host: str, bindings: str) -> None:
    """Let this process and its children use only the CPUs of their host, in `alpha.fast=0,1;alpha.slow=2,3`."""
    cpus = dict(entry.split("=") for entry in bindings.split(";")).get(host)
    try:
        if cpus is not None:
            os.sched_setaffinity(0, map(int, cpus.split(",")))
    except OSError as error:
        os.write(2, f"apples: ranks of {host} cannot be bound to CPU {cpus}: {error.strerror}\n".encode())
        os._exit(LOST)


def own_rank() -> int:
    """Return the rank of this process, from the variables of hydra, Open MPI or Slurm."""
    # In this order: inside an allocation, ranks of hydra have SLURM_PROCID, too.
    names = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
    return int(next((os.environ[name] for name in names if name in os.environ), "0"))


def fetch_fds(name: str, hosts: str) -> None:
    """Fetch descriptors and variables for a rank that inherits none."""
    from apples.hosts.fdserver import fetch, server_of

    rank = own_rank()
    try:
        fds, variables = fetch(server_of(name, host_of(rank, hosts), hosts))
    except OSError as error:
        os.write(
            2, f"apples: rank {rank} got no descriptors from its host agent: {error.strerror}\n".encode()
        )
        os._exit(LOST)
    os.environ.update(variables)
    os.environ["APPLES_RANK_FDS"] = ",".join(map(str, fds))


def inherited_fds() -> dict[str, int]:
    """Return the inherited descriptors by purpose, and remove our variables from the program's environment."""
    fds = {}
    for name in OURS:
        # A program that starts `mpiexec` itself must not give it the settings of this launch.
        os.environ.pop(name, None)
    numbers = os.environ.pop("APPLES_RANK_FDS", "")
    if numbers:
        fds = dict(zip(("lifeline", "events", "stdout", "stderr"), map(int, numbers.split(","))))
    if "PMI_FD" in os.environ:
        fds["pmi"] = int(os.environ["PMI_FD"])
    return fds


def parent_gone(fds: dict[str, int]) -> bool:
    """Return whether the other end of PMI is closed: the parent died before its death signal was requested."""
    if "pmi" not in fds:
        return False
    poll = select.poll()
    # No events: the kernel reports a hang-up without being asked, and data must not count.
    poll.register(fds["pmi"], 0)
    return bool(poll.poll(0))


if __name__ == "__main__":
    main(sys.argv[1:])
