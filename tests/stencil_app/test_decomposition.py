import pytest
from hypothesis import given, strategies as st

from stencil_app.mesh.decomposition import Decomposition, even, parse


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12))
def test_slabs_round_trip_and_follow_each_other(heights):
    slabs = parse(",".join(map(str, heights)))
    assert slabs == parse(str(slabs))
    assert slabs.size == sum(heights)
    for rank in range(1, slabs.ranks):
        assert slabs.first_row(rank) == slabs.first_row(rank - 1) + heights[rank - 1]


@given(st.integers(1, 40), st.integers(0, 200))
def test_even_slabs_differ_by_one_row_at_most(ranks, more):
    slabs = even(ranks + more, ranks)
    assert (slabs.ranks, slabs.size) == (ranks, ranks + more)
    assert max(slabs.heights) - min(slabs.heights) <= 1


def test_bad_entry_is_named():
    with pytest.raises(
        ValueError, match=r"'0', 'x', '' in '0,2,x,': a slab is a whole number of rows, 1 or more"
    ):
        parse("0,2,x,")


def test_first_row_of_uneven_slabs():
    assert [Decomposition((20, 22, 1)).first_row(rank) for rank in range(3)] == [0, 20, 42]
