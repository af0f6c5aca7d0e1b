"""Costs of rows between the slabs that were measured."""

import math

import pytest
from hypothesis import given, strategies as st

from apples.costs.growth import setup_of, significant, startup_overhead, with_growth
from apples.model.template import Benchmark, Costs, Overhead

SECONDS = st.floats(1e-9, 1e3)


def costs(row_s, cpu_type="node"):
    return Costs(seconds_per_row={cpu_type: {1: row_s, 2: 2 * row_s}})


def row_s(of, rows):
    return of.at(rows).row_seconds("node", 1)


@given(st.tuples(SECONDS, SECONDS, SECONDS), st.floats(1.0, 1e4))
def test_costs_are_within_those_of_the_sizes_around(measured, rows):
    small, own, large = measured
    found = row_s(with_growth(costs(own), 64, {16: costs(small), 128: costs(large)}), rows)
    other = small if rows < 64 else large
    assert min(own, other) * (1 - 1e-9) <= found <= max(own, other) * (1 + 1e-9)


def test_growth_is_that_of_each_count_of_ranks():
    ours, theirs = ({1: 1.0, 2: 1.0, 4: 1.0}, {1: 1.0, 4: 2.0})
    grown = with_growth(
        Costs(seconds_per_row={"node": ours}), 64, {128: Costs(seconds_per_row={"node": theirs})}
    )
    found = grown.at(128).seconds_per_row["node"]
    assert found == {1: 1.0, 2: 1.0, 4: pytest.approx(2.0, rel=2e-3)}


def test_clear_differences_are_met_at_the_sizes_measured():
    grown = with_growth(costs(1.0), 64, {16: costs(0.2), 128: costs(3.0)})
    assert row_s(grown, 64) == 1.0
    assert row_s(grown, 128) == pytest.approx(3.0, rel=1e-3)
    assert row_s(grown, 16) == pytest.approx(0.2, rel=1e-3)
    assert row_s(grown, 64 * math.sqrt(2)) == pytest.approx(math.sqrt(3.0), rel=1e-3)
    assert grown.at(32).at(128) == grown.at(32), "the costs of one size"


def test_rows_cost_the_same_where_no_other_size_was_measured():
    grown = with_growth(costs(1.0), 64, {16: costs(0.2)})
    assert row_s(grown, 4096) == 1.0
    assert row_s(with_growth(costs(1.0), 64, {}), 2) == 1.0
    other = with_growth(costs(1.0), 64, {16: costs(0.2, "other type")})
    assert row_s(other, 16) == 1.0


def test_difference_of_a_tenth_may_be_chance():
    assert significant(0.0) == 0.0
    assert abs(significant(-0.1)) < 0.025
    assert significant(-0.7) == pytest.approx(-0.7, rel=0.01)


def test_setup_is_linear_between_the_two_nearest_sizes():
    setups = {32: 0.4, 64: 0.7, 256: 3.0}
    assert setup_of(setups, 50) == (pytest.approx(0.1), pytest.approx(0.3 / 32))
    assert setup_of(setups, 1e6) == (0.0, pytest.approx(0.7 / 64)), "never less than nothing beside the rows"
    assert setup_of({32: 0.4}, 64) == (0.4, 0.0)
    assert setup_of({32: 0.4, 64: 0.3}, 64) == (0.4, 0.0), "noise is no growth"
    assert setup_of({}, 64) == (0.0, 0.0)


def test_startup_of_benchmarks_gives_a_constant_and_a_part_per_rank():
    several = [
        Benchmark(ranks=r, seconds_per_row=1.0, startup_s=0.4 + 0.1 * r, bytes_per_row=0.0) for r in (1, 2, 4)
    ]
    overhead = startup_overhead(several)
    assert overhead.constant_s == pytest.approx(0.4)
    assert overhead.per_rank_s == pytest.approx(0.1)
    assert startup_overhead(several[:1]).constant_s == pytest.approx(0.5)
    assert startup_overhead([]) == Overhead()
