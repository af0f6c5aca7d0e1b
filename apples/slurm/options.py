"""Options and environment of the Slurm platform: the allocation to request, the hosts allowed, the enclosing job."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from apples.errors import ConfigError, LaunchError, NoFeasiblePlan
from apples.model.grid import Grid
from apples.slurm import records
from apples.slurm.commands import Wishes
from apples.slurm.records import Partition
from nws.base.durations import parse_duration

_YES, _NO = ("yes", "true"), ("no", "false")
_NODES = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Values of the user and of the environment for a cluster.

    wishes : properties of the allocation.  grid : hosts of a grid file or a list, None for all nodes
    open_slots, open_types : hosts whose number of slots or CPU type Slurm must report
    job : number of the current allocation, None outside.  state : directory of stored links
    reads : check idle nodes in a short job before a run is planned
    """

    wishes: Wishes = field(default_factory=Wishes)
    grid: Grid | None = None
    open_slots: frozenset[str] = frozenset()
    open_types: frozenset[str] = frozenset()
    job: str | None = None
    state: Path
    reads: bool = True


def current_job() -> str | None:
    """Return the number of the Slurm allocation that this process runs in, None outside."""
    return os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID") or None


def read_wishes(options: Mapping[str, str]) -> Wishes:
    """Return the allocation to request from Slurm; raise `ConfigError` with every problem."""
    problems: list[str] = []
    nodes, immediate_s = None, None
    if (asked := options.get("nodes")) is not None:
        match = _NODES.fullmatch(asked.strip())
        least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= least <= most:
            problems.append(f"--nodes {asked}: expected MIN or MIN-MAX, for example 2 or 2-4")
        nodes = (least, most)
    if (immediate := options.get("immediate")) is not None:
        try:
            immediate_s = parse_duration(immediate, what="--immediate")
        except ConfigError as error:
            problems += error.problems
    for name in ("exclusive", "check"):
        if (value := options.get(name, "no")).lower() not in (*_YES, *_NO):
            legal = ", ".join((*_YES, *_NO))
            problems.append(f"--launcher-option {name}={value}: no legal value; legal are {legal}")
    names = {name: options.get(name) for name in ("partition", "account", "qos", "reservation", "constraint")}
    problems += [f"--{name}: expected a name, got nothing" for name, value in names.items() if value == ""]
    if problems:
        raise ConfigError(problems)
    return Wishes(
        nodes=nodes, exclusive=is_yes(options.get("exclusive", "no")), immediate_s=immediate_s, **names
    )


def is_yes(value: str) -> bool:
    """Return whether a legal value is a yes."""
    return value.lower() in _YES


def chosen(partitions: Mapping[str, Partition], name: str | None) -> Partition:
    """Return the requested partition, or the default one; raise `ConfigError`."""
    legal = ", ".join(partitions) or "none"
    if name is None:
        default = next((one for one in partitions.values() if one.default), None)
        if default is None:
            raise ConfigError(f"the cluster has no default partition; give one with --partition ({legal})")
        return default
    if name not in partitions:
        raise ConfigError(f"--partition {name}: there is no such partition; legal are {legal}")
    partition = partitions[name]
    if partition.state != "UP":
        raise NoFeasiblePlan(
            f"partition {name} is {partition.state} and starts no jobs; use another with --partition"
        )
    return partition


def running_job(text: str, number: str) -> records.Job:
    """Return the job of this allocation; raise `LaunchError` if it does not run."""
    job = records.parse_job(text, datetime.now())
    if job is None or job.state not in ("RUNNING", "COMPLETING"):
        state = "unknown to Slurm" if job is None else job.state
        raise LaunchError(
            f"job {number} (SLURM_JOB_ID) is {state}; run this inside an allocation, or unset SLURM_JOB_ID to make one"
        )
    return job
