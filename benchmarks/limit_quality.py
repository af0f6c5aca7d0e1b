"""Plans within people's limits against brute force over every distribution of rows, on random small pools.

    python benchmarks/limit_quality.py [--instances 200] [--seed 2026] [--json] [--digest]

Each instance has up to five hosts, couplings between the rows of hosts, limits on hosts and licences, groups that go
together or exclude each other, prices with a budget, and a deadline. Ranks do not exchange, so that the mixed-integer
program is the model itself. Compares the optimum of the program and of the planner with brute force, checks every
refusal, and confirms each price by planning again with the limit widened.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
from dataclasses import dataclass, field, replace

import numpy as np

from apples.errors import NoFeasiblePlan
from apples.model.grid import Conditions, Estimate, Host, Snapshot
from apples.model.limits import AtMost, Limits
from apples.model.template import Costs, LinearConstraint, Overhead, Workload
from apples.planning import placement
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import build

Case = tuple[Snapshot, Workload, Costs]


def random_case(rng: np.random.Generator) -> Case:
    """Return a random instance; about a third of them cannot be planned."""
    count, size = int(rng.integers(2, 6)), int(rng.integers(4, 13))
    names = [f"h{i}" for i in range(count)]
    sites = [f"s{i}" for i in rng.integers(0, 2, count)]

    def some() -> str:
        return ",".join(sorted(rng.choice(names, int(rng.integers(1, min(count, 3) + 1)), replace=False)))

    constraints = tuple(
        LinearConstraint(
            name=f"coupling {k}",
            coefficients={n: float(rng.integers(-1, 3)) for n in names},
            bound=float(rng.integers(size // 2, 2 * size)),
        )
        for k in range(int(rng.integers(0, 2)))
    )
    at_most = [AtMost(of=sites[0], hosts=int(rng.integers(1, 3)))] if rng.random() < 0.4 else []
    at_most += [AtMost(of=some(), ranks=int(rng.integers(1, 3)))] if rng.random() < 0.3 else []
    limits = Limits(
        at_most=tuple(at_most),
        together=(some(),) if rng.random() < 0.3 else (),
        apart=(some(),) if rng.random() < 0.3 else (),
        prices={n: float(rng.uniform(0.5, 5)) for n in names},
        budget=float(rng.uniform(0.3, 4) * size / 40) if rng.random() < 0.6 else None,
        deadline=float(rng.uniform(15, 90) * size) if rng.random() < 0.4 else None,
    )
    snapshot = Snapshot(
        hosts=tuple(Host(name=n, site=s, cpu_type=n) for n, s in zip(names, sites, strict=True)),
        conditions=tuple(
            Conditions(availability=Estimate(value=1.0), memory_bytes=Estimate(value=float(m) * 1e9))
            for m in rng.integers(size // 3 + 1, size + 2, count)
        ),
        latency_s=np.zeros((count, count)),
        bandwidth_Bps=np.full((count, count), 1e9),
        latency_error_s=np.zeros((count, count)),
        bandwidth_error_Bps=np.zeros((count, count)),
    )
    workload = Workload(
        application="limits",
        size=size,
        bytes_per_row=1e9,
        min_rows=int(rng.integers(1, 3)),
        constraints=constraints,
        limits=limits,
    )
    overhead = Overhead(constant_s=float(rng.uniform(0, 20)), per_rank2_s=float(rng.uniform(0, 3)))
    seconds = {n: {1: float(s)} for n, s in zip(names, rng.uniform(20, 90, count), strict=True)}
    return snapshot, workload, Costs(seconds_per_row=seconds, overhead=overhead)


def brute_force(case: Case) -> float:
    """Return the shortest makespan over all distributions of the rows, seconds; inf if none keeps all limits."""
    snapshot, workload, costs = case
    hosts, size = snapshot.hosts, workload.size
    best = float("inf")
    for cuts in itertools.combinations(range(size + len(hosts) - 1), len(hosts) - 1):
        edges = (-1, *cuts, size + len(hosts) - 1)
        rows = {h.name: edges[i + 1] - edges[i] - 1 for i, h in enumerate(hosts)}
        if not _keeps(case, rows):
            continue
        used = [n for n, x in rows.items() if x]
        seconds = max(rows[n] * costs.seconds_per_row[n][1] for n in used) + costs.overhead.seconds(
            size, len(used)
        )
        limits = workload.limits
        paid = sum(limits.prices[n] for n in used) * seconds / 3600
        late = limits.deadline is not None and seconds > limits.deadline
        if not late and (limits.budget is None or paid <= limits.budget):
            best = min(best, seconds)
    return best


def _keeps(case: Case, rows: dict[str, int]) -> bool:
    """Return whether rows keep every limit but budget and deadline."""
    snapshot, workload, _ = case
    limits = workload.limits
    used = {n for n, x in rows.items() if x}
    for host, now in zip(snapshot.hosts, snapshot.conditions, strict=True):
        x = rows[host.name]
        if x and not workload.min_rows <= x <= now.memory_bytes.value // workload.bytes_per_row:
            return False
    for c in workload.constraints:
        if sum(c.coefficients[n] * x for n, x in rows.items()) > c.bound:
            return False
    for limit in limits.at_most:
        chosen = {h.name for h in snapshot.hosts if limit.of == h.site or h.name in limit.of.split(",")}
        if len(chosen & used) > min(limit.hosts or 99, limit.ranks or 99):
            return False
    # A host without room for the smallest slab cannot be used, so neither can its group.
    together = [set(group.split(",")) for group in limits.together]
    apart = [set(group.split(",")) for group in limits.apart]
    return all(len(g & used) in (0, len(g)) for g in together) and all(len(g & used) <= 1 for g in apart)


@dataclass(slots=True)
class Tally:
    """Counts over the instances, and the descriptions of disagreements."""

    instances: int = 0
    feasible: int = 0
    refusals: int = 0
    prices: int = 0
    wrong: list[str] = field(default_factory=list)


def examine(case: Case, tally: Tally) -> None:
    """Compare program, planner and brute force on one instance."""
    tally.instances += 1
    optimum, program, planned, plan = brute_force(case), float("inf"), float("inf"), None
    try:
        placed = placement.soonest(build(*case, PlanningOptions()), PlanningOptions()).placement
        program = float("inf") if placed is None else placed.seconds
        plan = make_plan(*case, PlanningOptions(prices=True))
        planned = plan.predicted_s
    except NoFeasiblePlan:
        pass
    tally.feasible += optimum < float("inf")
    tally.refusals += optimum == float("inf")
    for name, value in (("program", program), ("planner", planned)):
        if (value < float("inf")) != (optimum < float("inf")) or abs(value - optimum) > 1e-4 * optimum:
            tally.wrong.append(f"instance {tally.instances}: {name} {value}, brute force {optimum}")
    if plan is not None:
        _confirm_prices(case, plan.prices, planned, tally)


def _confirm_prices(case: Case, prices: tuple[str, ...], planned: float, tally: Tally) -> None:
    """Widen the memory that each price names; the plan must be shorter by as much, or more."""
    snapshot, workload, costs = case
    for sentence in prices:
        if not sentence.startswith("1 GB more on "):
            continue
        name, saved = sentence.split()[4], float(sentence.split()[-2])
        wider = tuple(
            replace(c, memory_bytes=Estimate(value=c.memory_bytes.value + 1e9)) if h.name == name else c
            for h, c in zip(snapshot.hosts, snapshot.conditions, strict=True)
        )
        again = make_plan(replace(snapshot, conditions=wider), workload, costs).predicted_s
        tally.prices += 1
        # The price is in real rows, the plan in whole ones: they differ by less than a row of the slowest host.
        if planned - again < saved - max(costs.seconds_per_row[h.name][1] for h in snapshot.hosts):
            tally.wrong.append(f"instance {tally.instances}: {sentence!r}, but {planned} became {again}")


def pool_case(rng: np.random.Generator) -> Case:
    """Return a pool of 6 to 24 hosts that exchange; half of them have closed links, half of them limits."""
    count = int(rng.integers(6, 25))
    names = [f"h{i:02d}" for i in range(count)]
    closed = np.triu(rng.random((count, count)) < (0.6 if rng.random() < 0.5 else 0.0), 1)
    bandwidth = np.where(closed | closed.T, 0.0, 1e8)
    size = 50 * count
    snapshot = Snapshot(
        hosts=tuple(Host(name=n, site=f"s{i % 3}") for i, n in enumerate(names)),
        conditions=tuple(
            Conditions(availability=Estimate(value=a, error=0.05), memory_bytes=Estimate(value=m))
            for a, m in zip(rng.uniform(0.2, 1, count), rng.uniform(20e6, 150e6, count), strict=True)
        ),
        latency_s=np.full((count, count), 1e-4),
        bandwidth_Bps=bandwidth,
        latency_error_s=np.zeros((count, count)),
        bandwidth_error_Bps=np.zeros((count, count)),
    )
    limits = Limits(
        at_most=(AtMost(of="s0", hosts=2),),
        together=(",".join(rng.choice(names, 2, replace=False)),),
        prices={n: float(p) for n, p in zip(names, rng.uniform(0.5, 5, count), strict=True)},
        budget=float(rng.uniform(0.5, 4)),
    )
    work = Workload(application="limits", size=size, messages=100, bytes_exchanged=1e5, bytes_per_row=1e6)
    costs = Costs(seconds_per_row={"default": {1: 1.0}}, overhead=Overhead(per_rank2_s=0.02))
    return snapshot, replace(work, limits=limits) if rng.random() < 0.5 else work, costs


def digest(cases: list[Case]) -> str:
    """Return a checksum of all plans and refusals; equal inputs have the same on a machine of any speed."""
    whole = hashlib.sha256()
    for case in cases:
        try:
            whole.update(repr(make_plan(*case)).encode())
        except NoFeasiblePlan as error:
            whole.update(str(error).encode())
    return whole.hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--digest", action="store_true", help="print only a checksum of plans and refusals")
    arguments = parser.parse_args()
    rng, tally = np.random.default_rng(arguments.seed), Tally()
    if arguments.digest:
        kinds = (random_case, pool_case)
        print(digest([kinds[k % 2](rng) for k in range(arguments.instances)]))
        return 0
    for _ in range(arguments.instances):
        examine(random_case(rng), tally)
    if arguments.json:
        print(json.dumps({"instances": tally.instances, "feasible": tally.feasible, "wrong": tally.wrong}))
    else:
        print(
            f"{tally.instances} instances, {tally.feasible} feasible, {tally.refusals} refusals, {tally.prices} prices"
        )
        print(
            "\n".join(tally.wrong) or "program and planner equal brute force; refusals and prices confirmed"
        )
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
