"""Records of nodes, partitions and jobs, parsed from one-line `scontrol -o show`. Pure.

A field that a release does not print is unknown, not an error, and only needed fields are read. Slurm's texts of times
are converted to seconds. Source: the manual pages scontrol(1) and squeue(1).
"""

import math
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from apples.slurm.meanings import AWAY
from nws.base.durations import slurm_seconds
from nws.base.hostlist import expand

#: A key is a word with a capital first, at the start or after a blank; values may hold blanks (`OS`, `Reason`).
_KEY = re.compile(r"(?:^| )([A-Z][A-Za-z0-9:/_]*)=")
_EMPTY = ("", "(null)", "N/A", "None", "Unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node.

    states : words of its state, without marks.  reason : why it is drained or down, empty for none
    cpus, allocated_cpus : as Slurm counts them, hardware threads included.  threads : of one core
    memory_bytes : that Slurm allocates; allocated_bytes of it are allocated
    free_bytes : as its system reports it, nan if unknown
    """

    name: str
    address: str = ""
    states: tuple[str, ...] = ("IDLE",)
    reason: str = ""
    cpus: int = 1
    allocated_cpus: int = 0
    threads: int = 1
    memory_bytes: float = math.nan
    allocated_bytes: float = 0.0
    free_bytes: float = math.nan
    features: tuple[str, ...] = ()
    architecture: str = ""

    @property
    def away(self) -> str:
        """Return why nothing can be started there, a predicate; empty if something can."""
        found = next((AWAY[state] for state in self.states if AWAY.get(state)), "")
        return f"{found}: {self.reason}" if found and self.reason else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition.

    max_time_s : inf for no limit.  shared : jobs on one CPU at most, 1 for none
    exclusive : a job has its nodes alone.  state : UP, or why nothing starts
    """

    name: str
    nodes: tuple[str, ...] = ()
    default: bool = False
    state: str = "UP"
    max_time_s: float = math.inf
    shared: int = 1
    exclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job in Slurm's memory.

    left_s : until its time limit, inf for none, nan before its start.  expected : start, in Slurm's format
    """

    number: str
    state: str
    reason: str = ""
    left_s: float = math.nan
    expected: str = ""


def fields(line: str) -> dict[str, str]:
    """Return the `Key=value` pairs of one line; the value is empty where Slurm prints a placeholder."""
    found, places = {}, list(_KEY.finditer(line))
    ends = [*(place.start() for place in places[1:]), len(line)]
    # a line without keys has an end and no places
    for place, end in zip(places, ends, strict=False):
        value = line[place.end() : end].strip()
        found[place[1]] = "" if value in _EMPTY else value
    return found


def parse_nodes(text: str) -> dict[str, Node]:
    """Return the nodes by name, from `scontrol -o show nodes`."""
    return {node.name: node for line in text.splitlines() if (node := _node(fields(line))) is not None}


def _node(found: dict[str, str]) -> Node | None:
    if not found.get("NodeName"):
        return None
    words = found.get("State", "UNKNOWN")
    silent = ("NOT_RESPONDING",) if "*" in words else ()
    states = tuple(word.strip("*$%~#!@^-") for word in words.split("+"))
    return Node(
        name=found["NodeName"],
        address=found.get("NodeAddr", ""),
        states=(*states, *silent),
        reason=found.get("Reason", "").partition(" [")[0],
        # specialised CPUs are not given away
        cpus=int(found.get("CPUEfctv") or found.get("CPUTot") or 1),
        allocated_cpus=int(found.get("CPUAlloc") or 0),
        threads=int(found.get("ThreadsPerCore") or 1),
        memory_bytes=_megabytes(found.get("RealMemory", "")),
        allocated_bytes=_megabytes(found.get("AllocMem", "0")),
        free_bytes=_megabytes(found.get("FreeMem", "")),
        features=tuple(word for word in found.get("ActiveFeatures", "").split(",") if word),
        architecture=found.get("Arch", ""),
    )


def parse_partitions(text: str) -> dict[str, Partition]:
    """Return the partitions by name, from `scontrol -o show partition`."""
    return {one.name: one for line in text.splitlines() if (one := _partition(fields(line))) is not None}


def _partition(found: dict[str, str]) -> Partition | None:
    if not found.get("PartitionName"):
        return None
    kind, _, count = found.get("OverSubscribe", "NO").partition(":")
    return Partition(
        name=found["PartitionName"],
        nodes=expand(found["Nodes"]) if found.get("Nodes") else (),
        default=found.get("Default") == "YES",
        state=found.get("State", "UP"),
        max_time_s=slurm_seconds(found.get("MaxTime", "UNLIMITED")),
        # A job shares its CPUs only if it must (FORCE) or asks to (YES), which apples does not.
        shared=int(count or 4) if kind == "FORCE" else 1,
        exclusive=kind == "EXCLUSIVE",
    )


def parse_job(text: str, now: datetime) -> Job | None:
    """Return the job in `scontrol -o show job`, None if there is none.

    Args:
        now: local time, as Slurm writes it
    """
    found = fields(text.splitlines()[0]) if text.strip() else {}
    if not found.get("JobId"):
        return None
    # a job that is to be cut short keeps its limit and has another end
    end = _moment(found.get("EndTime", "")) if found.get("JobState") in ("RUNNING", "COMPLETING") else None
    unlimited = found.get("TimeLimit") == "UNLIMITED"
    left_s = math.inf if unlimited else math.nan if end is None else (end - now).total_seconds()
    return Job(
        number=found["JobId"],
        state=found.get("JobState", "UNKNOWN"),
        reason=found.get("Reason", ""),
        left_s=left_s,
        expected=found.get("StartTime", ""),
    )


def allocated_cpus(text: str) -> dict[str, int]:
    """Return node → CPUs of a job there, from `scontrol -d -o show job`.

    >>> allocated_cpus("JobId=1 Nodes=n1 CPU_IDs=0-1,3 Mem=5 GRES= Nodes=n[2-3] CPU_IDs=0 Mem=5 GRES=")
    {'n1': 3, 'n2': 1, 'n3': 1}
    """
    found = {}
    for names, ids in re.findall(r" Nodes=(\S+) CPU_IDs=(\S+)", text):
        spans = [[int(end) for end in part.split("-")] for part in ids.split(",")]
        count = sum(span[-1] - span[0] + 1 for span in spans)
        found.update(dict.fromkeys(expand(names), count))
    return found


def held_cpus(text: str) -> Counter[str]:
    """Return node → CPUs of all jobs there, from `scontrol -d -o show job`; a CPU counts for each job that has it.

    `CPUAlloc` of a node counts a CPU once, however many jobs share it.
    """
    held: Counter[str] = Counter()
    for line in text.splitlines():
        if fields(line).get("JobState") in ("RUNNING", "SUSPENDED", "COMPLETING"):
            held.update(allocated_cpus(line))
    return held


def allocated_memory(text: str) -> dict[str, float]:
    """Return node → bytes of memory of a job there, from `scontrol -d -o show job`; 0 if Slurm counts no memory."""
    found = {}
    for names, megabytes in re.findall(r" Nodes=(\S+) CPU_IDs=\S+ Mem=(\d+)", text):
        found.update(dict.fromkeys(expand(names), int(megabytes) * 2.0**20))
    return found


def parse_configuration(text: str) -> dict[str, str]:
    """Return the settings of the cluster in `scontrol show config`."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def parse_mpi_types(text: str) -> tuple[str, ...]:
    """Return the names in `srun --mpi=list`: one a line, or after a colon."""
    lines = [line.strip().removeprefix("srun:").strip() for line in text.splitlines()]
    return tuple(line for line in lines if re.fullmatch(r"[a-z][a-z0-9_]*", line))


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _megabytes(text: str) -> float:
    return float(text) * 2.0**20 if _number(text) else math.nan


def _number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", text) is not None
