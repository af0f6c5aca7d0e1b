"""The planner as a whole: what it chooses, what its options change, what it says of every host."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.errors import NoFeasiblePlan
from apples.planning.baselines import default_plan
from apples.planning.candidates import best_of, enumerate_orders
from apples.planning.chains import Chains
from apples.planning.desirability import orders
from apples.planning.planner import make_plan, search
from apples.planning.planningoptions import PAPER, PlanningOptions
from apples.planning.search import improve, neighbourhood


def unused(plan):
    return [left.host for left in plan.left_out if "slots unused" not in left.reason]


def test_cheapest_plan_splits_rows_by_what_hosts_deliver(pool):
    snapshot = pool.snapshot([1.0, 0.5, 0.25])
    plan = make_plan(snapshot, pool.workload(70), pool.costs(), PlanningOptions(model="paper"))
    assert {a.host: a.rows for a in plan.assignments} == {"h0": 40, "h1": 20, "h2": 10}
    assert plan.predicted_s == pytest.approx(40)


def test_predicted_time_is_the_slowest_rank_s_sum_of_parts(pool):
    snapshot = pool.snapshot([1.0, 0.4, 0.7], sites=[0, 0, 1])
    plan = make_plan(snapshot, pool.workload(100, messages=10), pool.costs(constant_s=3.0))
    assert plan.predicted_s == pytest.approx(max(a.predicted_s for a in plan.assignments))
    assert all(a.overhead_s == 3.0 for a in plan.assignments)
    assert [a.rank for a in plan.assignments] == list(range(len(plan.assignments)))


def test_plan_of_two_sites_puts_slow_hosts_at_the_crossing(pool):
    snapshot = pool.snapshot([1.0, 0.9, 0.5, 0.8], sites=[0, 1, 0, 1])
    work = pool.workload(400, iterations=100, messages=400, bytes_exchanged=5e7)
    costs = pool.costs(0.01, constant_s=2.0, per_rank_s=2.0)
    plan = make_plan(snapshot, work, costs)
    assert [(a.host, a.rows) for a in plan.assignments] == [("h1", 150), ("h3", 51), ("h2", 32), ("h0", 167)]
    assert plan.predicted_s == pytest.approx(178.042, abs=0.005)
    by_power = make_plan(snapshot, work, costs, PlanningOptions(rank_order="desirability", improve=False))
    assert by_power.predicted_s == pytest.approx(230.00, abs=0.005)
    assert default_plan(snapshot, work, costs).predicted_s == pytest.approx(314.00, abs=0.005)


def test_overhead_that_grows_with_ranks_keeps_the_plan_small(pool):
    few = make_plan(pool.snapshot([1.0] * 8), pool.workload(64), pool.costs(per_rank2_s=1.0))
    many = make_plan(pool.snapshot([1.0] * 8), pool.workload(64), pool.costs(per_rank_s=-1.0, constant_s=20))
    assert len(few.hosts) == 3
    assert len(many.hosts) == 8


def test_hosts_behind_a_slow_link_are_left_where_the_exchange_costs_more_than_they_bring(pool):
    snapshot = pool.snapshot([1.0] * 6, sites=[0, 0, 0, 0, 1, 1])
    plan = make_plan(snapshot, pool.workload(100, messages=5000), pool.costs())
    assert set(plan.hosts) == {"h0", "h1", "h2", "h3"}
    reasons = {left.host: left.reason for left in plan.left_out}
    assert "2 times as long" in reasons["h4"]
    assert "slowest exchange +49.5 s" in reasons["h4"]


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


def test_taken_host_says_what_it_does_and_when_it_is_full(pool):
    snapshot = pool.snapshot([1.0, 0.5], memory=[10e6, math.inf])
    plan = make_plan(snapshot, pool.workload(70, bytes_per_row=1e6), pool.costs())
    assert dict(plan.taken) == {
        "h0": "10 rows in 1 rank at 1.00 of a CPU each, 1st of 2 by speed; holds no more",
        "h1": "60 rows in 1 rank at 0.50 of a CPU each, 2nd of 2 by speed",
    }


def test_slots_share_the_cpus_a_host_has_left(pool):
    """Four slots but two CPUs' worth: beyond two ranks nothing is gained, and each costs overhead."""
    snapshot = pool.snapshot([1.0], slots=4, capacity=[2.0])
    plan = make_plan(snapshot, pool.workload(40), pool.costs(per_rank_s=0.1))
    assert plan.rows == (20, 20)
    assert plan.predicted_s == pytest.approx(20.2)


def test_slots_that_cannot_hold_a_slab_do_not_hide_a_plan(pool):
    """Of h0's four slots two can hold a slab at once: a prefix with three of them could not run."""
    snapshot = pool.snapshot([0.25, 1.0], slots=[4, 1], memory=[7e6, 1e9], capacity=[1.0, 1.0])
    plan = make_plan(snapshot, pool.workload(20, bytes_per_row=1e6, min_rows=3), pool.costs())
    assert sorted((a.host, a.rows) for a in plan.assignments) == [("h0", 3), ("h0", 3), ("h1", 14)]
    assert plan.left_out[0].reason == "2 of 4 slots unused: no room for one more slab of 3 rows"


def test_fixed_memory_of_slots_does_not_hide_a_plan(pool):
    """Each rank takes 5 MB before its first row: 18 rows fit one rank a host, not two."""
    snapshot = pool.snapshot([1.0, 1.0], slots=2, memory=15e6, capacity=[2.0, 2.0])
    plan = make_plan(snapshot, pool.workload(20, bytes_per_row=1e6, bytes_fixed=5e6), pool.costs())
    assert plan.rows == (10, 10)
    assert plan.hosts == ("h0", "h1")


def test_slabs_outgrow_memory_only_when_allowed_and_only_when_that_pays(pool):
    snapshot = pool.snapshot([1.0, 0.5], memory=[10e6, 20e6])
    fits, spills = pool.workload(30, bytes_per_row=1e6), pool.workload(33, bytes_per_row=1e6)
    allowed = PlanningOptions(allow_spill=True)
    assert sorted(make_plan(snapshot, fits, pool.costs(), allowed).rows) == [10, 20]
    with pytest.raises(NoFeasiblePlan, match="33 rows do not fit: 2 hosts can hold 30 rows"):
        make_plan(snapshot, spills, pool.costs())
    plan = make_plan(snapshot, spills, pool.costs(), allowed)
    assert sum(plan.rows) == 33
    assert "more than fits in memory" in dict(plan.taken)["h0"]


def test_spilling_respects_the_array_limit(pool):
    snapshot = pool.snapshot([1.0, 0.5], memory=[5e6, 5e6])
    work = pool.workload(30, bytes_per_row=1e6, max_rows=16)
    plan = make_plan(snapshot, work, pool.costs(), PlanningOptions(allow_spill=True))
    assert sum(plan.rows) == 30
    assert max(plan.rows) <= 16


def test_careful_quantile_prefers_the_steady_host(pool):
    snapshot = pool.snapshot([0.7, 0.6], error=[0.3, 0.01])
    work, costs = pool.workload(100), pool.costs()
    bold = make_plan(snapshot, work, costs, PlanningOptions(max_ranks=1))
    careful = make_plan(snapshot, work, costs, PlanningOptions(max_ranks=1, quantile=0.9))
    assert (bold.hosts, careful.hosts) == (("h0",), ("h1",))
    assert careful.high_s < bold.high_s


def test_careful_quantile_gives_the_steady_host_more_rows(pool):
    snapshot = pool.snapshot([0.6, 0.6], error=[0.2, 0.0])
    careful = make_plan(snapshot, pool.workload(100), pool.costs(), PlanningOptions(quantile=0.9))
    rows = {a.host: a.rows for a in careful.assignments}
    assert rows["h1"] > 55


@pytest.mark.parametrize("quantile", [0.01, 0.99])
def test_errors_larger_than_the_forecast_still_leave_a_plan(pool, quantile):
    snapshot = pool.snapshot([0.5, 0.4], error=[2.0, 3.0])
    plan = make_plan(snapshot, pool.workload(100), pool.costs(), PlanningOptions(quantile=quantile))
    assert sum(plan.rows) == 100
    assert plan.low_s <= plan.predicted_s <= plan.high_s < math.inf


def test_error_nobody_knows_is_no_certainty(pool):
    """h0 has one sample, so its error is NaN: it counts like the pool's worst, not like none."""
    snapshot = pool.snapshot([0.61, 0.6, 0.2], error=[math.nan, 0.01, 0.3])
    plan = make_plan(snapshot, pool.workload(100), pool.costs(), PlanningOptions(max_ranks=1, quantile=0.9))
    assert plan.hosts == ("h1",)


def test_ranks_and_max_ranks_are_kept(pool):
    snapshot, work, costs = pool.snapshot([1.0] * 6), pool.workload(60), pool.costs(per_rank2_s=1.0)
    assert len(make_plan(snapshot, work, costs, PlanningOptions(ranks=5)).rows) == 5
    assert len(make_plan(snapshot, work, costs, PlanningOptions(max_ranks=2)).rows) == 2


def test_broken_link_is_not_crossed(pool):
    """h0 and h2 only reach each other through h1."""
    latency = np.full((3, 3), 1e-4)
    bandwidth = np.full((3, 3), 1e8)
    bandwidth[0, 2] = 0.0
    snapshot = pool.snapshot([1.0] * 3, latency=latency, bandwidth=bandwidth)
    plan = make_plan(snapshot, pool.workload(99, messages=1, bytes_exchanged=1e3), pool.costs())
    assert [a.host for a in plan.assignments][1] == "h1"
    assert len(plan.rows) == 3


def test_islands_that_do_not_reach_each_other_are_planned_apart(pool):
    """Alternating sites of two, no link between: every prefix of an order would cross."""
    sites = np.array([0, 1, 0, 1])
    latency = np.where(np.equal.outer(sites, sites), 1e-4, math.nan)
    snapshot = pool.snapshot([1.0, 0.9, 0.8, 0.7], latency=latency)
    work = pool.workload(100, messages=1, max_rows=60)
    plan = make_plan(snapshot, work, pool.costs(), PlanningOptions(improve=False))
    assert set(plan.hosts) == {"h0", "h2"}
    assert {left.reason for left in plan.left_out} == {"with it the work cannot be placed"}


@pytest.mark.parametrize("model", ["paper", "exchange"])
def test_no_link_works_and_one_host_is_enough(pool, model):
    snapshot = pool.snapshot([1.0] * 3, latency=np.zeros((3, 3)), bandwidth=np.zeros((3, 3)))
    work = pool.workload(9, messages=1, bytes_exchanged=10)
    plan = make_plan(snapshot, work, pool.costs(), PlanningOptions(model=model))
    assert plan.rows == (9,)


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


def test_busy_host_is_left_out_where_all_would_wait_for_its_start(pool):
    snapshot, workload = pool.snapshot([1.0, 1.0, 0.05]), pool.workload(100)
    free = make_plan(snapshot, workload, pool.costs())
    assert free.hosts == ("h0", "h1", "h2")
    costs = replace(pool.costs(constant_s=2.0), start_cpu_s=1.0)
    plan = make_plan(snapshot, workload, costs)
    assert plan.hosts == ("h0", "h1")
    assert [a.overhead_s for a in plan.assignments] == [3.0, 3.0]
    assert plan.predicted_s == pytest.approx(50 + 3.0)
    (left,) = plan.left_out
    assert "overhead +19 s" in left.reason


def test_papers_model_takes_starts_and_messages_for_overhead(pool):
    options = PlanningOptions(model="paper")
    without, told = (
        make_plan(
            pool.snapshot([1.0, 0.05]),
            pool.workload(100, messages=10),
            replace(pool.costs(), start_cpu_s=seconds, message_cpu_s=seconds / 100),
            options,
        )
        for seconds in (0.0, 9.0)
    )
    assert told.hosts == without.hosts
    assert [a.rows for a in told.assignments] == [a.rows for a in without.assignments]
    assert told.predicted_s == pytest.approx(without.predicted_s + 9.0 + 10 * 0.09)


def test_host_that_is_late_for_its_messages_gets_fewer_rows(pool):
    snapshot, workload = pool.snapshot([1.0, 0.2]), pool.workload(120, messages=10)
    costs = replace(pool.costs(), message_cpu_s=0.2)
    free, told = make_plan(snapshot, workload, pool.costs()), make_plan(snapshot, workload, costs)
    assert [a.rows for a in free.assignments] == [100, 20]
    # Messages cost 2 s on the first, 10 s on the second: 102 + 2 s and 18·5 + 10 s, where 101 rows left 105 s.
    assert {a.host: a.overhead_s for a in told.assignments} == {"h0": 2.0, "h1": 10.0}
    assert [a.rows for a in told.assignments] == [102, 18]
    # Waiting for the other's CPU adds what it adds to any chain, and is no part of the messages.
    assert [a.compute_s + a.overhead_s for a in told.assignments] == pytest.approx([102 + 2.0, 18 * 5 + 10.0])
    assert told.predicted_s == pytest.approx(max(a.predicted_s for a in told.assignments))


def test_reductions_wait_for_the_slowest_link_of_the_chain(pool):
    latency = np.array([[0, 0.001, 0.1], [0.001, 0, 0.1], [0.1, 0.1, 0]])
    snapshot, workload = pool.snapshot([1.0, 1.0, 1.0], latency=latency), pool.workload(120, messages=10)
    costs = replace(pool.costs(), reduction_hops=30.0)
    assert len(make_plan(snapshot, workload, pool.costs()).hosts) == 3
    plan = make_plan(snapshot, workload, costs)
    # 10 · 30 latencies of 0.1 s would be 30 s, of 0.001 s they are 0.3 s.
    assert plan.hosts == ("h0", "h1")
    assert [a.overhead_s for a in plan.assignments] == pytest.approx([0.3, 0.3])
    (left,) = plan.left_out
    assert "reductions +29.7 s" in left.reason


def test_jitter_takes_as_long_on_every_host(pool):
    costs = replace(pool.costs(), jitter_s=0.1)
    plan = make_plan(pool.snapshot([1.0, 0.5]), pool.workload(120, messages=10), costs)
    assert [a.rows for a in plan.assignments] == [80, 40]
    assert [a.overhead_s for a in plan.assignments] == pytest.approx([10 * 0.1 / math.sqrt(2 * math.pi)] * 2)
    paper = make_plan(
        pool.snapshot([1.0, 0.5]), pool.workload(120, messages=10), costs, PlanningOptions(model="paper")
    )
    assert [a.overhead_s for a in paper.assignments] == [0.0, 0.0]


def test_rank_alone_has_no_messages(pool):
    costs = replace(pool.costs(), message_cpu_s=0.2, reduction_hops=30.0, jitter_s=1.0)
    plan = make_plan(pool.snapshot([0.5]), pool.workload(10, messages=10), costs)
    assert [a.overhead_s for a in plan.assignments] == [0.0]
