"""The planner's inputs as arrays: what a row costs on each host, what it may hold, what a neighbour costs.

A *processor* is one slot of one host. Hosts that cannot take part at all (no benchmark, no CPU left, no
memory for one row) are set aside here with the reason; everything after works on the rest.
Source: Wolski et al. 2000, §3.1 (Comp_i, Comm_i), §3.3 (memory and array limits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from apples.errors import NoFeasiblePlan
from apples.grid import Conditions, FloatArray, Host, Snapshot
from apples.planning.options import PlanningOptions
from apples.template import Costs, LinearConstraint, Workload

IntArray = NDArray[np.int64]

#: A host that gives less of a CPU than this to a new process is not usable.
LEAST_SHARE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """One planning problem over H usable hosts with N slots; M is the largest slot count.

    host_of, slot_of : int64[N], processor → host index, slot number
    slope : float64[H, M+1], [h, m] seconds for one row, whole run, when m ranks share host h
    cap : float64[H, M+1], whole rows one of m ranks on host h may hold, all limits together
    memory_rows : float64[H, M+1], whole rows that fit in memory (= part of `cap` unless spilling is allowed)
    share, share_error : float64[H, M+1], CPU share forecast for each of m ranks, and its standard deviation
    priced_share : float64[H, M+1], share behind `slope`: `share`, less the error the quantile fears
    side : float64[H, H], seconds to exchange with a neighbour on host j, whole run
    overhead : float64[N+1], Over for P ranks
    """

    size: int
    min_rows: int
    hosts: tuple[Host, ...]
    host_of: IntArray
    slot_of: IntArray
    slope: FloatArray
    cap: FloatArray
    memory_rows: FloatArray
    share: FloatArray
    share_error: FloatArray
    priced_share: FloatArray
    side: FloatArray
    side_error: FloatArray
    overhead: FloatArray
    overhead_error_s: float
    messages: float
    bytes_exchanged: float
    latency_s: FloatArray
    bandwidth_Bps: FloatArray
    coupling: tuple[LinearConstraint, ...]
    excluded: tuple[tuple[str, str], ...]
    workload: Workload

    @property
    def single_slots(self) -> bool:
        """Whether every host has one slot, so that nobody shares."""
        return bool(self.slope.shape[1] == 2)

    @property
    def processors(self) -> int:
        """Number of processors, N."""
        return len(self.host_of)


def build(snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions) -> Problem:
    """Arrays of the problem; raises `NoFeasiblePlan` when no host can take part."""
    excluded: list[tuple[str, str]] = []
    keep: list[int] = []
    rows = []
    for h, (host, conditions) in enumerate(zip(snapshot.hosts, snapshot.conditions, strict=True)):
        reason, table = _host_table(host, conditions, (workload, costs, options))
        if reason is None:
            keep.append(h)
            rows.append(table)
        else:
            excluded.append((host.name, reason))
    if not keep:
        why = "; ".join(f"{name}: {reason}" for name, reason in excluded) or "the pool is empty"
        raise NoFeasiblePlan(f"no host can take part in a run of {workload.size} {workload.row}s: {why}")
    hosts = tuple(snapshot.hosts[h] for h in keep)
    widest = max(host.slots for host in hosts)
    tables = np.full((6, len(hosts), widest + 1), np.nan)
    for h, table in enumerate(rows):
        tables[:, h, : table.shape[1]] = table
        tables[:, h, table.shape[1] :] = table[:, -1:]
    pick = np.ix_(keep, keep)
    latency, bandwidth = snapshot.latency_s[pick], snapshot.bandwidth_Bps[pick]
    side, side_error = _side(workload, (latency, bandwidth), snapshot, keep)
    ranks = np.arange(sum(h.slots for h in hosts) + 1)
    return Problem(
        size=workload.size,
        min_rows=workload.min_rows,
        hosts=hosts,
        host_of=np.array([h for h, host in enumerate(hosts) for _ in range(host.slots)]),
        slot_of=np.array([s for host in hosts for s in range(host.slots)]),
        slope=tables[0],
        cap=tables[1],
        memory_rows=tables[2],
        share=tables[3],
        share_error=tables[4],
        priced_share=tables[5],
        side=side,
        side_error=side_error,
        overhead=np.array([costs.overhead.seconds(workload.size, int(p)) for p in ranks]),
        overhead_error_s=costs.overhead.error_s,
        messages=workload.messages,
        bytes_exchanged=workload.bytes_exchanged,
        latency_s=latency,
        bandwidth_Bps=bandwidth,
        coupling=tuple(c for c in workload.constraints if _is_coupling(c, hosts)),
        excluded=tuple(excluded),
        workload=workload,
    )


def _side(
    workload: Workload, network: tuple[FloatArray, FloatArray], snapshot: Snapshot, keep: list[int]
) -> tuple[FloatArray, FloatArray]:
    """Seconds to exchange with one neighbour over the whole run, and their error; float64[H, H] each."""
    latency, bandwidth = network
    pick = np.ix_(keep, keep)
    transfer = workload.bytes_exchanged / bandwidth
    side = workload.messages * latency + transfer
    error = np.hypot(
        workload.messages * snapshot.latency_error_s[pick],
        transfer * snapshot.bandwidth_error_Bps[pick] / bandwidth,
    )
    return side, error


def _host_table(
    host: Host, conditions: Conditions, what: tuple[Workload, Costs, PlanningOptions]
) -> tuple[str | None, FloatArray]:
    """(reason to leave the host out or None, float64[6, slots+1] in the order of `Problem`'s tables)."""
    workload, costs, options = what
    table = np.full((6, host.slots + 1), np.nan)
    try:
        benchmarks = [costs.row_seconds(host.cpu_type, m) for m in range(1, host.slots + 1)]
    except KeyError:
        known = ", ".join(sorted(costs.seconds_per_row)) or "none"
        return f"no benchmark for CPU type {host.cpu_type!r} (known: {known}); apples calibrate", table
    fear = NormalDist().inv_cdf(options.quantile)
    error = conditions.availability.error
    for m, benchmark in enumerate(benchmarks, start=1):
        share = conditions.share(m, host.slots)
        careful = min(1.0, max(share - fear * error, 0.0)) if fear else share
        memory = _memory_rows(conditions, workload, m)
        limit = math.inf if workload.max_rows is None else workload.max_rows
        limit = min([limit, *(_own_limit(c, host.name, m) for c in workload.constraints)])
        cap = limit if options.allow_spill else min(limit, memory)
        slope = benchmark * workload.iterations / careful if careful >= LEAST_SHARE else math.inf
        table[:, m] = slope, cap, memory, share, error, careful
    table[:, 0] = table[:, 1]
    if not math.isfinite(table[0, 1]):
        return f"a new process would get {table[3, 1]:.3f} of a CPU, less than {LEAST_SHARE}", table
    if table[1, 1] < workload.min_rows:
        free = conditions.memory_bytes.value
        return (
            f"{free / 1e6:.0f} MB free hold {table[1, 1]:.0f} {workload.row}s, fewer than {workload.min_rows}"
        ), table
    return None, table


def _memory_rows(conditions: Conditions, workload: Workload, ranks: int) -> float:
    """Whole rows that fit beside each other's in free memory, one forecast error kept free (BMmem·x < Mem)."""
    free = max(conditions.memory_bytes.value - conditions.memory_bytes.error, 0.0) / ranks
    if workload.bytes_per_row <= 0 or not math.isfinite(free):
        return math.inf
    return math.floor(max(free - workload.bytes_fixed, 0.0) / workload.bytes_per_row)


def _own_limit(constraint: LinearConstraint, host: str, ranks: int) -> float:
    """Rows per rank that a constraint on this host alone allows."""
    live = {name: c for name, c in constraint.coefficients.items() if c}
    if set(live) != {host} or live[host] < 0:
        return math.inf
    return math.floor(constraint.bound / live[host] / ranks + 1e-9)


def _is_coupling(constraint: LinearConstraint, hosts: tuple[Host, ...]) -> bool:
    """Whether a constraint ties several hosts together (a limit on one host alone is part of `cap`)."""
    names = {h.name for h in hosts}
    live = {name: c for name, c in constraint.coefficients.items() if c and name in names}
    return len(live) > 1 or any(c < 0 for c in live.values())
