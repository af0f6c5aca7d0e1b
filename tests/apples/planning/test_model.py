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

#: h0 - h1 - h2: links of 10 and 30 bytes/s, 0.1 s and 0.3 s; 5 messages and 120 bytes to a neighbour.
LINE = (
    {
        "availability": [1.0, 0.5, 1.0],
        "latency": [[0, 0.1, 9], [0.1, 0, 0.3], [9, 0.3, 0]],
        "bandwidth": [[1e9, 10, 1], [10, 1e9, 30], [1, 30, 1e9]],
    },
    {"messages": 5, "bytes_exchanged": 120},
)
PAIR = (
    {"availability": [1, 1], "slots": 2, "latency": np.zeros((2, 2)), "bandwidth": [[1e9, 10], [10, 1e9]]},
    {"messages": 1, "bytes_exchanged": 120},
)
ONE_WAY = (
    {"availability": [1, 1], "latency": [[0, 2], [7, 0]], "bandwidth": [[1, 1], [1, 1]]},
    {"messages": 1},
)


@pytest.mark.parametrize(
    ("given", "chain", "options", "seconds"),
    [
        # The one in the middle moves twice 120 bytes over 10 + 30 bytes/s and waits 5 times 0.1 + 0.3 s;
        # the ends have one neighbour: 120/10 + 5·0.1 and 120/30 + 5·0.3.
        pytest.param(LINE, [0, 1, 2], PAPER, [12.5, 8.0, 5.5], id="sums of both sides"),
        # Two transfers share the interface of the one in the middle: 2·120/10 + 5·0.1 and 2·120/30 + 5·0.3.
        pytest.param(LINE, [0, 1, 2], EXCHANGE, [24.5, 24.5, 9.5], id="the slower side whole"),
        pytest.param(LINE, [0, 1], EXCHANGE, [12.5, 12.5], id="interfaces to themselves"),
        pytest.param(LINE, [0, 2, 1], EXCHANGE, [285, 285, 9.5], id="rank order decides the links"),
        pytest.param(LINE, [1], PAPER, [0.0], id="nobody to talk to"),
        pytest.param(LINE, [1], EXCHANGE, [0.0], id="nobody to exchange with"),
        pytest.param(PAIR, [0, 1, 2, 3], EXCHANGE, [0, 12, 12, 0], id="slots of a host together"),
        pytest.param(PAIR, [0, 2, 1, 3], EXCHANGE, [36, 36, 36, 36], id="apart they crowd its interface"),
        pytest.param(ONE_WAY, [0, 1], EXCHANGE, [2, 7], id="links differ by direction"),
    ],
)
def test_communication_of_a_chain(pool, given, chain, options, seconds):
    hosts, work = given
    problem = pool.problem(pool.snapshot(**hosts), pool.workload(10, **work))
    lines = rank_lines(problem, Chains.of([chain]), options)
    assert lines.communicate == pytest.approx(seconds, abs=1e-6)


def slowed(problem, options):
    chain = list(range(len(problem.share)))
    return rank_lines(problem, Chains.of([chain]), options).coupling


#: Seconds of a row so that an iteration of 30 rows on 1.5 CPUs takes one time slice of 4 ms.
SLICE = 4e-3 * 1.5 / 30


@pytest.mark.parametrize(
    ("shares", "row_s", "options", "factors", "rel"),
    [
        pytest.param(
            [1, 0.5, 0.8], 1e-9, EXCHANGE, [2.5, 1.25, 2], 1e-3, id="only while all have their CPUs"
        ),
        pytest.param([1, 0.5, 0.8], 10.0, EXCHANGE, [1, 1, 1], 1e-3, id="averages over many time slices"),
        # The other's share counts to the power of one half.
        pytest.param([1, 0.5], SLICE, EXCHANGE, [2**0.5, 1], 1e-6, id="half a slice of waiting"),
        # What is of the order of a slice in an iteration is priced with its messages.
        pytest.param([1, 0.5], 10 * SLICE, EXCHANGE, [2 ** (1 / 101), 1], 1e-6, id="falls with the square"),
        pytest.param([1, 1], 1e-9, EXCHANGE, [1, 1], 0, id="idle hosts"),
        pytest.param([1, 0.5], 1e-9, PAPER, [1, 1], 0, id="the paper's model"),
    ],
)
def test_ranks_wait_for_those_without_their_cpus(pool, shares, row_s, options, factors, rel):
    problem = pool.problem(pool.snapshot(shares), pool.workload(30), pool.costs(row_s))
    assert slowed(problem, options) == pytest.approx(factors, rel=rel)


def test_only_absence_by_other_processes_delays_beside_a_quota(pool):
    snapshot = pool.snapshot([1.0, 0.4, 0.5])
    limited = tuple(
        replace(one, cpu_limit=limit)
        for one, limit in zip(snapshot.conditions, [math.inf, 0.5, 0.5], strict=True)
    )
    snapshot = replace(snapshot, conditions=limited)
    for hosts, factors in (
        (snapshot, [1 / 0.8, 1.0, 1 / 0.8]),
        (snapshot.for_polling_ranks(), [1 / 0.2, 1 / 0.5, 1 / 0.4]),
    ):
        problem = pool.problem(hosts, pool.workload(30), pool.costs(1e-9))
        assert slowed(problem, EXCHANGE) == pytest.approx(factors, rel=1e-3)


def test_chains_of_different_lengths_do_not_touch_each_other(pool):
    hosts, work = LINE
    problem = pool.problem(pool.snapshot(**hosts), pool.workload(10, **work))
    together = rank_lines(problem, Chains.of([[0, 1], [2], [2, 1, 0]]), EXCHANGE).communicate
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
