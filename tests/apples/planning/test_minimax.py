"""Slab heights: closed form, linear program and enumeration agree, in real and in whole rows (§3.3)."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.planning import heights
from apples.planning.chains import Chains
from apples.planning.minimax import makespans, minimax_rows, whole_rows
from apples.planning.model import RankLines, rank_lines
from apples.planning.planningoptions import PlanningOptions


@st.composite
def lines_and_work(draw, most_ranks=4, most_rows=12):
    """(lines of one chain, size, min_rows) that can hold the size."""
    n = draw(st.integers(1, most_ranks))
    min_rows = draw(st.integers(1, 2))
    size = draw(st.integers(n * min_rows, max(most_rows, n * min_rows)))
    number = st.floats(0.05, 5.0)
    caps = draw(st.lists(st.integers(min_rows, size) | st.just(math.inf), min_size=n, max_size=n))
    if sum(caps) < size:
        caps[0] = size
    fixed = np.array(draw(st.lists(st.floats(0, 10), min_size=n, max_size=n)))
    lines = RankLines(
        slope=np.array(draw(st.lists(number, min_size=n, max_size=n))),
        fixed=fixed,
        communicate=fixed,
        cap=np.array(caps, dtype=float),
        bend=np.array(draw(st.lists(st.integers(0, 6) | st.just(1e15), min_size=n, max_size=n)), dtype=float),
        spill_factor=draw(st.floats(1, 100)),
    )
    return lines, size, min_rows


def one_chain(lines):
    return Chains.of([np.arange(len(lines.slope))])


def enumerate_rows(lines, size, min_rows):
    """Smallest makespan over every way to cut the rows."""
    limits = [range(min_rows, int(min(c, size)) + 1) for c in lines.cap]
    cuts = np.array([c for c in itertools.product(*limits) if sum(c) == size], dtype=float)
    return min(float(lines.seconds(cut).max()) for cut in cuts)


@given(lines_and_work())
@settings(deadline=None, max_examples=150)
def test_whole_rows_are_as_good_as_any_cut(case):
    lines, size, min_rows = case
    real = float(makespans(lines, one_chain(lines), size, min_rows)[0])
    rows = minimax_rows(lines, size, min_rows, real)
    best = enumerate_rows(lines, size, min_rows)
    assert float(lines.seconds(rows.astype(float)).max()) == pytest.approx(best, rel=1e-9)
    assert real <= best * (1 + 1e-9)


@given(lines_and_work(most_ranks=12, most_rows=3000))
@settings(deadline=None, max_examples=150)
def test_rows_sum_to_the_size_within_caps_and_minimum(case):
    lines, size, min_rows = case
    real = float(makespans(lines, one_chain(lines), size, min_rows)[0])
    rows = minimax_rows(lines, size, min_rows, real)
    assert rows.sum() == size
    assert (rows <= lines.cap).all()
    assert (rows >= min_rows).all()


@given(
    st.lists(st.tuples(st.floats(0.05, 1), st.floats(0.3, 1.5)), min_size=2, max_size=8),
    st.integers(30, 3000),
    st.floats(1e-6, 1e4),
)
@settings(deadline=None, max_examples=40)
def test_real_makespan_equals_the_heights(pool, hosts, size, seconds_per_row):
    shares, room = zip(*hosts, strict=True)
    snapshot = pool.snapshot(
        shares, memory=[r * size * 1e6 for r in room], sites=[i % 2 for i in range(len(hosts))]
    )
    workload = pool.workload(size, bytes_per_row=1e6, messages=100, bytes_exchanged=1e6)
    problem = pool.problem(snapshot, workload, pool.costs(seconds_per_row, per_rank2_s=0.1))
    chain = np.arange(len(hosts))
    lines = rank_lines(problem, Chains.of([chain]), PlanningOptions())
    ours = float(makespans(lines, Chains.of([chain]), size, 1)[0])
    found = heights.allocate(problem, chain, lines, math.inf)
    if found is None:
        assert math.isinf(ours)
    else:
        assert float(lines.seconds(found.rows).max()) == pytest.approx(ours, rel=1e-5)


def test_without_limits_the_closed_form_holds(pool):
    problem = pool.problem(pool.snapshot([1.0, 0.5, 0.25]), pool.workload(70))
    lines = rank_lines(problem, Chains.of([[0, 1, 2]]), PlanningOptions(model="paper"))
    assert makespans(lines, Chains.of([[0, 1, 2]]), 70, 1) == pytest.approx([40])
    assert minimax_rows(lines, 70, 1, 40.0).tolist() == [40, 20, 10]


def test_many_chains_at_once_are_each_as_alone(pool):
    rng = np.random.default_rng(5)
    snapshot = pool.snapshot(rng.uniform(0.2, 1, 9), memory=rng.uniform(1e7, 1e8, 9))
    problem = pool.problem(snapshot, pool.workload(100, bytes_per_row=1e6, messages=10))
    some = [rng.permutation(9)[: rng.integers(1, 10)] for _ in range(30)]

    def priced(chains):
        return makespans(rank_lines(problem, chains, PlanningOptions()), chains, 100, 1)

    together = priced(Chains.of(some))
    alone = np.array([priced(Chains.of([c]))[0] for c in some])
    assert np.isinf(together).any()
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_rows_refused_at_first_are_asked_again_once_another_rank_has_grown():
    """x1 ≤ x0: the faster rank 1 may only follow rank 0."""
    lines = RankLines(
        slope=np.array([1.0, 0.1]),
        fixed=np.zeros(2),
        communicate=np.zeros(2),
        cap=np.full(2, np.inf),
        bend=np.full(2, 1e15),
        spill_factor=1.0,
    )
    rows = whole_rows(lines, np.array([1.0, 1.0]), 10, 1, lambda h, i: h[1] + (i == 1) <= h[0] + (i == 0))
    assert rows.tolist() == [5, 5]
