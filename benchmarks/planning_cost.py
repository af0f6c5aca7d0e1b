"""Cost of a plan: 34 to 50,000 hosts, all three orders, every host count; beside PuLP + CBC per candidate.

    python benchmarks/planning_cost.py [--repeat 15] [--json] [--hosts N]

Each size runs in a process of its own: CPU seconds of a plan (percentiles) and of its document, and the peak memory of
the process. Up to 1,000 hosts, each link differs from all others. 5,000 hosts have their sites' values,
and measured pairs that differ: all pairs in sites of 16, and all pairs of the sites' first hosts, as cliques of sensors
measure them. 50,000 hosts have the values of their 50 sites.

The comparison solves one linear program for each of the same candidates (34 hosts) through PuLP with its CBC solver,
rounds to whole rows, and keeps the cheapest. If PuLP has no CBC (PuLP 4), it uses HiGHS and prints a note.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pulp

from apples.model.grid import Conditions, Estimate, Grid, Host, LinkRule, Snapshot
from apples.model.pairs import PairValues, listing
from apples.model.snapshotdocument import snapshot_document
from apples.model.template import Costs, Overhead, Workload
from apples.planning import desirability, linear_program, rank_order
from apples.planning.candidates import enumerate_orders
from apples.planning.chains import Chains
from apples.planning.minimax import whole_rows
from apples.planning.model import rank_lines
from apples.planning.options import PlanningOptions
from apples.planning.planner import make_plan
from apples.planning.problem import build

#: Largest pool of which each link differs from all others, and largest one with measured pairs.
DENSE, MEASURED = 1000, 5000


def setting(count: int, seed: int) -> tuple[Snapshot, Workload, Costs]:
    """Return loaded hosts in sites with slow links between sites, memory and array limits."""
    rng = np.random.default_rng(seed)
    sites = np.arange(count) % (max(2, count // 16) if count <= MEASURED else 50)
    links = dense_links(sites, rng) if count <= DENSE else links_by_site(sites, rng)
    snapshot = Snapshot(
        hosts=tuple(Host(name=f"h{i:05d}", site=f"s{s}") for i, s in enumerate(sites)),
        conditions=tuple(
            Conditions(availability=Estimate(value=a, error=0.05), memory_bytes=Estimate(value=m))
            for a, m in zip(rng.uniform(0.2, 1, count), rng.uniform(1e8, 1e9, count), strict=True)
        ),
        **links,
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


def dense_links(sites: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Return links each of which differs from all others."""
    same = sites[:, None] == sites[None, :]
    noise = rng.uniform(0.8, 1.2, (2, len(sites), len(sites)))
    latency, bandwidth = np.where(same, 1e-4, 1e-2) * noise[0], np.where(same, 1e8, 1e6) * noise[1]
    return {
        "latency_s": latency,
        "bandwidth_Bps": bandwidth,
        "latency_error_s": latency * 0.1,
        "bandwidth_error_Bps": bandwidth * 0.1,
    }


def links_by_site(sites: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Return the links of sites; up to `MEASURED` hosts, pairs that cliques of sensors measure differ from them."""
    hosts = tuple(Host(name=f"h{i}", site=f"s{s}") for i, s in enumerate(sites))
    rules = [LinkRule(latency_s=1e-2, bandwidth_Bps=1e6)]
    rules += [LinkRule(ends=(f"s{s}",) * 2, latency_s=1e-4, bandwidth_Bps=1e8) for s in np.unique(sites)]
    latency, bandwidth, _ = Grid(name="benchmark", hosts=hosts, links=tuple(rules)).nominal_links()
    errors = PairValues.same(latency.classes, 0.0)
    values = [latency, bandwidth, errors, errors]
    if len(sites) <= MEASURED:
        cliques = [np.flatnonzero(sites == s) for s in np.unique(sites)]
        cliques.append(np.array([clique[0] for clique in cliques]))
        pairs = [(a, b) for clique in cliques for a in clique.tolist() for b in clique.tolist() if a != b]
        values = listing(values, pairs)
        for k in (0, 1):
            measured = values[k][tuple(np.array(pairs).T)] * rng.uniform(0.8, 1.2, len(pairs))
            values[k], values[k + 2] = (
                values[k].set(pairs, measured),
                values[k + 2].set(pairs, measured * 0.1),
            )
    names = ("latency_s", "bandwidth_Bps", "latency_error_s", "bandwidth_error_Bps")
    return dict(zip(names, values, strict=True))


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


def timed(count: int, repeat: int) -> dict[str, float]:
    """Return CPU milliseconds of plan (after one to warm up) and document, and peak megabytes."""

    def spent_ms(run: Callable[[], Any]) -> float:
        started = time.process_time()
        run()
        return (time.process_time() - started) * 1e3

    case = setting(count, 1)
    make_plan(*case)
    spent = [spent_ms(lambda: make_plan(*case)) for _ in range(repeat)]
    found = {f"plan_p{q}_cpu_ms": float(np.percentile(spent, q)) for q in (10, 50, 90)}
    found["peak_MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found | {"document_cpu_ms": spent_ms(lambda: json.dumps(snapshot_document(case[0])))}


def in_own_process(count: int, repeat: int) -> dict[str, float]:
    """Return the figures of a size, measured in a new process."""
    command = [sys.executable, __file__, "--hosts", str(count), "--repeat", str(repeat), "--json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(answer.splitlines()[-1])
    return found


def compared_with_linear_programs(ours_ms: float) -> dict[str, Any]:
    """Return the cost and the makespan of one linear program for each candidate of 34 hosts."""
    small = setting(34, 1)
    cbc = pulp.PULP_CBC_CMD(msg=False) if hasattr(pulp, "PULP_CBC_CMD") else None
    if cbc is not None and not cbc.available():
        cbc = None
    started = time.perf_counter()
    candidates, lp_makespan = lp_for_every_candidate(*small, cbc)
    lp_ms = (time.perf_counter() - started) * 1e3
    return {
        "lp_solver": "CBC" if cbc is not None else "HiGHS (no CBC in this PuLP)",
        "lp_candidates": candidates,
        "lp_ms": lp_ms,
        "times_faster": lp_ms / ours_ms,
        "makespan_s": make_plan(*small).predicted_s,
        "lp_makespan_s": lp_makespan,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--hosts", type=int, help="measure only this size, in this process")
    arguments = parser.parse_args()
    if arguments.hosts is not None:
        print(json.dumps(timed(arguments.hosts, arguments.repeat)))
        return 0
    result: dict[str, Any] = {
        f"hosts_{count}": in_own_process(count, max(1, arguments.repeat // part))
        for count, part in ((34, 1), (1000, 3), (5000, 5), (50_000, 15))
    }
    result |= compared_with_linear_programs(result["hosts_34"]["plan_p50_cpu_ms"])
    if arguments.json:
        print(json.dumps(result))
        return 0
    for name, figures in result.items():
        if isinstance(figures, dict):
            print(f"{name:12}" + "".join(f"  {k} {v:.1f}" for k, v in figures.items()))
    print(
        f"PuLP + {result['lp_solver']}, {result['lp_candidates']} candidates: {result['lp_ms']:.0f} ms, "
        f"{result['times_faster']:.0f} times ours"
    )
    print(
        f"expected makespan {result['makespan_s']:.3f} s; by linear programs, which take forecasts as certain, "
        f"{result['lp_makespan_s']:.3f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
