"""Builds the command of a run through Slurm, and what its allocation has to be like; runs nothing."""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path

from apples.launching.command import BARE, chain_of_hosts
from apples.launching.launcher import LaunchRequest
from apples.slurm import commands
from apples.slurm.commands import Shape

HERE = Path(__file__).parent
STEP, RANK = HERE / "slurmstep.py", HERE / "slurmrank.py"

#: Seconds an allocation lasts longer than its run: for starting, and for ending with a checkpoint before Slurm kills.
START_S, END_S = 30.0, 15.0
#: Seconds allowed for what is run without a prediction: a benchmark, which may compile first.
UNPREDICTED_S = 600.0
#: Bytes of a rank with its libraries before it holds a single row, where Slurm gives memory away.
RANK_BYTES = 128 * 2**20


def step_command(request: LaunchRequest, srun: str, job: str, door: str, where: tuple[str, str]) -> list[str]:
    """The whole command that starts the ranks. door : name of the doors.  where : the program, and its directory"""
    program, directory = where
    run_dir, chain = str(request.run_dir.absolute()), chain_of_hosts(request)
    label = ["--label"] if request.label else []
    return [
        *(sys.executable, *BARE, str(STEP), door, chain, run_dir),
        *commands.ranks(srun, job, len(request.plan.assignments), directory),
        *(sys.executable, *BARE, str(RANK), door, run_dir, chain, *label),
        *("--", program, *request.command[1:]),
    ]


def wanted_s(request: LaunchRequest) -> float:
    """Seconds the allocation has to last: the user's limit, else the prediction's upper bound, and some more."""
    plan = request.plan
    predicted = max(plan.high_s, plan.predicted_s)
    run_s = request.time_limit_s or predicted or UNPREDICTED_S
    return run_s + START_S + END_S


def shape(request: LaunchRequest, *, threads: int, counts_memory: bool, most_s: float = math.inf) -> Shape:
    """The allocation of a plan: its hosts, each with as many ranks as the one that has most.

    threads : hardware threads of a core.  counts_memory : Slurm gives memory away.  most_s : the partition's limit
    """
    assignments, workload = request.plan.assignments, request.workload
    ranks = Counter(a.host for a in assignments)
    need: Counter[str] = Counter()
    for a in assignments:
        need[a.host] += math.ceil(workload.bytes_fixed + workload.bytes_per_row * a.rows + RANK_BYTES)
    return Shape(
        hosts=request.plan.hosts,
        ranks_each=max(ranks.values()),
        minutes=commands.minutes(wanted_s(request), most_s),
        threads=threads,
        # what is run without a prediction does not say what it needs: it gets what Slurm gives to so many CPUs
        memory_bytes=max(need.values()) if counts_memory and workload.bytes_per_row > 0 else 0.0,
    )
