"""Builds the command and the environment of a run on this machine; runs nothing.

`mpiexec_command` is what `--dry-run` shows and what `apples.launching.mpiexec` executes: hydra is told to fork
on this machine only (inside a batch allocation it would otherwise take over the allocation), and every rank
starts through the rank wrapper. Ranks are not bound to cores: on a shared machine a bound rank waits for whoever else
has its core, and no gain was measured (docs/launching.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from apples.launching.launcher import LaunchRequest

RANK_WRAPPER = Path(__file__).with_name("rankwrapper.py")
PARENT_DEATH = Path(__file__).with_name("parentdeath.py")

#: One thread per rank: the planner counts ranks, and threads of neighbours would fight for their cores.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

#: What an enclosing mpiexec left in our environment would make the ranks join the wrong job.
FOREIGN = ("PMI_", "PMIX_", "HYDI_", "MPI_LOCAL", "APPLES_RANK_FDS")

#: `python -I -S` leaves out site-packages and the user's settings: the rank wrapper needs neither, and starts sooner.
BARE = ("-I", "-S")


def mpiexec_command(request: LaunchRequest, mpiexec: str, program: str) -> list[str]:
    """Full command line of the run; `program` is the resolved path of the request's program."""
    ranks = len(request.plan.assignments)
    label = ["--label"] if request.label else []
    return [
        *(mpiexec, "-launcher", "fork", "-rmk", "user", "-hosts", "localhost", "-n", str(ranks)),
        *(sys.executable, *BARE, str(RANK_WRAPPER), str(request.run_dir.absolute()), chain_of_hosts(request)),
        *label,
        *("--", program, *request.command[1:]),
    ]


def with_parent_death(command: list[str], launcher_pid: int) -> list[str]:
    """The same command, killed by the kernel when process `launcher_pid` is gone."""
    return [sys.executable, *BARE, str(PARENT_DEATH), str(launcher_pid), *command]


def chain_of_hosts(request: LaunchRequest) -> str:
    """Hosts in rank order as `alpha:2,beta:1`, consecutive ranks of one host together."""
    hosts = [a.host for a in sorted(request.plan.assignments, key=lambda a: a.rank)]
    return ",".join(f"{host}:{len(list(same))}" for host, same in groupby(hosts))


def rank_environment(
    request: LaunchRequest, base: Mapping[str, str], fds: tuple[int, int, int, int]
) -> dict[str, str]:
    """Environment of `mpiexec` and its ranks: the user's, ours below it, the request's on top.

    fds : lifeline, events, stdout and stderr, as the rank wrapper expects them
    """
    kept = {name: value for name, value in base.items() if not name.startswith(FOREIGN)}
    return {
        **ONE_THREAD,
        **kept,
        **request.environment,
        "APPLES_RANK_FDS": ",".join(str(fd) for fd in fds),
    }


def search_path(request: LaunchRequest) -> str:
    """PATH in which the program is looked up: the request's, else ours."""
    return request.environment.get("PATH", os.environ.get("PATH", os.defpath))
