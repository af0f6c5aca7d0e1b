"""Makes the simulator's memory from constants and jobs, and places jobs on their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apples.errors import ConfigError
from apples_experiments.cluster import layout as at
from apples_experiments.cluster.constants import ClusterConstants
from apples_experiments.cluster.layout import Memory
from apples_experiments.cluster.workload import PATTERNS, BspJob

Random = np.random.Generator


def ns(seconds: float) -> int:
    """Return seconds as integer nanoseconds."""
    return round(seconds * 1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """Views of the memory for Python, one row per record. `due`, `occupant`: by node, then slot.

    Processes are numbered by node: its manager, its daemon; then the ranks of all jobs in order.
    """

    memory: Memory
    nodes: Memory
    processors: Memory
    processes: Memory
    jobs: Memory
    shares: Memory
    due: Memory
    occupant: Memory

    def process_at(self, address: int) -> int:
        """Return the number of the process with that address."""
        return int(address - self.memory[at.K_PROCESS]) // at.PROCESS_FIELDS

    def node_address(self, node: int) -> int:
        """Return the address of a node."""
        return int(self.memory[at.K_NODE]) + node * int(self.memory[at.K_STRIDE])

    def job_address(self, job: int) -> int:
        """Return the address of a job."""
        return int(self.memory[at.K_JOB]) + job * at.JOB_FIELDS

    def set_due(self, process: int, when: int) -> None:
        """Set the next event of a process of this number."""
        me = self.processes[process]
        self.memory[me[at.DUE]] = when
        following = at.NEXT + self.memory[me[at.NODE] + at.N_INDEX]
        self.memory[following] = min(self.memory[following], when)


def build(
    machine: ClusterConstants,
    jobs: Sequence[BspJob],
    random: Random,
    *,
    spin_s: float,
    messages: bool,
    degree: int | None = None,
) -> Views:
    """Return the memory of a machine on which no job runs.

    messages : arrivals are reported, and jobs have shares
    degree : limit of jobs on a node, if jobs may move; None if they stay on their nodes

    Raises `ConfigError` for two jobs of one name, a job with ranks on unknown nodes, or no job.
    """
    _check(machine, jobs)
    views = _lay_out(machine, jobs, _most_ranks(machine, jobs, degree))
    _set_constants(views.memory, machine, jobs, spin_s=spin_s, messages=messages)
    _set_nodes(views, machine, random)
    _set_system(views, machine, random)
    first = 2 * machine.nodes
    for j, job in enumerate(jobs):
        views.jobs[j, : at.J_COLD + 1] = (
            PATTERNS[job.pattern], ns(job.latency_s), ns(job.refill_s), len(job.nodes), first - 2 * machine.nodes,
            0, 0, 0, 0, len(job.nodes), job.pieces, round(1e3 * job.cold_slowdown),
        )  # fmt: skip
        _set_ranks(views, j, job, first, random)
        first += len(job.nodes)
    return views


def move(views: Views, j: int, first: int, nodes: Sequence[int]) -> None:
    """Set the nodes of job number j before it starts; `first` is the process number of its rank 0."""
    memory, ranks = views.memory, views.processes[first : first + len(nodes)]
    ranks[:, at.NODE] = [views.node_address(n) for n in nodes]
    ranks[:, at.SHARE] = memory[at.K_SHARE] + (np.array(nodes) * memory[at.K_JOBS] + j) * at.SHARE_FIELDS


def place(views: Views, p: int, *, processor: int, when: int, random: Random) -> None:
    """Start rank number p at `when` (ns) on a processor of its node, with a partly used counter."""
    memory, me = views.memory, views.processes[p]
    node = int(memory[me[at.NODE] + at.N_INDEX])
    first = int(memory[at.K_PROCESSORS]) + 1
    slots = int(views.nodes[node, at.N_SLOTS])
    free = next((w for w in range(first, slots) if views.occupant[node, w] == at.NO_PROCESS), slots)
    views.nodes[node, at.N_SLOTS] = max(slots, free + 1)
    views.occupant[node, free] = memory[at.K_PROCESS] + p * at.PROCESS_FIELDS
    me[at.DUE] = me[at.NODE] + at.N_DUE + free
    me[at.PROCESSOR] = views.nodes[node, at.N_FIRST] + processor * at.PROCESSOR_FIELDS
    me[at.COUNTER] = random.integers(1, memory[memory[at.K_QUANTA] + 20] + 1)
    me[at.STATE], me[at.PHASE], me[at.READY_AT] = at.ASLEEP, at.COMPUTING, when
    me[at.POLLS] = me[at.WANTS_POLLS] = me[at.WANTS_RUN] = 1
    me[at.OWES] = memory[me[at.JOB] + at.J_REFILL]
    views.set_due(p, when)


def _check(machine: ClusterConstants, jobs: Sequence[BspJob]) -> None:
    names = [job.name for job in jobs]
    problems = [f"two jobs are called {name}" for name in dict.fromkeys(names) if names.count(name) > 1]
    problems += [
        f"job {job.name} has a rank on node {node}; legal are 0 to {machine.nodes - 1}"
        for job in jobs
        for node in sorted(set(job.nodes))
        if not 0 <= node < machine.nodes
    ]
    if not jobs:
        problems.append("there is no job to run; give at least one")
    if problems:
        raise ConfigError(problems)


def _whole_lines(size: int) -> int:
    """Return a count rounded up to cache lines of eight numbers each."""
    return -(-size // 8) * 8


def _zeros(size: int) -> Memory:
    """Return memory that begins at a cache line."""
    memory = np.zeros(size + 8, np.int64)
    offset = -(memory.ctypes.data // 8) % 8
    return memory[offset : offset + size]


def _most_ranks(machine: ClusterConstants, jobs: Sequence[BspJob], degree: int | None) -> int:
    """Return the largest number of ranks that a node ever has."""
    if degree is not None:
        return degree * max(max(Counter(job.nodes).values()) for job in jobs)
    return max(sum(job.nodes.count(n) for job in jobs) for n in range(machine.nodes))


def _lay_out(machine: ClusterConstants, jobs: Sequence[BspJob], most: int) -> Views:
    ranks = sum(len(job.nodes) for job in jobs)
    width = _whole_lines(machine.processors + 3 + most)
    stride = at.N_DUE + 3 * width
    sizes = {
        at.K_NODE: machine.nodes * stride,
        at.K_PROCESSOR: machine.nodes * machine.processors * at.PROCESSOR_FIELDS,
        at.K_PROCESS: (2 * machine.nodes + ranks) * at.PROCESS_FIELDS,
        at.K_JOB: len(jobs) * at.JOB_FIELDS,
        at.K_SHARE: machine.nodes * len(jobs) * at.SHARE_FIELDS,
        at.K_MEMBERS: ranks,
        at.K_QUANTA: at.QUANTA,
    }
    start = _whole_lines(at.NEXT + machine.nodes)
    memory = _zeros(start + sum(map(_whole_lines, sizes.values())))
    parts = {}
    for field, size in sizes.items():
        memory[field] = start
        parts[field] = memory[start : start + size]
        start += _whole_lines(size)
    nodes = parts[at.K_NODE].reshape(-1, stride)
    processes = parts[at.K_PROCESS].reshape(-1, at.PROCESS_FIELDS)
    addresses = memory[at.K_PROCESS] + np.arange(len(processes)) * at.PROCESS_FIELDS
    parts[at.K_MEMBERS][:] = addresses[2 * machine.nodes :]
    parts[at.K_QUANTA][:] = [machine.quantum_ticks(nice) for nice in range(-20, 20)]
    memory[at.K_WIDTH], memory[at.K_STRIDE] = width, stride
    return Views(
        memory=memory,
        nodes=nodes,
        processors=parts[at.K_PROCESSOR].reshape(-1, at.PROCESSOR_FIELDS),
        processes=processes,
        jobs=parts[at.K_JOB].reshape(-1, at.JOB_FIELDS),
        shares=parts[at.K_SHARE].reshape(machine.nodes, len(jobs), at.SHARE_FIELDS),
        due=nodes[:, at.N_DUE : at.N_DUE + width],
        occupant=nodes[:, at.N_DUE + width : at.N_DUE + 2 * width],
    )


def _set_constants(
    memory: Memory, machine: ClusterConstants, jobs: Sequence[BspJob], *, spin_s: float, messages: bool
) -> None:
    memory[at.K_NODES] = machine.nodes
    memory[at.K_PROCESSORS] = machine.processors
    memory[at.K_TICK] = round(1e9 / machine.ticks_per_s)
    memory[at.K_STAY] = machine.stay_ticks
    memory[at.K_SWITCH] = ns(machine.switch_s)
    memory[at.K_SPIN] = ns(spin_s)
    memory[at.K_LOOKAHEAD] = min(ns(job.latency_s) for job in jobs)
    memory[at.K_NOISE_MEAN] = ns(machine.noise_mean_s)
    memory[at.K_INTERVAL] = ns(machine.share_interval_s)
    memory[at.K_MESSAGES] = int(messages)
    memory[at.K_JOBS] = len(jobs)


def _set_nodes(views: Views, machine: ClusterConstants, random: Random) -> None:
    memory, nodes, processors = views.memory, views.nodes, views.processors
    numbers = np.arange(machine.nodes)
    views.due[:], views.occupant[:] = at.NEVER, at.NO_PROCESS
    nodes[:, at.N_INDEX] = numbers
    nodes[:, at.N_FIRST] = memory[at.K_PROCESSOR] + numbers * machine.processors * at.PROCESSOR_FIELDS
    nodes[:, at.N_SLOTS] = machine.processors + 3
    nodes[:, at.N_RANDOM] = random.integers(0, 2**62, machine.nodes)
    nodes[:, at.N_SHARE] = memory[at.K_SHARE] + numbers * memory[at.K_JOBS] * at.SHARE_FIELDS
    views.shares[:, :, at.S_EXHAUSTED] = at.NEVER
    ends = random.integers(1, ns(machine.share_interval_s) + 1, machine.nodes)
    nodes[:, at.N_INTERVAL_END] = ends
    if memory[at.K_MESSAGES]:
        views.due[:, machine.processors] = ends
    tick = int(memory[at.K_TICK])
    homes = np.repeat([views.node_address(n) for n in range(machine.nodes)], machine.processors)
    processors[:, at.C_RUNNING] = at.NO_PROCESS
    processors[:, at.C_NEXT_TICK] = -at.NEVER
    processors[:, at.C_PHASE] = random.integers(0, tick, len(processors)) - tick
    processors[:, at.C_NODE] = homes
    processors[:, at.C_DUE] = homes + at.N_DUE + np.tile(np.arange(machine.processors), machine.nodes)


def _set_system(views: Views, machine: ClusterConstants, random: Random) -> None:
    memory, first = views.memory, machine.processors + 1
    for node in range(machine.nodes):
        for kind, p in ((at.MANAGER, 2 * node), (at.DAEMON, 2 * node + 1)):
            me, slot = views.processes[p], first + (p & 1)
            me[at.KIND], me[at.NODE], me[at.STATE] = kind, views.node_address(node), at.ASLEEP
            me[at.DUE] = me[at.NODE] + at.N_DUE + slot
            processor = int(random.integers(0, machine.processors))
            me[at.PROCESSOR] = views.nodes[node, at.N_FIRST] + processor * at.PROCESSOR_FIELDS
            me[at.WAITING_SINCE], me[at.KNOCK], me[at.READY_AT] = -1, at.NEVER, at.NEVER
            views.occupant[node, slot] = memory[at.K_PROCESS] + p * at.PROCESS_FIELDS
        if machine.noise_burst_s > 0:
            daemon = 2 * node + 1
            views.processes[daemon, at.COMPUTE] = ns(machine.noise_burst_s)
            views.processes[daemon, at.READY_AT] = ns(random.exponential(machine.noise_mean_s)) + 1
            views.due[node, first + 1] = views.processes[daemon, at.READY_AT]
        memory[at.NEXT + node] = views.due[node].min()


def _set_ranks(views: Views, j: int, job: BspJob, first: int, random: Random) -> None:
    count, memory = len(job.nodes), views.memory
    ranks: Any = views.processes[first : first + count]
    numbers = np.arange(count)
    base = memory[at.K_PROCESS] + first * at.PROCESS_FIELDS
    ranks[:, at.KIND], ranks[:, at.JOB] = at.RANK, views.job_address(j)
    move(views, j, first, job.nodes)
    ranks[:, at.LEFT] = base + (numbers - 1) % count * at.PROCESS_FIELDS
    ranks[:, at.RIGHT] = base + (numbers + 1) % count * at.PROCESS_FIELDS
    ranks[:, at.COMPUTE] = [ns(c) for c in job.compute_s]
    ranks[:, at.KEY] = random.integers(0, 2**62, count)
    ranks[:, at.ITERATIONS], ranks[:, at.VARIATION] = job.iterations, ns(job.variation)
    ranks[:, at.WAITING_SINCE], ranks[:, at.STATE] = -1, at.GONE
    ranks[:, at.KNOCK], ranks[:, at.READY_AT] = at.NEVER, at.NEVER
