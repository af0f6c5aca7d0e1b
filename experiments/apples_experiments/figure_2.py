"""A second implementation of the pseudo-code of the paper's Figure 2, for comparison with the planner.

It uses plain loops over the three orders and all even host counts. Slabs are found by bisection on the common finish
time in real rows. It uses nothing of `apples.planning`, so that one misreading cannot affect both. Source: Wolski et
al. 2000, §3.1 (model), §3.2 (desirability), Figure 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from apples.model.grid import FloatArray, Snapshot
from apples.model.template import Costs, Workload

_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class CheapestSchedule:
    """Result of the loops: the number of schedules, and the cheapest one's hosts and seconds."""

    schedules: int
    hosts: int
    seconds: float


def read_figure_2(snapshot: Snapshot, workload: Workload, costs: Costs) -> CheapestSchedule:
    """Return the result of lines 4 to 17 of Figure 2 for hosts of one slot each."""
    row_s = np.array(
        [
            costs.row_seconds(host.cpu_type, 1) * workload.iterations / conditions.availability.value
            for host, conditions in zip(snapshot.hosts, snapshot.conditions, strict=True)
        ]
    )
    caps = np.array([_most_rows(snapshot, workload, h) for h in range(len(snapshot.hosts))])
    looked, best = 0, (np.inf, 0)
    for balance in (0.0, 0.5, 1.0):
        order = _sorted(snapshot, row_s, balance)
        for n in range(2, len(order) + 1, 2):
            looked += 1
            hosts = order[:n]
            fixed = _communication(snapshot, workload, hosts) + costs.overhead.seconds(workload.size, n)
            if caps[hosts].sum() >= workload.size:
                best = min(best, (_finish(row_s[hosts], fixed, caps[hosts], workload.size), n))
    return CheapestSchedule(looked, best[1], best[0])


def _sorted(snapshot: Snapshot, row_s: FloatArray, balance: float) -> list[int]:
    """Return hosts by desirability: 0 connectivity, 1 power, between them both, each relative to its mean."""
    others = range(len(row_s))
    byte_s = np.array(
        [
            sum(
                snapshot.latency_s[i, j]
                + 1 / snapshot.bandwidth_Bps[i, j]
                + snapshot.latency_s[j, i]
                + 1 / snapshot.bandwidth_Bps[j, i]
                for j in others
                if j != i
            )
            for i in others
        ]
    )
    wish = balance * row_s / row_s.mean() + (1 - balance) * byte_s / byte_s.mean()
    return sorted(others, key=lambda h: float(wish[h]))


def _communication(snapshot: Snapshot, workload: Workload, hosts: list[int]) -> FloatArray:
    """Return Comm_i of §3.1; MB is the sum over all neighbours."""
    seconds = []
    for place, host in enumerate(hosts):
        neighbours = [hosts[p] for p in (place - 1, place + 1) if 0 <= p < len(hosts)]
        bandwidth = sum(snapshot.bandwidth_Bps[host, j] for j in neighbours)
        latency = sum(snapshot.latency_s[host, j] for j in neighbours)
        seconds.append(len(neighbours) * workload.bytes_exchanged / bandwidth + workload.messages * latency)
    return np.array(seconds)


def _most_rows(snapshot: Snapshot, workload: Workload, host: int) -> float:
    """Return the most rows of a host: the array limit and, if the application uses memory, BMmem·x < MemAvail.

    One forecast error of the memory is kept free.
    """
    memory = snapshot.conditions[host].memory_bytes
    fit = (memory.value - memory.error - workload.bytes_fixed) / workload.bytes_per_row
    return float(max(0, math.floor(min(fit, workload.max_rows or fit))))


def _finish(row_s: FloatArray, fixed: FloatArray, caps: FloatArray, size: int) -> float:
    """Return the common finish time at which the hosts hold all the work."""
    low, high = 0.0, float((fixed + row_s * caps).max())
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if np.clip((middle - fixed) / row_s, 0.0, caps).sum() < size:
            low = middle
        else:
            high = middle
    return high
