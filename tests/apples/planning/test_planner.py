"""The planner as a whole: what it chooses, what its options change, what it says of every host."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.errors import NoFeasiblePlan
from apples.planning.candidates import best_of, enumerate_orders
from apples.planning.chains import Chains
from apples.planning.desirability import orders
from apples.planning.planner import make_plan, search
from apples.planning.planningoptions import PAPER, PlanningOptions
from apples.planning.search import improve, neighbourhood


def unused(plan):
    return [left.host for left in plan.left_out if "slots unused" not in left.reason]


def test_same_input_same_plan(pool):
    rng = np.random.default_rng(3)
    snapshot = pool.snapshot(rng.uniform(0.3, 1, 20), error=0.05, sites=list(rng.integers(0, 3, 20)))
    plans = [
        make_plan(snapshot, pool.workload(500, messages=100), pool.costs(per_rank2_s=0.05)) for _ in range(2)
    ]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    "options",
    [
        PlanningOptions(),
        PAPER,
        PlanningOptions(improve=False),
        PlanningOptions(max_ranks=3),
        PlanningOptions(ranks=4),
        PlanningOptions(quantile=0.9),
        PlanningOptions(counts="even", allow_spill=True),
    ],
    ids=["default", "paper", "no search", "max_ranks", "ranks", "quantile", "even"],
)
def test_host_of_the_pool_is_taken_or_left_with_a_reason(pool, options):
    snapshot = pool.snapshot(
        [1.0, 0.0, 0.9, 0.4, 0.8, math.nan, 0.3],
        slots=[2, 1, 1, 4, 1, 1, 2],
        memory=[9e8, 9e8, 0.5e6, 9e8, 9e8, 9e8, 9e8],
        sites=[0, 0, 0, 1, 1, 1, 1],
    )
    work = pool.workload(60, bytes_per_row=1e6, messages=20)
    plan = make_plan(snapshot, work, pool.costs(per_rank2_s=0.5), options)
    assert sorted([name for name, _ in plan.taken] + unused(plan)) == [h.name for h in snapshot.hosts]
    assert [name for name, _ in plan.taken] == list(plan.hosts)
    assert all(left.reason for left in plan.left_out)
    slots = [(a.host, a.slot) for a in plan.assignments]
    assert len(set(slots)) == len(slots)
    for host in snapshot.hosts:
        mine = sum(a.host == host.name for a in plan.assignments)
        spare = [left for left in plan.left_out if left.host == host.name]
        assert len(spare) == (mine < host.slots)
        if 0 < mine < host.slots:
            assert spare[0].reason.startswith(f"{host.slots - mine} of {host.slots} slots unused: ")


def test_search_never_makes_a_schedule_worse(plan_quality):
    rng, options = np.random.default_rng(11), PlanningOptions()
    compared = 0
    while compared < 25:
        try:
            problem = plan_quality.random_problem(rng, options)
        except NoFeasiblePlan:
            continue
        for _, chains in enumerate_orders(problem, orders(problem).items(), None, options):
            found = best_of(problem, chains, options)
            if found is not None:
                compared += 1
                better = improve(problem, found[1], options, turn=True)
                assert better.makespan_s <= found[1].makespan_s
                assert better.rows.sum() == problem.size
                assert len(set(better.chain.tolist())) == len(better.chain)


@pytest.mark.parametrize("turn", [True, False])
def test_neighbourhood_holds_chains_of_distinct_processors_one_move_away(pool, turn):
    problem = pool.problem(pool.snapshot([1.0] * 5), pool.workload(50))
    chains = neighbourhood(problem, np.array([3, 0, 2]), PlanningOptions(), turn=turn)
    seen = [tuple(chains.chain(k).tolist()) for k in range(len(chains))]
    assert all(len(set(c)) == len(c) for c in seen)
    assert {len(c) for c in seen} == {2, 3, 4}
    assert {(0, 2), (3, 2), (3, 0), (1, 0, 2), (3, 0, 2, 1)} <= set(seen)
    assert ((0, 3, 2) in seen) == turn


def test_exact_number_of_ranks_stays_exact_in_the_neighbourhood(pool):
    problem = pool.problem(pool.snapshot([1.0] * 5), pool.workload(50))
    chains = neighbourhood(problem, np.array([3, 0, 2]), PlanningOptions(ranks=3), turn=True)
    assert set(chains.lengths.tolist()) == {3}


@pytest.mark.parametrize("kind", ["plain", "full", "sparse"])
def test_small_pool_plan_equals_brute_force(plan_quality, kind):
    rng, ratios = np.random.default_rng(7), []
    while len(ratios) < 25:
        case = plan_quality.random_case(rng, plan_quality.KINDS[kind])
        optimum, planned, _ = plan_quality.compare(case, PlanningOptions())
        if optimum == math.inf:
            assert planned == math.inf
        else:
            ratios.append(planned / optimum)
    assert max(ratios) <= 1.05
    assert np.mean(np.array(ratios) <= 1.01) >= 0.96


def best_plan(problem, options):
    """Cheapest schedule over all sequences of processors; inf where there is none."""
    best = math.inf
    for n in range(1, problem.processors + 1):
        chains = Chains.of(list(itertools.permutations(range(problem.processors), n)))
        found = best_of(problem, chains, options, below=best)
        best = best if found is None else found[1].makespan_s
    return best


@given(
    shares=st.lists(st.floats(0.2, 1), min_size=1, max_size=3),
    data=st.data(),
    size=st.integers(1, 40),
    min_rows=st.integers(1, 4),
    max_rows=st.none() | st.integers(4, 40),
    bytes_fixed=st.sampled_from([0.0, 3e6]),
)
@settings(deadline=None, max_examples=60)
def test_with_shared_slots_and_tight_limits_a_plan_is_found_where_one_exists(
    pool, shares, data, size, min_rows, max_rows, bytes_fixed
):
    n = len(shares)
    slots = data.draw(st.lists(st.integers(1, 2), min_size=n, max_size=n))
    memory = data.draw(st.lists(st.floats(2e6, 40e6), min_size=n, max_size=n))
    work = pool.workload(
        size, bytes_per_row=1e6, bytes_fixed=bytes_fixed, min_rows=min_rows, max_rows=max_rows
    )
    options, snapshot = PlanningOptions(), pool.snapshot(shares, slots=slots, memory=memory)
    try:
        problem = pool.problem(snapshot, work, pool.costs(per_rank_s=0.3), options)
    except NoFeasiblePlan:
        return
    best, choice = best_plan(problem, options), search(problem, options)
    if best == math.inf:
        assert choice is None
    else:
        found = choice.schedule
        assert found.rows.sum() == size
        assert found.rows.min() >= min_rows
        assert found.makespan_s <= 1.5 * best


def test_options_are_all_read(pool):
    """Every option changes the plan of at least one pool; none is decoration."""
    snapshot = pool.snapshot(
        [1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7],
        error=[0.2, 0, 0.1, 0, 0.2, 0, 0.1],
        sites=[0, 1, 0, 1, 0, 1, 0],
        memory=[20e6, 1e9, 1e9, 20e6, 1e9, 1e9, 1e9],
    )
    work = pool.workload(200, messages=800, bytes_exchanged=1e6, bytes_per_row=1e6)
    base = PlanningOptions(improve=False)
    plain = make_plan(snapshot, work, pool.costs(per_rank2_s=0.2), base)
    for change in (
        {"model": "paper"},
        {"counts": "even"},
        {"allocation": "lp"},
        {"rank_order": "desirability"},
        {"improve": True},
        {"quantile": 0.95},
        {"max_ranks": 2},
        {"ranks": 6},
        {"allow_spill": True, "spill_factor": 1.0},
    ):
        other = make_plan(snapshot, work, pool.costs(per_rank2_s=0.2), replace(base, **change))
        assert other != plain, change
