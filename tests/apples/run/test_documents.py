"""The documents programs read: strict JSON, whatever is unknown or infinite."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from apples.cli.report import explanation_lines, plan_lines
from apples.model.cut import Box, Cut
from apples.model.grid import Grid, Host, Snapshot
from apples.model.plan import Assignment, LeftOut, Outcome, Plan, RankStatus
from apples.run.agent import Decision
from apples.run.documents import error, plan_document, run_document, strict

SNAPSHOT = Snapshot.nominal(Grid(name="lab", hosts=(Host(name="alpha"), Host(name="beta"))))


def a_plan(predicted_s=2.0):
    chain = tuple(
        Assignment(rank=r, host=host, slot=0, rows=32, compute_s=1.5, communicate_s=0.25, overhead_s=0.25)
        for r, host in enumerate(("alpha", "beta"))
    )
    return Plan(
        scheduler="apples",
        application="heat",
        size=64,
        model="exchange",
        assignments=chain,
        predicted_s=predicted_s,
        low_s=1.5,
        high_s=math.inf,
        left_out=(LeftOut(host="gamma", reason="busy"),),
    )


def document_of(plan):
    return plan_document(plan, SNAPSHOT, planning_s=0.01, weather_s=0.5, notes=("a note",))


def decision_of(plan):
    return Decision(
        plan=plan,
        snapshot=SNAPSHOT,
        workload=None,
        costs=None,
        key="k",
        slab_rows=32,
        platform="mpiexec",
        planning_s=0.01,
        weather_s=0.5,
    )


def ended(how, observed_s=4.0, **more):
    return Outcome(ended=how, exit_code=0 if how == "finished" else 1, observed_s=observed_s, **more)


def test_keys_of_a_plan():
    assert list(document_of(a_plan())) == [
        "version",
        "size",
        "application",
        "scheduler",
        "model",
        "order",
        "predicted_s",
        "low_s",
        "high_s",
        "lateness_s",
        "horizon_s",
        "hosts",
        "taken",
        "left_out",
        "relaxed",
        "prices",
        "links",
        "cost",
        "cut",
        "notes",
        "snapshot",
        "planning",
    ]


def test_boxes_and_their_reason_are_in_the_plan():
    plan = a_plan()
    assert (document_of(plan)["cut"], document_of(plan)["hosts"][0]["box"]) == (None, None)
    halves = [Box(x=32 * rank, y=0, width=32, height=64) for rank in range(2)]
    ranks = [replace(a, box=b, part_of_row=0.5) for a, b in zip(plan.assignments, halves, strict=True)]
    cut = Cut(
        kind="columns",
        width=64,
        border=64,
        slabs_s=math.inf,
        two_axes_s=2.0,
        slabs_border=0,
        why="columns cut 1+1: 2 s",
    )
    document = document_of(replace(plan, assignments=tuple(ranks), cut=cut))
    assert document["hosts"][1]["box"] == {"x": 32, "y": 0, "width": 32, "height": 64}
    assert (document["cut"]["kind"], document["cut"]["slabs_s"]) == ("columns", None)
    decision = replace(decision_of(a_plan()), plan=replace(plan, assignments=tuple(ranks), cut=cut))
    assert "32×32" in plan_lines(decision)[1]
    assert "  # columns cut 1+1: 2 s" in explanation_lines(decision)


def test_what_is_infinite_is_null():
    document = document_of(a_plan())
    assert document["high_s"] is None
    assert document["snapshot"]["hosts"][0]["memory_bytes"]["value"] is None
    json.dumps(document, allow_nan=False)


def test_run_keeps_the_plan_and_adds_to_it():
    plan = document_of(a_plan())
    before = json.dumps(plan)
    run = run_document(plan, ended("finished"), platform="mpiexec", record="r1")
    assert json.dumps(plan) == before
    assert {key: run[key] for key in plan if key != "hosts"} == {
        k: v for k, v in plan.items() if k != "hosts"
    }
    assert (run["observed_s"], run["error"], run["world"], run["record"]) == (4.0, -0.5, "mpiexec", "r1")


def test_ranks_that_recorded_nothing_are_null():
    statuses = (RankStatus(rank=1, host="beta", exit_code=None, signal=9),)
    outcome = ended("failed", statuses=statuses, message="rank 1 on beta was killed by signal 9 (KILL)")
    run = run_document(document_of(a_plan()), outcome, platform="mpiexec", record="r1")
    first, second = run["hosts"]
    assert (first["observed"], first["exit_code"], first["signal"]) == (None, None, None)
    assert (second["exit_code"], second["signal"]) == (None, 9)
    assert (run["error"], run["message"]) == (None, outcome.message)


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
