"""Exchange between policies and the memory: orders are written down, the monitors' counts are read.

Most heartbeats repeat an earlier slot. Policies return the same mappings then, and the arrays that were made of them
are written again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apples.coscheduling.classes import MonitorCounts
from apples.coscheduling.events import Order, Process, Wait
from apples_experiments.cluster import engine, layout as at
from apples_experiments.cluster.building import Views
from apples_experiments.cluster.workload import BspJob

_CACHED = 256
_WANTS = np.arange(at.WANTS_RUN, at.WANTS_NICE + 1)


class OrderWriter:
    """Writes the wanted state of ranks, for the node managers to carry out.

    number : number of each process.  favoured_nice : nice value of a favoured one
    """

    def __init__(self, views: Views, number: Mapping[Process, int], favoured_nice: int) -> None:
        self._views, self._number, self._favoured_nice = views, number, favoured_nice
        #: By the identities of the mappings: the mappings (held, so that no other gets their identity), rows, values.
        self._cached: dict[
            tuple[int, ...], tuple[Sequence[Mapping[Process, Order]], NDArray[np.int64], NDArray[np.int64]]
        ] = {}

    def write(self, orders: Sequence[Mapping[Process, Order]]) -> None:
        """Write the orders of some nodes, one mapping each."""
        orders = [of_node for of_node in orders if of_node]
        key = tuple(map(id, orders))
        if key not in self._cached:
            if len(self._cached) >= _CACHED:
                self._cached.clear()
            rows = [self._number[process] for of_node in orders for process in of_node]
            wants = [
                (order.run, order.wait is Wait.POLL, self._favoured_nice if order.favoured else order.nice)
                for of_node in orders
                for order in of_node.values()
            ]
            self._cached[key] = (
                orders,
                np.array(rows, np.int64)[:, None],
                np.array(wants, np.int64).reshape(-1, len(_WANTS)),
            )
        _, where, what = self._cached[key]
        self._views.processes[where, _WANTS] = what


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A job's ranks in the order of their nodes. parts : by node, which of them (from, to)"""

    nodes: tuple[int, ...]
    names: Sequence[Process]
    numbers: Sequence[int]
    parts: Mapping[int, tuple[int, int]]


class MonitorPages:
    """Counts of the monitors. `process`: names by number, None for system processes"""

    def __init__(self, views: Views, process: Sequence[Process | None]) -> None:
        self._views, self._process = views, process
        self._counts = np.zeros((len(process), 3), np.int64)
        self._nothing: list[dict[Process, MonitorCounts]] = [{} for _ in range(len(views.nodes))]
        self._groups: dict[str, _Group] = {}

    def read(self, now: int) -> NDArray[np.int64]:
        """Return int64[processes, 3]: t_cpu, t_comm (ns) and c_comm at `now`."""
        engine.read(self._views.memory, now, self._counts)
        return self._counts

    def by_node(self, now: int, jobs: Iterable[BspJob]) -> Sequence[Mapping[Process, MonitorCounts]]:
        """Return the counts of the ranks of these jobs, by node."""
        orders_by_node = self._nothing
        for job in jobs:
            if orders_by_node is self._nothing:
                orders_by_node = [{} for _ in self._nothing]
                self.read(now)
            group = self._group(job)
            t_cpu_s, t_comm_s = (self._counts[group.numbers, :2] / 1e9).T.tolist()
            c_comm = self._counts[group.numbers, 2].tolist()
            named = list(zip(group.names, map(MonitorCounts, t_cpu_s, t_comm_s, c_comm), strict=True))
            for node, (begin, end) in group.parts.items():
                orders_by_node[node].update(named[begin:end])
        return orders_by_node

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
