"""Cost of a plan: 34 to 50,000 hosts, all three orders, every host count, heights by PuLP or by minimax.

    python benchmarks/planning_cost.py [--repeat 15] [--json] [--hosts N]

Each size runs in a process of its own: CPU seconds of a plan (percentiles) and of its document, and the peak memory of
the process. Up to 1,000 hosts, each link differs from all others. 5,000 hosts have their sites' values,
and measured pairs that differ: all pairs in sites of 16, and all pairs of the sites' first hosts, as cliques of sensors
measure them. 50,000 hosts have the values of their 50 sites.

`limits` are plans of 2,000 rows of pmhd3d on the grid of the paper within limits, over plans without (medians of
interleaved pairs), and plans of 60 hosts of which all have speeds, memory and prices of their own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from apples.errors import NoFeasiblePlan
from apples.model.grid import Conditions, Estimate, Grid, Host, LinkRule, Snapshot
from apples.model.gridfile import load_grid_file
from apples.model.limits import AtMost, Limits, parse_limits
from apples.model.pairs import PairValues, listing
from apples.model.snapshotdocument import snapshot_document
from apples.model.template import Costs, Overhead, Workload
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions

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


def spent_ms(run: Callable[[], Any]) -> float:
    """Return the CPU milliseconds of a call; one that refuses counts too."""
    started = time.process_time()
    with suppress(NoFeasiblePlan):
        run()
    return (time.process_time() - started) * 1e3


def timed(count: int, repeat: int) -> dict[str, float]:
    """Return CPU milliseconds of plan (after one to warm up) and document, and peak megabytes."""
    case = setting(count, 1)
    make_plan(*case)
    by_minimax = PlanningOptions(allocation="minimax")
    spent = [
        (spent_ms(lambda: make_plan(*case)), spent_ms(lambda: make_plan(*case, by_minimax)))
        for _ in range(repeat)
    ]
    found = {f"plan_p{q}_cpu_ms": float(np.percentile(spent, q, axis=0)[0]) for q in (10, 50, 90)}
    found["program_p50_cpu_ms"] = float(np.median(np.subtract(*np.transpose(spent))))
    found["peak_MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found | {"document_cpu_ms": spent_ms(lambda: json.dumps(snapshot_document(case[0])))}


def limited(repeat: int) -> dict[str, float]:
    """Return the cost of plans within limits over that of plans without, and CPU seconds of 60 different hosts."""
    file = load_grid_file(Path(__file__).parents[1] / "configs/centurion.yaml")
    workload, costs = file.workload("pmhd3d", 2000), file.applications["pmhd3d"].costs
    assert workload is not None
    assert costs is not None
    case = Snapshot.nominal(file.grid), workload, costs
    four = {
        "at-most": ["switch1=5"],
        "apart": ["c[20-22]"],
        "together": ["c[30-31]"],
        "licences": ["switch2=4"],
    }
    given = {
        "none": {},
        "at_most": {"at-most": ["switch1=5"]},
        "loose_budget": {"price": ["switch1=1"], "budget": ["1000000"]},
        "four": four,
    }
    options = {name: PlanningOptions(limits=parse_limits(values)) for name, values in given.items()}
    make_plan(*case)
    spent = [[spent_ms(partial(make_plan, *case, each)) for each in options.values()] for _ in range(repeat)]
    ratios = np.median(np.array(spent) / np.array(spent)[:, :1], axis=0)
    found = dict(zip([f"{name}_ratio" for name in options], ratios.tolist(), strict=True))
    for name, budget in (("no", None), ("loose", 3.0), ("tight", 2.2)):
        pools = [different_hosts(np.random.default_rng(seed), budget) for seed in range(repeat)]
        seconds = [spent_ms(partial(make_plan, *pool)) / 1e3 for pool in pools]
        found |= {f"different_{name}_budget_p50_s": float(np.median(seconds))}
        found |= {f"different_{name}_budget_max_s": max(seconds)}
    return found


def different_hosts(rng: np.random.Generator, budget: float | None) -> tuple[Snapshot, Workload, Costs]:
    """Return 60 hosts with speeds, memory and prices of their own, of which some go together and some apart."""
    snapshot, workload, _ = setting(60, int(rng.integers(1 << 30)))
    names = [host.name for host in snapshot.hosts]
    limits = Limits(
        at_most=(AtMost(of="s0", hosts=8),),
        together=tuple(",".join(rng.choice(names, 3, replace=False)) for _ in range(4)),
        apart=tuple(",".join(rng.choice(names, 4, replace=False)) for _ in range(4)),
        prices={name: float(price) for name, price in zip(names, rng.uniform(0.5, 5, 60), strict=True)},
        budget=budget,
    )
    costs = Costs(seconds_per_row={"default": {1: 1.0}}, overhead=Overhead(per_rank2_s=0.01))
    return snapshot, replace(workload, size=1500, limits=limits), costs


def in_own_process(count: int, repeat: int) -> dict[str, float]:
    """Return the figures of a size, measured in a new process."""
    command = [sys.executable, __file__, "--hosts", str(count), "--repeat", str(repeat), "--json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(answer.splitlines()[-1])
    return found


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
    result["limits"] = limited(arguments.repeat)
    if arguments.json:
        print(json.dumps(result))
        return 0
    for name, figures in result.items():
        if isinstance(figures, dict):
            print(f"{name:12}" + "".join(f"  {k} {v:.2f}" for k, v in figures.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
