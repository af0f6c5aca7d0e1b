"""Cost of a plan: 34 and 1,000 hosts, all three orders, every host count; beside PuLP + CBC per candidate.

    python benchmarks/planning_cost.py [--repeat 15] [--json]

The comparison solves one linear program for each of the same candidates (34 hosts) through PuLP with its CBC solver,
rounds to whole rows, and keeps the cheapest. Prints medians, percentiles, the ratio, and the two makespans. If PuLP has
no CBC (PuLP 4), the comparison uses HiGHS and prints a note.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pulp

from apples.model.grid import Conditions, Estimate, Host, Snapshot
from apples.model.template import Costs, Overhead, Workload
from apples.planning import desirability, linear_program, rank_order
from apples.planning.candidates import enumerate_orders
from apples.planning.chains import Chains
from apples.planning.minimax import whole_rows
from apples.planning.model import rank_lines
from apples.planning.options import PlanningOptions
from apples.planning.planner import make_plan
from apples.planning.problem import build


def setting(count: int, seed: int) -> tuple[Snapshot, Workload, Costs]:
    """Return loaded hosts in sites of about 16 with slow links between sites, memory and array limits."""
    rng = np.random.default_rng(seed)
    sites = np.arange(count) % max(2, count // 16)
    same = sites[:, None] == sites[None, :]
    noise = rng.uniform(0.8, 1.2, (2, count, count))
    latency, bandwidth = np.where(same, 1e-4, 1e-2) * noise[0], np.where(same, 1e8, 1e6) * noise[1]
    snapshot = Snapshot(
        hosts=tuple(Host(name=f"h{i:04d}", site=f"s{s}") for i, s in enumerate(sites)),
        conditions=tuple(
            Conditions(availability=Estimate(value=a, error=0.05), memory_bytes=Estimate(value=m))
            for a, m in zip(rng.uniform(0.2, 1, count), rng.uniform(1e8, 1e9, count), strict=True)
        ),
        latency_s=latency,
        bandwidth_Bps=bandwidth,
        latency_error_s=latency * 0.1,
        bandwidth_error_Bps=bandwidth * 0.1,
    )
    workload = Workload(
        application="benchmark",
        size=6000 if count < 100 else 100_000,
        messages=100,
        bytes_exchanged=1e6,
        bytes_per_row=3e5,
        max_rows=507,
    )
    squared = 0.094 if count < 100 else 5e-4
    overhead = Overhead(constant_s=16.0, per_rank2_s=squared)
    return snapshot, workload, Costs(seconds_per_row={"default": {1: 0.195}}, overhead=overhead)


def lp_for_every_candidate(
    snapshot: Snapshot, workload: Workload, costs: Costs, solver: Any
) -> tuple[int, float]:
    """Return (candidates, best makespan) when each candidate is a linear program of its own."""
    options = PlanningOptions()
    problem = build(snapshot, workload, costs, options)
    position = rank_order.tree_positions(problem)
    best, count = math.inf, 0
    for _, chains in enumerate_orders(problem, desirability.orders(problem).items(), position, options):
        for k in range(len(chains)):
            chain = chains.chain(k)
            lines = rank_lines(problem, Chains.of([chain]), options)
            count += 1
            found = linear_program.allocate(problem, chain, lines, math.inf, solver)
            if found is not None:
                rows = whole_rows(lines, found.rows, problem.size, problem.min_rows)
                best = min(best, float(lines.seconds(rows.astype(np.float64)).max()))
    return count, best


def timed(run: Callable[[], Any], repeat: int) -> dict[str, float]:
    """Return milliseconds of `repeat` runs after one to warm up."""
    run()
    spent = []
    for _ in range(repeat):
        started = time.perf_counter()
        run()
        spent.append((time.perf_counter() - started) * 1e3)
    return {f"p{q}_ms": float(np.percentile(spent, q)) for q in (10, 50, 90)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    small, large = setting(34, 1), setting(1000, 1)
    ours_34 = timed(lambda: make_plan(*small), arguments.repeat)
    ours_1000 = timed(lambda: make_plan(*large), max(3, arguments.repeat // 3))
    cbc = pulp.PULP_CBC_CMD(msg=False) if hasattr(pulp, "PULP_CBC_CMD") else None
    if cbc is not None and not cbc.available():
        cbc = None
    name = "CBC" if cbc is not None else "HiGHS (no CBC in this PuLP)"
    started = time.perf_counter()
    candidates, lp_makespan = lp_for_every_candidate(*small, cbc)
    lp_ms = (time.perf_counter() - started) * 1e3
    plan = make_plan(*small)
    result = {
        "hosts_34": ours_34,
        "hosts_1000": ours_1000,
        "lp_solver": name,
        "lp_candidates": candidates,
        "lp_ms": lp_ms,
        "times_faster": lp_ms / ours_34["p50_ms"],
        "makespan_s": plan.predicted_s,
        "lp_makespan_s": lp_makespan,
    }
    if arguments.json:
        print(json.dumps(result))
        return 0
    for label, figures in (("34 hosts", ours_34), ("1,000 hosts", ours_1000)):
        print(f"{label:12}" + "".join(f"  {k} {v:8.1f}" for k, v in figures.items()))
    print(f"PuLP + {name}, {candidates} candidates: {lp_ms:.0f} ms, {result['times_faster']:.0f} times ours")
    print(f"makespan {plan.predicted_s:.3f} s, by linear programs {lp_makespan:.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
