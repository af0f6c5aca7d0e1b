"""The Ousterhout matrix: whatever comes and goes, no cell is shared. Examples are those of the machine."""

from hypothesis import given, strategies as st

from apples.coscheduling.matrix import OusterhoutMatrix

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.sampled_from("abc"), min_size=1, max_size=5)),
        st.tuples(st.just("remove"), st.integers(0, 20)),
    ),
    max_size=40,
)


@given(steps=steps, mpl=st.sampled_from([None, 1, 3]))
def test_whatever_comes_and_goes_no_cell_is_shared_and_no_column_changes(steps, mpl):
    matrix = OusterhoutMatrix({"a": 1, "b": 2, "c": 3}, mpl=mpl)
    columns = {}
    for number, (what, value) in enumerate(steps):
        if what == "add":
            allotment = matrix.add(f"j{number}", tuple(value))
            if allotment is not None:
                columns[allotment.job] = allotment.columns
        else:
            gone = f"j{value}"
            matrix.remove(gone)
            columns.pop(gone, None)
        assert {job: a.columns for job, a in matrix.allotments.items()} == columns
        cells = [(a.slot, c) for a in matrix.allotments.values() for c in set(a.columns)]
        assert len(cells) == len(set(cells))
        assert sum(len(matrix.row(s)) for s in range(matrix.slots)) == len(cells)
        assert all(matrix.row(s) for s in range(matrix.slots))
        assert mpl is None or matrix.slots <= mpl
        for slot in range(matrix.slots):
            used = [c for a in matrix.also_runs(slot) for c in set(a.columns)]
            assert len(used) == len(set(used))
            assert not set(used) & set(matrix.row(slot))
