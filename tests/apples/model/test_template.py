"""What the agent is told of an application: overheads are never negative, benchmarks answer for every count."""

import pytest
from hypothesis import given, strategies as st

from apples.model.template import PAPER_OVERHEAD, Costs, Overhead

numbers = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("size", "ranks", "seconds"), [(1000, 10, 23.9), (6000, 18, 37.456), (6000, 4, 8.504)]
)
def test_papers_overhead(size, ranks, seconds):
    assert PAPER_OVERHEAD.seconds(size, ranks) == pytest.approx(seconds)


@given(numbers, numbers, numbers, numbers, st.integers(1, 10**6), st.integers(1, 10**4))
def test_no_overhead_is_negative(constant, per_row, per_rank, per_rank2, size, ranks):
    overhead = Overhead(constant_s=constant, per_row_s=per_row, per_rank_s=per_rank, per_rank2_s=per_rank2)
    assert overhead.seconds(size, ranks) >= 0.0


@pytest.mark.parametrize(("ranks", "seconds"), [(1, 2.0), (2, 2.0), (3, 3.0), (4, 5.0), (64, 5.0)])
def test_count_that_was_not_measured_takes_the_next_smaller_one(ranks, seconds):
    costs = Costs(seconds_per_row={"x": {2: 2.0, 3: 3.0, 4: 5.0}})
    assert costs.row_seconds("x", ranks) == seconds


def test_type_nobody_measured():
    with pytest.raises(KeyError, match="y"):
        Costs(seconds_per_row={"x": {1: 1.0}}).row_seconds("y", 1)
