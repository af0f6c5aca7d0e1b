"""The command of a run through Slurm, and the shape of its allocation; runs nothing."""

import math
from collections import Counter
from collections.abc import Mapping

from apples.launching.command import FOREIGN, hosts_path, rank_environment, wrapped
from apples.launching.launcher import LaunchRequest
from apples.slurm import commands
from apples.slurm.commands import Shape

#: Seconds an allocation lasts longer than its run: for starting, and for ending with a checkpoint before Slurm kills.
START_S, END_S = 30.0, 15.0
#: Seconds for a run without a prediction: a benchmark, which may compile first.
UNPREDICTED_S = 600.0
#: Bytes of a rank with its libraries before it holds a single row, where Slurm gives memory away.
RANK_BYTES = 128 * 2**20


def step_command(
    request: LaunchRequest, srun: str, job: str, pmi: str, *, name: str, where: tuple[str, str]
) -> list[str]:
    """Return the whole command that starts the ranks.

    Args:
        pmi: type of PMI, a value of `srun --mpi`
        name: of the file-descriptor servers
        where: the program, and its directory
    """
    program, directory = where
    return [
        *commands.ranks(srun, job, len(request.plan.assignments), directory, pmi),
        *request.mpi.arguments,
        *wrapped(request, program, "--fds", name),
    ]


def step_environment(request: LaunchRequest, base: Mapping[str, str], _socket: str) -> dict[str, str]:
    """Return the environment of `srun`, without variables of an enclosing job, which it would take for options."""
    kept = {
        name: value
        for name, value in rank_environment(request, base, (*FOREIGN, "HYDRA_")).items()
        if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SRUN_"))
    }
    return {**kept, "SLURM_HOSTFILE": str(hosts_path(request.run_dir.absolute()))}


def wanted_s(request: LaunchRequest) -> float:
    """Return the seconds that the allocation must last: the user's limit or the predicted upper bound, with margins."""
    plan = request.plan
    predicted = max(plan.high_s, plan.predicted_s)
    run_s = request.time_limit_s or predicted or UNPREDICTED_S
    return run_s + START_S + END_S


def shape(request: LaunchRequest, *, threads: int, counts_memory: bool, most_s: float = math.inf) -> Shape:
    """Return the allocation of a plan: its hosts, each with as many ranks as the host with most.

    Args:
        threads: hardware threads of a core
        counts_memory: Slurm allocates memory
        most_s: the partition's limit
    """
    assignments, workload = request.plan.assignments, request.workload
    ranks = Counter(a.host for a in assignments)
    need: Counter[str] = Counter()
    for a in assignments:
        need[a.host] += math.ceil(workload.bytes_fixed + workload.bytes_per_row * a.work + RANK_BYTES)
    return Shape(
        hosts=request.plan.hosts,
        ranks_each=max(ranks.values()),
        minutes=commands.minutes(wanted_s(request), most_s),
        threads=threads,
        # A run without a prediction has no known need. It gets Slurm's default for its CPUs.
        memory_bytes=max(need.values()) if counts_memory and workload.bytes_per_row > 0 else 0.0,
    )
