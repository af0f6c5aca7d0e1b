"""Length of all borders between ranks: slabs against columns of boxes, for random speeds.

    python benchmarks/halo_cuts.py [--pools 200] [--seed 1]

Every rank of a pool gets an area in proportion to its speed, which is uniform between 0.05 and 1. Prints the median,
the 10th and the 90th percentile of the ratio of the borders of slabs to those of columns in a square of 4096 × 4096
whole cells. The boxes are those of the planner. The ratio for areas in real numbers is that of Beaumont, Boudet,
Rastello and Robert (2002).
"""

from __future__ import annotations

import argparse

import numpy as np

from apples.model.cut import Axes
from apples.model.grid import Conditions, Estimate, Host, Snapshot
from apples.model.template import Costs, Workload
from apples.planning.boxcosts import in_columns
from apples.planning.cuts import column_groups
from apples.planning.options import PlanningOptions
from apples.planning.problem import Problem, build

SIDE = 4096
POOLS = (4, 8, 16, 34, 100)


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


def ratios(speeds: np.ndarray) -> tuple[float, float]:
    """Return slabs' borders divided by those of columns: in real numbers, and of the planner's whole cells."""
    n, shares = len(speeds), speeds / speeds.sum()
    length, counts = min(column_groups(shares, SIDE, SIDE))
    boxes = in_columns(problem_of(speeds), np.arange(n), counts, PlanningOptions())
    assert boxes is not None
    assert boxes.layout.cells.sum() == SIDE * SIDE
    return (n - 1) * SIDE / length, (n - 1) * SIDE / boxes.layout.border()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pools", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print(f"{options.pools} pools a row\nhosts  real numbers   whole cells   10 %   90 %")
    for hosts in POOLS:
        drawn = [np.sort(rng.uniform(0.05, 1, hosts))[::-1] for _ in range(options.pools)]
        real, whole = np.array([ratios(speeds) for speeds in drawn]).T
        low, high = np.quantile(whole, (0.1, 0.9))
        print(
            f"{hosts:5}  {np.median(real):12.2f}  {np.median(whole):12.2f}  {low:5.2f}  {high:5.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
