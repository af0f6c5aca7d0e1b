"""Desirability orders by hand, and the rank order that crosses slow links as seldom as possible (§3.2)."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.planning import desirability
from apples.planning.chains import Chains
from apples.planning.groups import groups
from apples.planning.rank_order import is_uniform, spanning_tree, tree_positions

#: h0 is fast and far away, h2 slow and near everybody, h1 in between.
LATENCY = np.array([[0, 5, 4], [5, 0, 1], [4, 1, 0]]) * 1e-3


@pytest.fixture
def trade_off(pool):
    snapshot = pool.snapshot([1.0, 0.8, 0.5], latency=LATENCY, bandwidth=np.full((3, 3), 1e9))
    return pool.problem(snapshot, pool.workload(10, messages=1))


def test_power_is_seconds_per_row(trade_off):
    assert desirability.power(trade_off) == pytest.approx([1, 1.25, 2])


def test_connectivity_is_one_byte_to_and_from_everybody(trade_off):
    assert desirability.connectivity(trade_off) == pytest.approx([18e-3, 12e-3, 10e-3], rel=1e-5)


def test_three_orders_put_different_hosts_first(trade_off):
    orders = {name: order.tolist() for name, order in desirability.orders(trade_off).items()}
    assert orders == {"power": [0, 1, 2], "connectivity": [2, 1, 0], "both": [1, 0, 2]}


def test_equal_hosts_keep_the_grid_s_order(pool):
    problem = pool.problem(pool.snapshot([1.0] * 5), pool.workload(10, messages=1))
    assert all(order.tolist() == [0, 1, 2, 3, 4] for order in desirability.orders(problem).values())


def test_shared_second_slot_is_less_desirable_than_another_host(pool):
    snapshot = pool.snapshot([1.0, 0.9], slots=[2, 1], capacity=[1.0, 0.9])
    problem = pool.problem(snapshot, pool.workload(10))
    assert desirability.orders(problem)["power"].tolist() == [0, 2, 1]


def test_broken_link_makes_a_host_less_desirable_but_not_unsortable(pool):
    latency = np.full((4, 4), 1e-3)
    latency[0, 3] = np.nan
    latency[0, 2] = latency[2, 0] = 2e-3
    problem = pool.problem(pool.snapshot([1.0] * 4, latency=latency), pool.workload(10, messages=1))
    assert desirability.orders(problem)["connectivity"].tolist() == [1, 2, 3, 0]


@given(
    sites=st.lists(st.integers(0, 1), min_size=2, max_size=14).filter(lambda s: len(set(s)) == 2),
    data=st.data(),
)
@settings(deadline=None)
def test_on_two_sites_the_chain_crosses_the_slow_link_once(pool, sites, data):
    noise = data.draw(st.randoms(use_true_random=False))
    n = len(sites)
    same = np.equal.outer(sites, sites)
    latency = np.where(same, 1e-4, 1e-2) * np.array(
        [[noise.uniform(0.5, 2) for _ in range(n)] for _ in range(n)]
    )
    problem = pool.problem(pool.snapshot([1.0] * n, latency=latency), pool.workload(100, messages=10))
    along = np.array(sites)[np.argsort(tree_positions(problem))]
    assert np.count_nonzero(np.diff(along)) == 1


def test_slots_of_one_host_stay_together(pool):
    problem = pool.problem(
        pool.snapshot([1.0] * 3, slots=3, sites=[0, 1, 0]), pool.workload(100, messages=10)
    )
    along = problem.host_of[np.argsort(tree_positions(problem))]
    assert np.count_nonzero(np.diff(along)) == 2


def test_hosts_that_cannot_reach_each_other_still_have_places(pool):
    latency = np.full((4, 4), np.nan)
    problem = pool.problem(pool.snapshot([1.0] * 4, latency=latency), pool.workload(100, messages=10))
    assert sorted(tree_positions(problem)) == [0, 1, 2, 3]


def test_equal_links_leave_nothing_to_order(pool):
    work = pool.workload(10, messages=1)
    assert is_uniform(pool.problem(pool.snapshot([1.0, 0.5]), work))
    assert is_uniform(pool.problem(pool.snapshot([1.0]), work))
    assert not is_uniform(pool.problem(pool.snapshot([1.0] * 3, sites=[0, 0, 1]), work))
    assert not is_uniform(pool.problem(pool.snapshot([1.0, 0.5], slots=2), work))


def test_prefixes_take_the_first_of_the_order_and_keep_the_sequence_of_the_chain():
    order, position = np.array([2, 0, 3, 1]), np.array([3, 2, 1, 0])
    chains = Chains.prefixes(order, np.array([1, 3]), position)
    assert [chains.chain(k).tolist() for k in range(2)] == [[2], [3, 2, 0]]
    plain = Chains.prefixes(order, np.array([2, 3]), None)
    assert [plain.chain(k).tolist() for k in range(2)] == [[2, 0], [2, 0, 3]]


def test_groups_are_the_sites_the_links_show_at_every_level(pool):
    """Two rooms of two on one site, 1 ms apart, and another site of two, 20 ms away."""
    room = np.array([0, 1, 0, 1, 2, 2])
    latency = np.where(np.equal.outer(room, room), 1e-4, 1e-3)
    latency[np.not_equal.outer(room == 2, room == 2)] = 2e-2
    problem = pool.problem(pool.snapshot([1.0] * 6, latency=latency), pool.workload(60, messages=10))
    assert sorted(groups(spanning_tree(problem))) == [[0, 1, 2, 3], [0, 2], [1, 3], [4, 5]]


def test_equally_near_hosts_are_no_groups(pool):
    problem = pool.problem(pool.snapshot([1.0] * 6), pool.workload(60, messages=10))
    assert groups(spanning_tree(problem)) == []
