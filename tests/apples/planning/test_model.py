"""The performance model against cases worked out by hand (§3.1)."""

import math
from dataclasses import replace

import numpy as np
import pytest

from apples.model.template import Costs
from apples.planning.chains import Chains
from apples.planning.model import rank_lines
from apples.planning.planningoptions import PlanningOptions

PAPER, EXCHANGE = PlanningOptions(model="paper"), PlanningOptions(model="exchange")

LATENCY = np.array([[0, 0.1, 9], [0.1, 0, 0.3], [9, 0.3, 0]])
BANDWIDTH = np.array([[1e9, 10, 1], [10, 1e9, 30], [1, 30, 1e9]])


@pytest.fixture
def line_of_three(pool):
    """h0 - h1 - h2: links of 10 and 30 bytes/s, 0.1 s and 0.3 s; 5 messages and 120 bytes to a neighbour."""
    snapshot = pool.snapshot([1.0, 0.5, 1.0], latency=LATENCY, bandwidth=BANDWIDTH)
    workload = pool.workload(10, messages=5, bytes_exchanged=120)
    return pool.problem(snapshot, workload)


def communicate(problem, chain, options):
    return rank_lines(problem, Chains.of([chain]), options).communicate


def test_paper_communication_sums_bandwidths_and_latencies_of_both_sides(line_of_three):
    # The one in the middle moves twice 120 bytes over 10 + 30 bytes/s and waits 5 times 0.1 + 0.3 s;
    # the ends have one neighbour: 120/10 + 5·0.1 and 120/30 + 5·0.3.
    assert communicate(line_of_three, [0, 1, 2], PAPER) == pytest.approx([12.5, 8.0, 5.5])


def test_exchange_takes_the_slower_side_whole(line_of_three):
    # Two transfers share the interface of the one in the middle: 2·120/10 + 5·0.1 and 2·120/30 + 5·0.3.
    assert communicate(line_of_three, [0, 1, 2], EXCHANGE) == pytest.approx([24.5, 24.5, 9.5])


def test_two_hosts_have_their_interfaces_to_themselves(line_of_three):
    assert communicate(line_of_three, [0, 1], EXCHANGE) == pytest.approx([12.5, 12.5])


def test_rank_order_decides_which_links_are_crossed(line_of_three):
    assert communicate(line_of_three, [0, 2, 1], EXCHANGE) == pytest.approx([285, 285, 9.5])


def test_slots_of_a_host_that_are_apart_crowd_its_interface(pool):
    network = np.array([[1e9, 10], [10, 1e9]])
    snapshot = pool.snapshot([1, 1], slots=2, latency=np.zeros((2, 2)), bandwidth=network)
    problem = pool.problem(snapshot, pool.workload(10, messages=1, bytes_exchanged=120))
    together, apart = [0, 1, 2, 3], [0, 2, 1, 3]
    assert communicate(problem, together, EXCHANGE) == pytest.approx([0, 12, 12, 0], abs=1e-6)
    assert communicate(problem, apart, EXCHANGE) == pytest.approx([36, 36, 36, 36])


def slowed(problem, chain, options=EXCHANGE):
    return rank_lines(problem, Chains.of([chain]), options).coupling


def test_ranks_in_short_iterations_go_on_only_while_all_have_their_cpus(pool):
    problem = pool.problem(pool.snapshot([1.0, 0.5, 0.8]), pool.workload(30), pool.costs(1e-9))
    assert slowed(problem, [0, 1, 2]) == pytest.approx([1 / (0.5 * 0.8), 1 / 0.8, 1 / 0.5], rel=1e-3)


def test_only_absence_by_other_processes_delays_beside_a_quota(pool):
    snapshot = pool.snapshot([1.0, 0.4, 0.5])
    limited = tuple(
        replace(one, cpu_limit=limit)
        for one, limit in zip(snapshot.conditions, [math.inf, 0.5, 0.5], strict=True)
    )
    snapshot = replace(snapshot, conditions=limited)
    problem = pool.problem(snapshot, pool.workload(30), pool.costs(1e-9))
    assert slowed(problem, [0, 1, 2]) == pytest.approx([1 / 0.8, 1.0, 1 / 0.8], rel=1e-3)
    problem = pool.problem(snapshot.for_polling_ranks(), pool.workload(30), pool.costs(1e-9))
    assert slowed(problem, [0, 1, 2]) == pytest.approx([1 / 0.2, 1 / 0.5, 1 / 0.4], rel=1e-3)


def test_long_iterations_average_over_many_time_slices(pool):
    problem = pool.problem(pool.snapshot([1.0, 0.5, 0.8]), pool.workload(30), pool.costs(10.0))
    assert slowed(problem, [0, 1, 2]) == pytest.approx([1, 1, 1], rel=1e-3)


def test_half_a_slice_of_waiting_where_an_iteration_is_a_slice_long(pool):
    # 30 rows on 1.5 CPUs in one iteration of 4 ms: the other's share counts to the power of one half.
    problem = pool.problem(pool.snapshot([1.0, 0.5]), pool.workload(30), pool.costs(4e-3 * 1.5 / 30))
    assert slowed(problem, [0, 1]) == pytest.approx([2**0.5, 1.0])


def test_what_is_waited_falls_with_the_square_of_an_iteration_that_takes_many_slices(pool):
    # 10 slices: what is of the order of a slice in an iteration is priced with its messages.
    problem = pool.problem(pool.snapshot([1.0, 0.5]), pool.workload(30), pool.costs(4e-2 * 1.5 / 30))
    assert slowed(problem, [0, 1]) == pytest.approx([2 ** (1 / 101), 1.0])


def test_nobody_waits_on_idle_hosts_nor_in_the_paper_s_model(pool):
    idle = pool.problem(pool.snapshot([1.0, 1.0]), pool.workload(30), pool.costs(1e-9))
    busy = pool.problem(pool.snapshot([1.0, 0.5]), pool.workload(30), pool.costs(1e-9))
    assert slowed(idle, [0, 1]).tolist() == [1.0, 1.0]
    assert slowed(busy, [0, 1], PAPER).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("options", [PAPER, EXCHANGE])
def test_rank_alone_has_nobody_to_talk_to(line_of_three, options):
    assert communicate(line_of_three, [1], options) == [0.0]


def test_links_may_differ_by_direction(pool):
    snapshot = pool.snapshot([1, 1], latency=[[0, 2], [7, 0]], bandwidth=[[1, 1], [1, 1]])
    problem = pool.problem(snapshot, pool.workload(10, messages=1))
    assert communicate(problem, [0, 1], EXCHANGE) == pytest.approx([2, 7])


def test_chains_of_different_lengths_do_not_touch_each_other(line_of_three):
    together = rank_lines(line_of_three, Chains.of([[0, 1], [2], [2, 1, 0]]), EXCHANGE).communicate
    assert together == pytest.approx([12.5, 12.5, 0, 9.5, 24.5, 24.5])


def test_compute_is_rows_times_benchmark_over_availability_times_iterations(pool):
    problem = pool.problem(pool.snapshot([0.5]), pool.workload(10, iterations=3), pool.costs(0.2))
    lines = rank_lines(problem, Chains.of([[0]]), PAPER)
    assert lines.seconds(np.array([10.0])) == pytest.approx([10 * 0.2 / 0.5 * 3])


def test_overhead_depends_on_the_number_of_ranks_only(pool):
    costs = pool.costs(constant_s=16.0, per_row_s=-1.5e-3, per_rank2_s=0.094)
    problem = pool.problem(pool.snapshot([1, 0.5, 1]), pool.workload(1000), costs)
    lines = rank_lines(problem, Chains.of([[0, 1], [0, 1, 2]]), PAPER)
    assert lines.fixed - lines.communicate == pytest.approx(
        [16 - 1.5 + 0.094 * 4] * 2 + [14.5 + 0.094 * 9] * 3
    )


def test_row_beyond_memory_costs_a_hundredfold(pool):
    options = PlanningOptions(allow_spill=True)
    problem = pool.problem(
        pool.snapshot([1], memory=4e6), pool.workload(10, bytes_per_row=1e6), options=options
    )
    lines = rank_lines(problem, Chains.of([[0]]), options)
    assert lines.seconds(np.array([4.0])) == pytest.approx([4])
    assert lines.seconds(np.array([6.0])) == pytest.approx([4 + 2 * 100])


@pytest.mark.parametrize("rows", [0.0, 2.5, 4.0, 4.5, 9.0])
def test_rows_by_undoes_seconds_on_both_sides_of_the_bend(pool, rows):
    options = PlanningOptions(allow_spill=True, spill_factor=7)
    workload = pool.workload(10, bytes_per_row=1e6)
    problem = pool.problem(pool.snapshot([0.3, 1], memory=[4e6, np.inf]), workload, options=options)
    lines = rank_lines(problem, Chains.of([[0], [1]]), options)
    assert lines.rows_by(lines.seconds(np.full(2, rows))) == pytest.approx([rows, rows])


def test_fixed_memory_of_a_rank_comes_off_before_its_rows(pool):
    workload = pool.workload(10, bytes_per_row=1e6, bytes_fixed=1.5e6)
    problem = pool.problem(pool.snapshot([1], memory=4e6), workload)
    assert problem.cap[0, 1] == 2


def test_slots_share_a_host_s_cpu_and_memory(pool):
    snapshot = pool.snapshot([1.0], slots=4, capacity=[2.0], memory=8e6)
    problem = pool.problem(snapshot, pool.workload(8, bytes_per_row=1e6))
    assert problem.slope[0, 1:] == pytest.approx([1, 1, 1.5, 2])
    assert problem.cap[0, 1:].tolist() == [8, 4, 2, 2]


def test_benchmarks_by_ranks_on_the_host_are_used(pool):
    costs = Costs(seconds_per_row={"default": {1: 1.0, 3: 1.7}})
    problem = pool.problem(pool.snapshot([1.0], slots=4), pool.workload(8), costs)
    assert problem.slope[0, 1:] == pytest.approx([1.0, 1.0, 1.7, 1.7])


def test_share_above_a_whole_cpu_is_a_whole_cpu(pool):
    assert pool.problem(pool.snapshot([1.3]), pool.workload(8)).share[0, 1] == 1.0
