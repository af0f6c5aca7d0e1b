"""The Ousterhout matrix: packing, leaving, unification of slots."""

import pytest
from hypothesis import given, strategies as st

from apples.coscheduling.matrix import DoesNotFit, OusterhoutMatrix

TWO_BY_TWO = {"a": 2, "b": 2}


def slots(matrix):
    return {job: allotment.slot for job, allotment in matrix.allotments.items()}


def test_jobs_share_a_row_while_it_has_room():
    matrix = OusterhoutMatrix(TWO_BY_TWO)
    for job, nodes in [("wide", ("a", "a", "b")), ("left", ("a",)), ("right", ("b",)), ("other", ("b",))]:
        matrix.add(job, nodes)
    assert slots(matrix) == {"wide": 0, "left": 1, "right": 0, "other": 1}


def test_full_matrix_takes_nobody():
    matrix = OusterhoutMatrix({"a": 1}, mpl=1)
    matrix.add("first", ("a",))
    assert matrix.add("second", ("a",)) is None


def test_job_with_more_processes_than_processors_takes_them_all():
    matrix = OusterhoutMatrix({"a": 2})
    allotment = matrix.add("wide", ("a",) * 4)
    assert [column.processor for column in allotment.columns] == [0, 1, 0, 1]
    assert matrix.add("small", ("a",)).slot == 1
    matrix.remove("wide")
    assert slots(matrix) == {"small": 0}


def test_when_a_job_leaves_the_others_move_down_in_their_columns():
    matrix = OusterhoutMatrix({"a": 1, "b": 1})
    matrix.add("both", ("a", "b"))
    matrix.add("left", ("a",))
    matrix.add("third", ("a", "b"))
    moved = matrix.remove("both")
    assert {a.job for a in moved} == {"left", "third"}
    assert slots(matrix) == {"left": 0, "third": 1}
    assert matrix.slots == 2


def test_job_may_use_rows_where_its_columns_are_idle():
    matrix = OusterhoutMatrix({"a": 1, "b": 1})
    matrix.add("both", ("a", "b"))
    matrix.add("left", ("a",))
    matrix.add("again", ("a", "b"))
    matrix.add("right", ("b",))
    assert [a.job for a in matrix.also_runs(0)] == []
    matrix.remove("right")
    matrix.add("later", ("a",))
    assert slots(matrix)["later"] == 3
    matrix.add("right", ("b",))
    assert [a.job for a in matrix.also_runs(3)] == ["right"]


def test_restarted_manager_can_give_a_job_its_slot_again():
    matrix = OusterhoutMatrix({"a": 1})
    assert matrix.add("second", ("a",), slot=1).slot == 1
    assert matrix.add("first", ("a",), slot=0).slot == 0


def test_what_can_never_run_is_refused_with_the_reason():
    matrix = OusterhoutMatrix(TWO_BY_TWO)
    with pytest.raises(DoesNotFit, match="job x runs on c: no node of this machine; its nodes are: a, b"):
        matrix.add("x", ("a", "c"))
    with pytest.raises(DoesNotFit, match="job x has no processes"):
        matrix.add("x", ())


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
