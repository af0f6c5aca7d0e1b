"""Between policies and the memory: what monitors have counted goes to the policies, what these want is written down.

Most beats want what an earlier one wanted. Policies give out the very same lists then, and what was made of them
is written again as a whole.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apples.coscheduling.classes import MonitorCounts
from apples.coscheduling.events import Instruction, Process, Wait
from apples.simulation.cluster import engine
from apples.simulation.cluster import layout as at
from apples.simulation.cluster.building import Views
from apples.simulation.cluster.workload import BspJob

_KEPT = 256
_WANTS = np.arange(at.WANTS_RUN, at.WANTS_NICE + 1)


class OrderWriter:
    """Writes what is wanted of ranks, for the node managers to carry out.

    number : of each process.  favoured_nice : nice value of a favoured one
    """

    def __init__(self, views: Views, number: Mapping[Process, int], favoured_nice: int) -> None:
        self._views, self._number, self._favoured_nice = views, number, favoured_nice
        #: By the identities of the lists: the lists, so that these stay theirs; rows; what is written there.
        self._kept: dict[
            tuple[int, ...], tuple[Sequence[list[Instruction]], NDArray[np.int64], NDArray[np.int64]]
        ] = {}

    def write(self, answers: Sequence[list[Instruction]]) -> None:
        """What the policies of some nodes have answered."""
        answers = [changes for changes in answers if changes]
        key = tuple(map(id, answers))
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            rows = [self._number[process] for changes in answers for process, _, _ in changes]
            wants = [
                (order.run, order.wait is Wait.POLL, self._favoured_nice if order.favoured else 0)
                for changes in answers
                for _, order, _ in changes
            ]
            self._kept[key] = (
                answers,
                np.array(rows, np.int64)[:, None],
                np.array(wants, np.int64).reshape(-1, len(_WANTS)),
            )
        _, where, what = self._kept[key]
        self._views.processes[where, _WANTS] = what


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A job's ranks in the order of their nodes. parts : by node, which of them (from, to)"""

    nodes: tuple[int, ...]
    names: Sequence[Process]
    numbers: Sequence[int]
    parts: Mapping[int, tuple[int, int]]


class MonitorPages:
    """What the monitors have counted. process : names by number, None for the system's"""

    def __init__(self, views: Views, process: Sequence[Process | None]) -> None:
        self._views, self._process = views, process
        self._counts = np.zeros((len(process), 3), np.int64)
        self._nothing: list[dict[Process, MonitorCounts]] = [{} for _ in range(len(views.nodes))]
        self._groups: dict[str, _Group] = {}

    def read(self, now: int) -> NDArray[np.int64]:
        """int64[processes, 3]: t_cpu, t_comm (ns), c_comm as they stand at `now`."""
        engine.read(self._views.memory, now, self._counts)
        return self._counts

    def by_node(self, now: int, jobs: Iterable[BspJob]) -> Sequence[Mapping[Process, MonitorCounts]]:
        """Readings of the ranks of these jobs, by node."""
        found = self._nothing
        for job in jobs:
            if found is self._nothing:
                found = [{} for _ in self._nothing]
                self.read(now)
            group = self._group(job)
            t_cpu_s, t_comm_s = (self._counts[group.numbers, :2] / 1e9).T.tolist()
            c_comm = self._counts[group.numbers, 2].tolist()
            named = list(zip(group.names, map(MonitorCounts, t_cpu_s, t_comm_s, c_comm), strict=True))
            for node, (begin, end) in group.parts.items():
                found[node].update(named[begin:end])
        return found

    def _group(self, job: BspJob) -> _Group:
        known = self._groups.get(job.name)
        if known is None or known.nodes is not job.nodes:
            first = self._process.index(Process(job.name, 0))
            ranks = sorted(range(len(job.nodes)), key=job.nodes.__getitem__)
            nodes = [job.nodes[rank] for rank in ranks]
            known = self._groups[job.name] = _Group(
                nodes=job.nodes,
                names=[Process(job.name, rank) for rank in ranks],
                numbers=[first + rank for rank in ranks],
                parts={node: (bisect_left(nodes, node), bisect_right(nodes, node)) for node in nodes},
            )
        return known
