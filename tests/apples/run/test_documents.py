"""The documents programs read: strict JSON, whatever is unknown or infinite."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from apples.cli.report import explanation_lines, plan_lines
from apples.model.cut import Box, Cut
from apples.model.grid import Grid, Host, Snapshot
from apples.model.plan import LeftOut, Outcome, RankStatus
from apples.run.agent import Decision
from apples.run.documents import error, plan_document, run_document, strict
from tests.apples.samples import a_plan, an_assignment

SNAPSHOT = Snapshot.nominal(Grid(name="lab", hosts=(Host(name="alpha"), Host(name="beta"))))


def plan_of_two(predicted_s=2.0):
    chain = (
        an_assignment(r, host, 32, compute_s=1.5, communicate_s=0.25, overhead_s=0.25)
        for r, host in enumerate(("alpha", "beta"))
    )
    busy = (LeftOut(host="gamma", reason="busy"),)
    return a_plan(*chain, predicted_s=predicted_s, low_s=1.5, high_s=math.inf, left_out=busy)


def document_of(plan):
    return plan_document(plan, SNAPSHOT, planning_s=0.01, weather_s=0.5, notes=("a note",))


def text_of(document):
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def ended(how, observed_s=4.0, **more):
    return Outcome(ended=how, exit_code=0 if how == "finished" else 1, observed_s=observed_s, **more)


def test_document_of_a_plan_is_as_recorded(golden):
    """What is infinite is null."""
    golden("apples/run/plan.json", text_of(document_of(plan_of_two())))


def test_document_of_boxes_is_as_recorded(golden):
    plan = plan_of_two()
    halves = [Box(x=32 * rank, y=0, width=32, height=64) for rank in range(2)]
    ranks = [replace(a, box=b, part_of_row=0.5) for a, b in zip(plan.assignments, halves, strict=True)]
    times = {"slabs_s": math.inf, "two_axes_s": 2.0}
    why = "columns cut 1+1: 2 s"
    cut = Cut(kind="columns", width=64, border=64, slabs_border=0, why=why, **times)
    plan = replace(plan, assignments=tuple(ranks), cut=cut)
    values = {"key": "k", "slab_rows": 32, "platform": "mpiexec", "planning_s": 0.01, "weather_s": 0.5}
    decision = Decision(plan=plan, snapshot=SNAPSHOT, workload=None, costs=None, **values)
    lines = [text_of(document_of(plan)), *plan_lines(decision), *explanation_lines(decision), ""]
    golden("apples/run/boxes.txt", "\n".join(lines))


def test_document_of_a_run_is_as_recorded(golden):
    """It keeps the plan's document as it is; ranks that recorded nothing are null."""
    plan = document_of(plan_of_two())
    before = json.dumps(plan)
    run = run_document(plan, ended("finished"), platform="mpiexec", record="r1")
    assert json.dumps(plan) == before
    golden("apples/run/run.json", text_of(run))
    statuses = (RankStatus(rank=1, host="beta", exit_code=None, signal=9),)
    outcome = ended("failed", statuses=statuses, message="rank 1 on beta was killed by signal 9 (KILL)")
    failed = run_document(plan, outcome, platform="mpiexec", record="r1")
    golden("apples/run/failed_run.json", text_of(failed))


@pytest.mark.parametrize(
    ("predicted_s", "outcome"),
    [
        (None, ended("finished")),
        (2.0, ended("failed")),
        (2.0, ended("finished", 0.0)),
        (2.0, ended("time limit")),
    ],
)
def test_no_error_without_two_times_to_compare(predicted_s, outcome):
    assert error(predicted_s, outcome) is None


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.recursive(leaves, lambda x: st.lists(x) | st.dictionaries(st.text(), x) | st.tuples(x, x)))
def test_strict_is_always_strict_json(value):
    json.dumps(strict(value), allow_nan=False)
