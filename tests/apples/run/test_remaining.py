"""What is left of a run."""

import pytest
from hypothesis import given, strategies as st

from apples.model.template import Workload
from apples.run.remaining import checkpoints_in, iteration_s, remaining_workload, with_overhead
from tests.apples.samples import a_plan, an_assignment

WHOLE = Workload(
    application="toy",
    size=10,
    iterations=1000,
    messages=1000.0,
    bytes_exchanged=5e6,
    bytes_per_row=8.0,
    min_rows=2,
)


def plan():
    ranks = (
        an_assignment(rank=k, rows=5, compute_s=c, communicate_s=1.0, overhead_s=2.0)
        for k, c in enumerate((9.0, 4.0))
    )
    return a_plan(*ranks, predicted_s=12.0, low_s=11.0, high_s=14.0)


def test_rest_exchanges_less_and_weighs_as_much():
    rest = remaining_workload(WHOLE, 600)
    assert (rest.iterations, rest.messages, rest.bytes_exchanged) == (400, 400.0, 2e6)
    assert (rest.bytes_per_row, rest.min_rows, rest.size) == (8.0, 2, 10)
    assert remaining_workload(WHOLE, 1000).messages == 0.0
    assert remaining_workload(Workload(application="toy", size=1, iterations=0), 0).iterations == 0


def test_iteration_takes_what_the_slowest_rank_takes():
    assert iteration_s(plan(), 100) == pytest.approx(0.1)
    assert iteration_s(plan(), 0) == 0.0


@given(st.integers(1, 500), st.data(), st.one_of(st.none(), st.integers(1, 600)), st.booleans())
def test_checkpoints_are_counted_as_the_application_writes_them(iterations, data, every, at_end):
    done = data.draw(st.integers(0, iterations))
    written = [k for k in range(done + 1, iterations + 1) if every and k % every == 0]
    if at_end and written[-1:] != [iterations] and (every is None or iterations % every):
        written.append(iterations)
    assert checkpoints_in(iterations, done, every, at_end=at_end) == len(written)


def test_checkpoints_are_overhead_of_every_rank():
    dearer = with_overhead(plan(), 3.0)
    assert [a.predicted_s for a in dearer.assignments] == [15.0, 10.0]
    assert (dearer.predicted_s, dearer.low_s, dearer.high_s) == (15.0, 14.0, 17.0)
