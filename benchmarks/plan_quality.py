"""The planner against brute force over all host subsets, orders and slabs, on random small grids.

    python benchmarks/plan_quality.py [--grids 300] [--seed 2026] [--json]

Grids have up to 8 hosts in one to three sites, with slow links between sites, uneven CPUs and loads,
memory limits and sometimes an array limit. The brute force evaluates every chain of every subset (mirror images
once) with exact slabs in whole rows. The planner uses the same snapshot. Prints the distribution of
planner / optimum.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time

import numpy as np

from apples.errors import NoFeasiblePlan
from apples.model.grid import Conditions, Estimate, Host, Snapshot
from apples.model.template import Costs, Overhead, Workload
from apples.planning.candidates import best_of
from apples.planning.chains import Chains
from apples.planning.options import PlanningOptions
from apples.planning.planner import choose
from apples.planning.problem import Problem, build


def random_problem(rng: np.random.Generator, options: PlanningOptions, most_hosts: int = 8) -> Problem:
    """Return a random grid and workload; raises `NoFeasiblePlan` when no host can take part."""
    count = int(rng.integers(2, most_hosts + 1))
    sites = rng.integers(0, int(rng.integers(1, 4)), count)
    near_s, far_s = 10 ** rng.uniform(-5, -3.5), 10 ** rng.uniform(-3.5, -1)
    near_Bps, far_Bps = 10 ** rng.uniform(7, 9), 10 ** rng.uniform(5, 7)
    same = sites[:, None] == sites[None, :]
    noise = rng.uniform(0.7, 1.3, (2, count, count))
    size = int(rng.integers(20, 2000))
    row_bytes = 10 ** rng.uniform(5, 6.5)
    memory = row_bytes * size * rng.uniform(0.15, 1.5, count)
    hosts = tuple(Host(name=f"h{i}", cpu_type=f"t{i}", site=f"s{s}") for i, s in enumerate(sites))
    snapshot = Snapshot(
        hosts=hosts,
        conditions=tuple(
            Conditions(availability=Estimate(value=a), memory_bytes=Estimate(value=m))
            for a, m in zip(rng.uniform(0.2, 1.0, count), memory, strict=True)
        ),
        latency_s=np.where(same, near_s, far_s) * noise[0],
        bandwidth_Bps=np.where(same, near_Bps, far_Bps) * noise[1],
        latency_error_s=np.zeros((count, count)),
        bandwidth_error_Bps=np.zeros((count, count)),
    )
    messages = float(rng.integers(50, 1000))
    workload = Workload(
        application="random",
        size=size,
        messages=messages,
        bytes_exchanged=messages * 10 ** rng.uniform(2, 5.5),
        bytes_per_row=row_bytes,
        max_rows=int(size * rng.uniform(0.2, 1.0)) + 1 if rng.random() < 0.4 else None,
    )
    speeds = 10 ** rng.uniform(-2.3, -1) * rng.uniform(0.5, 2.0, count)
    overhead = Overhead(constant_s=rng.uniform(0, 3), per_rank2_s=rng.uniform(0, 0.1))
    costs = Costs(seconds_per_row={f"t{i}": {1: s} for i, s in enumerate(speeds)}, overhead=overhead)
    return build(snapshot, workload, costs, options)


def brute_force(problem: Problem, options: PlanningOptions) -> float:
    """Return smallest makespan in seconds over all subsets, orders and whole slabs; inf where nothing is feasible."""
    best = float("inf")
    for n in range(1, min(problem.processors, problem.size) + 1):
        chains = [c for c in itertools.permutations(range(problem.processors), n) if c[0] <= c[-1]]
        table = np.array(chains, dtype=np.int64)
        found = best_of(problem, Chains(table.ravel(), np.arange(len(table) + 1) * n), options, below=best)
        if found is not None:
            best = found[1].makespan_s
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grids", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rng, options = np.random.default_rng(arguments.seed), PlanningOptions()
    ratios, infeasible, spent = [], 0, 0.0
    while len(ratios) < arguments.grids:
        try:
            problem = random_problem(rng, options)
        except NoFeasiblePlan:
            infeasible += 1
            continue
        optimum = brute_force(problem, options)
        started = time.perf_counter()
        try:
            planned = choose(problem, options).schedule.makespan_s
        except NoFeasiblePlan:
            planned = float("inf")
        spent += time.perf_counter() - started
        if optimum == float("inf"):
            infeasible += 1
            if planned != float("inf"):
                raise AssertionError("the planner claims a plan where brute force finds none")
            continue
        ratios.append(planned / optimum)
    r = np.array(ratios)
    result = {
        "grids": len(r),
        "infeasible_grids_skipped": infeasible,
        "within_5_percent": float((r <= 1.05).mean()),
        "exact": float((r <= 1 + 1e-9).mean()),
        "percentiles": {str(q): float(np.percentile(r, q)) for q in (50, 90, 95, 99, 100)},
        "mean_planning_ms": spent / len(r) * 1e3,
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        print(f"{len(r)} random grids ({infeasible} infeasible ones skipped by both)")
        print(f"optimal: {result['exact']:.1%}   within 5 %: {result['within_5_percent']:.1%}")
        for q, value in result["percentiles"].items():
            print(f"  p{q:>3}  planner / optimum = {value:.4f}")
        print(f"planning took {result['mean_planning_ms']:.1f} ms on average")
    return 0


if __name__ == "__main__":
    sys.exit(main())
