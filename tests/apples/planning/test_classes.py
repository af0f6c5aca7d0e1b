"""Hosts of one class are planned as the same hosts with a row of links each."""

from dataclasses import replace

import numpy as np
import pytest

from apples.errors import NoFeasiblePlan
from apples.model.grid import Conditions, Estimate, Grid, Host, LinkRule, Snapshot
from apples.model.limits import Limits
from apples.model.pairs import HostClasses, PairValues, listing
from apples.model.template import Costs, LinearConstraint, Overhead, Workload
from apples.planning.candidates import best_of
from apples.planning.chains import Chains
from apples.planning.desirability import connectivity
from apples.planning.model import rank_lines
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PAPER, PlanningOptions
from apples.planning.problem import UNUSABLE_S, build
from apples.planning.rank_order import islands, spanning_tree

QUANTITIES = ("latency_s", "bandwidth_Bps", "latency_error_s", "bandwidth_error_Bps")


def by_classes(rng, most=14):
    """Return a snapshot of hosts in classes with single pairs, and the same with every host for itself."""
    count, kinds = int(rng.integers(3, most)), int(rng.integers(1, 4))
    kind = np.unique(rng.integers(0, kinds, count), return_inverse=True)[1]
    kinds = int(kind.max()) + 1
    keys = np.unique(rng.integers(0, count**2, int(rng.integers(0, 3))))
    keys = keys[keys // count != keys % count]
    classes = HostClasses(count, kind, np.bincount(kind), keys)

    def pairs(low, high):
        draw = [10 ** rng.uniform(low, high, size) for size in ((kinds, kinds), kinds, len(keys))]
        return PairValues(classes, *draw)

    latency, bandwidth = pairs(-5, -2), pairs(5, 8)
    nothing = PairValues.same(classes, 0.0)
    snapshot = Snapshot(
        hosts=tuple(Host(name=f"h{i}", slots=int(rng.choice([1, 1, 2]))) for i in range(count)),
        conditions=tuple(
            Conditions(availability=Estimate(value=a), memory_bytes=Estimate(value=1e9 * m))
            for a, m in zip(rng.choice([0.3, 0.5, 1.0], count), rng.choice([1, 4], count), strict=True)
        ),
        latency_s=latency,
        bandwidth_Bps=bandwidth,
        latency_error_s=nothing,
        bandwidth_error_Bps=nothing,
    )
    assert snapshot.latency_s.classes.kind is not None
    return snapshot, replace(snapshot, **{name: np.asarray(getattr(snapshot, name)) for name in QUANTITIES})


def case(rng):
    size = int(rng.integers(20, 400))
    workload = Workload(
        application="w", size=size, messages=200, bytes_exchanged=1e7, bytes_per_row=2e7, iterations=50
    )
    costs = Costs(seconds_per_row={"default": {1: 0.02}}, overhead=Overhead(per_rank2_s=0.01))
    return workload, costs


def predicted(snapshot, workload, costs):
    try:
        return make_plan(snapshot, workload, costs).predicted_s
    except NoFeasiblePlan as refusal:
        return str(refusal)


@pytest.mark.parametrize("seed", range(30))
def test_plan_by_classes_is_that_of_single_hosts(seed):
    """Small pools are searched completely; in larger ones equal hosts are tried in another order."""
    rng = np.random.default_rng(seed)
    some, each = by_classes(rng)
    workload, costs = case(rng)
    expected, found = (predicted(snapshot, workload, costs) for snapshot in (each, some))
    exact = sum(host.slots for host in some.hosts) <= 10
    if isinstance(expected, float):
        expected = pytest.approx(expected, rel=1e-12 if exact else 0.03)
    assert found == expected


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("options", [PlanningOptions(), PAPER], ids=["apples", "paper"])
def test_chain_by_classes_costs_what_it_does_of_single_hosts(seed, options):
    rng = np.random.default_rng(seed)
    some, each = (build(s, *case(np.random.default_rng(1)), options) for s in by_classes(rng))
    chains = Chains.of([rng.permutation(some.processors)[:n] for n in range(1, some.processors + 1)])
    one, other = rank_lines(some, chains, options), rank_lines(each, chains, options)
    assert np.array_equal(one.fixed, other.fixed)
    assert np.array_equal(one.slope, other.slope)


@pytest.mark.parametrize("seed", range(10))
def test_orders_and_tree_by_classes_are_those_of_single_hosts(seed):
    rng = np.random.default_rng(seed)
    some, each = (build(s, *case(np.random.default_rng(1)), PlanningOptions()) for s in by_classes(rng))
    assert connectivity(some) == pytest.approx(connectivity(each))
    weights = [sum(w for *_, w in spanning_tree(p).edges(data="weight")) for p in (some, each)]
    assert weights[0] == pytest.approx(weights[1], rel=0.02)


def test_many_chains_priced_in_steps_give_the_same_best(monkeypatch):
    hosts = tuple(Host(name=f"n{k:04d}", site=f"s{k % 40}") for k in range(400))
    rules = (LinkRule(latency_s=1e-2, bandwidth_Bps=1e6),)
    near = tuple(LinkRule(ends=(f"s{k}",) * 2, latency_s=1e-4, bandwidth_Bps=1e8) for k in range(40))
    snapshot = Snapshot.nominal(Grid(name="g", hosts=hosts, links=rules + near))
    workload = Workload(application="w", size=5000, messages=100, bytes_exchanged=1e6, max_rows=300)
    problem = build(snapshot, workload, Costs(seconds_per_row={"default": {1: 0.2}}), PlanningOptions())
    chains = Chains.prefixes(np.arange(400), np.arange(1, 401), None)
    found = []
    for members in (10**9, 1000):
        monkeypatch.setattr("apples.planning.candidates.MANY_MEMBERS", members)
        found.append(best_of(problem, chains, PlanningOptions()))
    assert found[0][0] == found[1][0]
    assert found[0][1].makespan_s == found[1][1].makespan_s
    plan = make_plan(snapshot, workload, Costs(seconds_per_row={"default": {1: 0.2}}))
    assert sum(plan.rows) == 5000


@pytest.mark.parametrize("tie", ["price", "constraint"])
def test_hosts_with_other_restrictions_are_not_alike(tie):
    snapshot = Snapshot.nominal(Grid(name="g", hosts=tuple(Host(name=f"h{i}", slots=1) for i in range(300))))
    workload, costs = case(np.random.default_rng(0))
    assert len(np.unique(build(snapshot, workload, costs, PlanningOptions()).alike)) == 1
    if tie == "price":
        workload = replace(workload, limits=Limits(prices={"h[0-99]": 1.0, "h[100-299]": 2.0}))
    else:
        licences = LinearConstraint(name="disk", coefficients={f"h{i}": 1.0 for i in range(100)}, bound=9.0)
        workload = replace(workload, constraints=(licences,))
    alike = build(snapshot, workload, costs, PlanningOptions()).alike
    assert len(np.unique(alike)) == 2
    assert alike[0] == alike[99] != alike[100] == alike[299]


def test_shortest_run_counts_slots_that_hosts_have():
    hosts = tuple(Host(name=f"h{n}", slots=n) for n in (1, 16))
    workload, costs = case(np.random.default_rng(0))
    problem = build(Snapshot.nominal(Grid(name="g", hosts=hosts)), workload, costs, PlanningOptions())
    row_s = costs.seconds_per_row["default"][1] * workload.iterations
    assert problem.shortest_s == pytest.approx(workload.size * row_s / 17 + problem.overhead[0])


def test_broken_pair_leaves_other_hosts_of_its_classes_joined():
    hosts = tuple(Host(name=f"h{i}", slots=1, site="s" if i < 150 else "t") for i in range(300))
    between = LinkRule(ends=("s", "t"), latency_s=1e-2, bandwidth_Bps=1e6)
    nominal = Snapshot.nominal(Grid(name="g", hosts=hosts, links=(between,)))
    listed = listing([getattr(nominal, name) for name in QUANTITIES], [(0, 150), (150, 0)])
    listed[1] = listed[1].set([(0, 150), (150, 0)], [0.0, 0.0])
    snapshot = replace(nominal, **dict(zip(QUANTITIES, listed, strict=True)))
    workload, costs = case(np.random.default_rng(0))
    problem = build(snapshot, workload, costs, PlanningOptions())
    assert problem.side[0, 150] == UNUSABLE_S
    assert [island.sum() for island in islands(problem)] == [300]
