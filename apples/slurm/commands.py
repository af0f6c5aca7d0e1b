"""Slurm's command lines; runs nothing.

Slurm takes variables of an enclosing job or step (task counts, memory, distribution) for options. Commands therefore
run without them and give every option themselves.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nws.base.hostlist import fold

#: Variables that select a Slurm cluster, not options of a job.
_SELECTORS = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_CLUSTER_NAME", "SLURM_JWT")
_FOREIGN = ("SLURM_", "SLURMD_", "SRUN_", "SALLOC_", "SBATCH_", "PMI_", "PMIX_", "PMI2_")

#: Protocols for the start of ranks, values of `srun --mpi`: of MPICH and Intel MPI, relayed by the rank supervisors; of
#: Open MPI.
PMI, PMIX = "pmi2", "pmix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The user's options for Slurm, under Slurm's names; None if not given.

    nodes : least and most.  immediate_s : seconds to wait for the nodes, None for no limit
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    constraint: str | None = None
    nodes: tuple[int, int] | None = None
    exclusive: bool = False
    immediate_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """An allocation: nodes, with as many ranks on each.

    threads : hardware threads of a core, all of which a rank gets.  memory_bytes : of each node, 0 for Slurm's default
    minutes : time limit.  overcommit : the ranks of a node share one core.  name : of the job
    """

    hosts: tuple[str, ...]
    ranks_each: int
    minutes: int
    threads: int = 1
    memory_bytes: float = 0.0
    overcommit: bool = False
    name: str = "apples-run"


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables of an enclosing job or step."""
    return {
        name: value
        for name, value in environment.items()
        if name in _SELECTORS or not name.startswith(_FOREIGN)
    }


def minutes(wanted_s: float, most_s: float = math.inf) -> int:
    """Return Slurm's time limit for a run of `wanted_s`: whole minutes, rounded up, at least one, at most `most_s`.

    >>> minutes(61), minutes(61, 60), minutes(0)
    (2, 1, 1)
    """
    most = math.inf if math.isinf(most_s) else max(1, int(most_s // 60))
    return int(min(max(1, math.ceil(wanted_s / 60.0)), most))


def salloc(shape: Shape, wishes: Wishes, command: Sequence[str]) -> list[str]:
    """Return the command that makes the allocation and holds it while `command` runs."""
    each = shape.ranks_each
    options = [
        "salloc",
        f"--nodelist={fold(shape.hosts, suffixes=False)}",
        f"--nodes={len(shape.hosts)}",
        f"--ntasks={len(shape.hosts) * each}",
        # Slurm 22.05 refuses more tasks a node than CPUs, also with --overcommit
        "--overcommit" if shape.overcommit else f"--ntasks-per-node={each}",
        f"--time={shape.minutes}",
        f"--job-name={shape.name}",
    ]
    if shape.threads > 1:
        options.append(f"--cpus-per-task={shape.threads}")
    if shape.memory_bytes > 0:
        options.append(f"--mem={math.ceil(shape.memory_bytes / 2**20)}M")
    for name in ("partition", "account", "qos", "reservation", "constraint"):
        value = getattr(wishes, name)
        if value is not None:
            options.append(f"--{name}={value}")
    if wishes.exclusive:
        options.append("--exclusive")
    if wishes.immediate_s is not None:
        options.append(f"--immediate={max(1, math.ceil(wishes.immediate_s))}")
    return [*options, *command]


def on_node(srun: str, job: str, node: str) -> list[str]:
    """Return a command prefix that runs a command once on one node of a job, beside other steps.

    Output is not buffered by lines, because it is binary.
    """
    return [
        *(srun, f"--jobid={job}", "--overlap", "--quiet", f"--nodelist={node}", "--nodes=1", "--ntasks=1"),
        # a step may use all the memory of its job, and takes none from others so
        *("--mem=0", "--mpi=none", "--unbuffered", "--export=ALL"),
    ]


def ranks(srun: str, job: str, count: int, directory: str, pmi: str = PMI) -> list[str]:
    """Return a command prefix that runs a command as every rank of one step, on the hosts in SLURM_HOSTFILE.

    The end of a rank does not end the others: `apples.launching.termination` decides that.
    """
    return [
        *(srun, f"--jobid={job}", "--overlap", "--distribution=arbitrary", f"--ntasks={count}"),
        *(f"--mpi={pmi}", "--mem=0", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--export=ALL"),
        *("--cpu-bind=none", f"--chdir={directory}"),
    ]
