"""Pools with closed links, several starts, and refusals that a mixed-integer program confirms."""

import itertools

import numpy as np
import pytest

from apples.errors import NoFeasiblePlan
from apples.planning import placement
from apples.planning.candidates import host_counts
from apples.planning.planner import make_plan, search
from apples.planning.planningoptions import PlanningOptions


def chain_of_links(order):
    """Return bandwidths of a network whose only links join neighbours of `order`."""
    n = len(order)
    open_ = np.eye(n) * 1e9
    for a, b in itertools.pairwise(order):
        open_[a, b] = open_[b, a] = 1e8
    return open_


@pytest.mark.parametrize("hosts", [8, 14])
def test_planner_on_one_path_of_links_uses_it(pool, hosts):
    order = np.random.default_rng(3).permutation(hosts).tolist()
    snapshot = pool.snapshot(np.linspace(0.3, 1, hosts).tolist(), bandwidth=chain_of_links(order))
    plan = make_plan(snapshot, pool.workload(10 * hosts, messages=1, max_rows=10), pool.costs())
    names = [f"h{i}" for i in order]
    assert list(plan.hosts) in (names, names[::-1])


@pytest.mark.parametrize("seed", range(4))
def test_refusal_of_sparse_pools_is_confirmed(plan_quality, seed):
    rng, options = np.random.default_rng(seed), PlanningOptions()
    kind = plan_quality.Kind(processors=(11, 14), links=(0.1, 0.2), details=False)
    for _ in range(5):
        try:
            problem = plan_quality.build(*plan_quality.random_case(rng, kind), options)
        except NoFeasiblePlan:
            continue
        placed = placement.most_rows(problem, options)
        feasible = placed is not None and placed.rows.sum() >= problem.size
        assert (search(problem, options) is not None) == feasible


def test_counts_of_large_pools_are_a_hundredth_apart(pool):
    problem = pool.problem(pool.snapshot([1.0] * 5000), pool.workload(5000))
    counts = host_counts(problem, PlanningOptions(), 5000)
    assert counts[:512].tolist() == list(range(1, 513))
    assert counts[-1] == 5000
    assert (np.diff(counts) <= counts[:-1] * 0.01 + 1).all()
    assert len(host_counts(problem, PlanningOptions(improve=False), 5000)) == 5000
