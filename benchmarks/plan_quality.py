"""The planner against an independent brute force on random grids of five kinds, and borders of its cuts.

    python -m benchmarks plan_quality compare_plans [--kind full] [--grids 300] [--seed 2026] [--json]
    python -m benchmarks plan_quality halo_cuts [--pools 200] [--seed 1]

*full*: up to 8 processors with slots, several sites, memory and array limits, row minima, message costs, links that
are slower one way. *sparse*: the same with most links closed, as between firewalled hosts. *lossy*: *full*, and links
lose packets, each direction on its own. *medium*: 9 to 12 processors. *plain*: up to 8 hosts of one slot in sites.
Prints the distribution of planner / optimum, and how many feasible grids the planner refused.

halo_cuts: length of all borders between ranks, slabs against columns of boxes, for random speeds. Every rank of a pool
gets an area in proportion to its speed, which is uniform between 0.05 and 1. Prints the median, the 10th and the 90th
percentile of the ratio of the borders of slabs to those of columns in a square of 4096 × 4096 whole cells. The boxes
are those of the planner. The ratio for areas in real numbers is that of Beaumont, Boudet, Rastello and Robert (2002).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np

from apples.errors import NoFeasiblePlan
from apples.model.cut import Axes
from apples.model.grid import Conditions, Estimate, Host, Snapshot
from apples.model.template import Costs, Overhead, Workload
from apples.planning.boxcosts import in_columns
from apples.planning.cuts import column_groups
from apples.planning.planner import search
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import Problem, build
from benchmarks.common.brute_force import reference
from benchmarks.common.report import print_document, table

Case = tuple[Snapshot, Workload, Costs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of random grids. links : range of the share of host pairs whose link is open.

    lossy : links lose up to a tenth of their packets, and each direction has its own speed
    """

    processors: tuple[int, int] = (2, 8)
    slots: tuple[int, ...] = (1, 1, 1, 2, 3)
    links: tuple[float, float] = (1.0, 1.0)
    details: bool = True
    lossy: bool = False


KINDS = {
    "plain": Kind(slots=(1,), details=False),
    "full": Kind(),
    "sparse": Kind(processors=(4, 8), links=(0.15, 0.5)),
    "medium": Kind(processors=(9, 12)),
    "lossy": Kind(lossy=True),
}


def random_case(rng: np.random.Generator, kind: Kind) -> Case:
    """Return a random grid with its forecasts, a workload and costs."""
    wanted = int(rng.integers(kind.processors[0], kind.processors[1] + 1))
    slots: list[int] = []
    while sum(slots) < wanted:
        slots.append(min(int(rng.choice(kind.slots)), wanted - sum(slots)))
    count = len(slots)
    sites = rng.integers(0, int(rng.integers(1, 4)), count)
    size = int(rng.integers(20, 2000))
    row_bytes = 10 ** rng.uniform(5, 6.5)
    memory = row_bytes * size * rng.uniform(0.15, 1.5, count)
    if kind.details and rng.random() < 0.5:
        # Tight: all memory together holds little more than the work.
        memory *= row_bytes * size * rng.uniform(1.05, 1.6) / memory.sum()
    shares = rng.uniform(0.2, 1.0, count)
    snapshot = Snapshot(
        hosts=tuple(
            Host(name=f"h{i}", cpu_type=f"t{i}", site=f"s{s}", slots=slots[i]) for i, s in enumerate(sites)
        ),
        conditions=tuple(
            Conditions(
                availability=Estimate(value=a),
                memory_bytes=Estimate(value=m),
                capacity=Estimate(value=a * n * rng.uniform(0.5, 1)) if n > 1 and kind.details else None,
            )
            for a, m, n in zip(shares, memory, slots, strict=True)
        ),
        **_links(rng, sites, kind),
    )
    messages = float(rng.integers(50, 1000))
    workload = Workload(
        application="random",
        size=size,
        iterations=int(10 ** rng.uniform(0, 3)) if kind.details else 1,
        messages=messages,
        bytes_exchanged=messages * 10 ** rng.uniform(2, 5.5),
        bytes_per_row=row_bytes,
        bytes_fixed=row_bytes * rng.integers(0, 5) if kind.details else 0.0,
        max_rows=int(size * rng.uniform(0.2, 1.0)) + 1 if rng.random() < 0.4 else None,
        min_rows=int(rng.choice([1, 1, 3, max(1, size // 8)])) if kind.details else 1,
    )
    seconds = 10 ** rng.uniform(-2.3, -1) * rng.uniform(0.5, 2.0, count) / workload.iterations
    overhead = Overhead(constant_s=rng.uniform(0, 3), per_rank2_s=rng.uniform(0, 0.1))
    costs = Costs(
        seconds_per_row={
            f"t{i}": {1: s, 2: s * rng.uniform(1, 1.3)} if kind.details else {1: s}
            for i, s in enumerate(seconds)
        },
        overhead=overhead,
        start_cpu_s=rng.uniform(0, 1) if kind.details else 0.0,
        message_cpu_s=10 ** rng.uniform(-6, -4) if kind.details else 0.0,
        reduction_hops=float(rng.integers(0, 4)) if kind.details else 0.0,
    )
    return snapshot, workload, costs


def _links(rng: np.random.Generator, sites: np.ndarray, kind: Kind) -> dict[str, np.ndarray]:
    """Return near and far links with noise; of some grids each direction has its own speed, or links are closed."""
    count = len(sites)
    near_s, far_s = 10 ** rng.uniform(-5, -3.5), 10 ** rng.uniform(-3.5, -1)
    near_Bps, far_Bps = 10 ** rng.uniform(7, 9), 10 ** rng.uniform(5, 7)
    same = sites[:, None] == sites[None, :]
    spread = 3.0 if kind.details and (kind.lossy or rng.random() < 0.4) else 1.3
    noise = np.exp(rng.uniform(-np.log(spread), np.log(spread), (2, count, count)))
    latency = np.where(same, near_s, far_s) * noise[0]
    bandwidth = np.where(same, near_Bps, far_Bps) * noise[1]
    share = rng.uniform(*kind.links)
    if share < 1:
        closed = np.triu(rng.random((count, count)) > share, 1)
        order = rng.permutation(count)
        # A random tree stays open, so that every host is reached through others.
        for i in range(1, count):
            j = order[rng.integers(0, i)]
            closed[min(order[i], j), max(order[i], j)] = False
        bandwidth[closed | closed.T] = 0.0
    zeros = np.zeros((count, count))
    lost = {}
    if kind.lossy:
        loss = np.where(rng.random((count, count)) < rng.uniform(0.1, 0.8), 10 ** rng.uniform(-4, -1), 0.0)
        np.fill_diagonal(loss, 0.0)
        lost["loss"] = loss * rng.uniform(0.2, 1, (count, count))
    return {
        **lost,
        "latency_s": latency,
        "bandwidth_Bps": bandwidth,
        "latency_error_s": zeros,
        "bandwidth_error_Bps": zeros,
    }


def random_problem(rng: np.random.Generator, options: PlanningOptions, most_hosts: int = 8) -> Problem:
    """Return a random problem of hosts of one slot; raises `NoFeasiblePlan` when no host can take part."""
    return build(*random_case(rng, Kind(processors=(2, most_hosts), slots=(1,), details=False)), options)


def compare(case: Case, options: PlanningOptions) -> tuple[float, float, float]:
    """Return (optimum, makespan planned, CPU seconds of planning); inf for a refusal."""
    started = time.process_time()
    try:
        found = search(build(*case, options), options)
    except NoFeasiblePlan:
        found = None
    planned = float("inf") if found is None else found.schedule.makespan_s
    spent = time.process_time() - started
    optimum = reference(*case)
    if planned < optimum * (1 - 1e-9):
        raise AssertionError(f"planned {planned} s is less than the optimum {optimum} s")
    return optimum, planned, spent


SIDE = 4096
HOST_COUNTS = (4, 8, 16, 34, 100)


def problem_of(speeds: np.ndarray) -> Problem:
    """Return a run on hosts of these CPU shares that costs nothing but computation."""
    n = len(speeds)
    snapshot = Snapshot(
        hosts=tuple(Host(name=f"h{i}") for i in range(n)),
        conditions=tuple(
            Conditions(availability=Estimate(value=float(s)), memory_bytes=Estimate(value=float("inf")))
            for s in speeds
        ),
        latency_s=np.zeros((n, n)),
        bandwidth_Bps=np.full((n, n), 1e9),
        latency_error_s=np.zeros((n, n)),
        bandwidth_error_Bps=np.zeros((n, n)),
    )
    work = Workload(application="none", size=SIDE, axes=Axes(cut="columns", width=SIDE))
    costs = Costs(seconds_per_row={host.cpu_type: {1: 1.0} for host in snapshot.hosts})
    return build(snapshot, work, costs, PlanningOptions())


def border_ratios(speeds: np.ndarray) -> tuple[float, float]:
    """Return slabs' borders divided by those of columns: in real numbers, and of the planner's whole cells."""
    n, shares = len(speeds), speeds / speeds.sum()
    length, counts = min(column_groups(shares, SIDE, SIDE))
    boxes = in_columns(problem_of(speeds), np.arange(n), counts, PlanningOptions())
    assert boxes is not None
    assert boxes.layout.cells.sum() == SIDE * SIDE
    return (n - 1) * SIDE / length, (n - 1) * SIDE / boxes.layout.border()


def summary(results: list[tuple[float, float, float]]) -> dict[str, object]:
    """Return the distribution of planned / optimum over the grids that have a plan."""
    feasible = [one for one in results if one[0] < float("inf")]
    ratios = np.array([p / o for o, p, _ in feasible if p < float("inf")])
    spent = np.array([s for _, _, s in feasible]) * 1e3
    limits = {
        "optimal": 1 + 1e-9,
        "within_1_percent": 1.01,
        "within_3_percent": 1.03,
        "within_5_percent": 1.05,
    }
    return {
        "grids": len(feasible),
        "infeasible_grids": len(results) - len(feasible),
        "feasible_refused": len(feasible) - len(ratios),
        **{name: float((ratios <= limit).sum() / max(len(feasible), 1)) for name, limit in limits.items()},
        "worst": float(ratios.max()),
        "planning_cpu_ms": {f"p{q}": float(np.percentile(spent, q)) for q in (50, 90, 99, 100)},
    }


def compare_plans(
    *,
    kind: Literal["plain", "full", "sparse", "medium", "lossy"] = "full",
    grids: int = 300,
    seed: int = 2026,
    json: bool = False,
) -> None:
    """Compare plans with the optimum.

    grids: feasible grids to compare
    """
    rng, options = np.random.default_rng(seed), PlanningOptions()
    results: list[tuple[float, float, float]] = []
    while sum(o < float("inf") for o, _, _ in results) < grids:
        results.append(compare(random_case(rng, KINDS[kind]), options))
    print_document(summary(results), as_json=json)


def halo_cuts(*, pools: int = 200, seed: int = 1) -> None:
    """Compare borders of slabs and of columns."""
    rng, rows = np.random.default_rng(seed), []
    for hosts in HOST_COUNTS:
        drawn = [np.sort(rng.uniform(0.05, 1, hosts))[::-1] for _ in range(pools)]
        real, whole = np.array([border_ratios(speeds) for speeds in drawn]).T
        rows.append((hosts, float(np.median(real)), *map(float, np.quantile(whole, (0.5, 0.1, 0.9)))))
    table(("hosts", "real numbers", "whole cells", "10 %", "90 %"), rows)


PARTS = (compare_plans, halo_cuts)
