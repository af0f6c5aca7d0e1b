"""Cuts on two axes: boxes that tile the whole, the price of slabs as a special case, and the choice between them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.model.cut import Axes
from apples.model.grid import Estimate
from apples.model.limits import parse_limits
from apples.planning.boxcosts import in_columns, in_grid, priced
from apples.planning.candidates import CandidateSchedule, seconds_per_rank
from apples.planning.cuts import BoxLayout, column_groups
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions

AUTO = PlanningOptions()
CUTS = ("auto", "slabs", "columns")
SPEEDS = st.lists(st.floats(0.05, 1.0), min_size=1, max_size=7)
KINDS = st.sampled_from(["rectilinear", "columns"])


def links(hosts, bandwidth=1e5):
    return {"latency": np.full((hosts, hosts), 1e-3), "bandwidth": np.full((hosts, hosts), bandwidth)}


def run_of(pool, size, width, kind="columns", messages=100, **given):
    """A run whose rows of 16 bytes a cell are exchanged in each of 100 iterations."""
    moved = {"messages": messages, "bytes_exchanged": messages * width * 16.0}
    axes = Axes(cut=kind, width=width, min_width=given.pop("min_width", 1))
    return pool.workload(size, iterations=100, axes=axes, **{**moved, **given})


def covered(plan):
    """How often each cell of the whole is in a box, int[size, width]."""
    seen = np.zeros((plan.size, plan.cut.width), dtype=int)
    for box in plan.boxes:
        assert min(box.width, box.height) >= 1
        seen[box.y : box.y + box.height, box.x : box.x + box.width] += 1
    return seen


@settings(max_examples=15, deadline=None)
@given(speeds=SPEEDS, kind=KINDS, size=st.integers(1, 60), width=st.integers(1, 60), rate=st.floats(1e3, 1e8))
def test_boxes_tile_the_whole_and_beat_slabs(pool, speeds, kind, size, width, rate):
    snapshot = pool.snapshot(speeds, **links(len(speeds), rate))
    work = run_of(pool, size, width, kind)
    plan = make_plan(snapshot, work, pool.costs(0.01))
    assert (covered(plan) == 1).all()
    assert sum(a.work for a in plan.assignments) == pytest.approx(size)
    slabs = make_plan(snapshot, replace(work, axes=None), pool.costs(0.01))
    assert plan.predicted_s <= slabs.predicted_s
    assert plan.cut.slabs_s == slabs.predicted_s
    if plan.cut.kind == "slabs":
        assert (plan.rows, plan.hosts) == (slabs.rows, slabs.hosts)
    assert plan.predicted_s == pytest.approx(max(a.predicted_s for a in plan.assignments))


@settings(max_examples=40, deadline=None)
@given(speeds=st.lists(st.floats(0.2, 1.0), min_size=2, max_size=12), size=st.integers(60, 200))
def test_columns_have_a_shorter_border_and_fair_shares(pool, speeds, size):
    """Without exchanges each area is within one row and one column of cells of its share of the speed."""
    problem = pool.problem(pool.snapshot(speeds), run_of(pool, size, size, messages=0))
    shares = np.array(sorted(speeds, reverse=True)) / sum(speeds)
    _, counts = min(column_groups(shares, size, size))
    boxes = in_columns(problem, np.argsort(speeds)[::-1], counts, AUTO)
    layout = boxes.layout
    assert layout.border() <= (len(speeds) - 1) * size
    room = layout.widths[layout.column] + layout.heights
    assert (abs(layout.cells - shares * size**2) <= room).all()


@settings(max_examples=30, deadline=None)
@given(speeds=st.lists(st.floats(0.2, 1.0), min_size=2, max_size=6), data=st.data())
def test_one_column_costs_what_slabs_cost(pool, speeds, data):
    n, size = len(speeds), 40
    slots = data.draw(st.lists(st.integers(1, 2), min_size=n, max_size=n))
    snapshot = pool.snapshot(
        speeds, slots=slots, sites=data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    )
    costs = replace(pool.costs(0.01, per_rank_s=0.1), message_cpu_s=1e-3, reduction_hops=2.0, start_cpu_s=0.5)
    problem = pool.problem(snapshot, run_of(pool, size, 7), costs)
    chain = np.array(data.draw(st.permutations(range(problem.processors))))
    heights = np.full(len(chain), size // len(chain))
    heights[0] += size - heights.sum()
    boxes = priced(problem, chain, BoxLayout((len(chain),), np.array([7]), heights), AUTO)
    slabs = seconds_per_rank(problem, CandidateSchedule(chain, heights, 0.0), AUTO)
    assert boxes.seconds == pytest.approx(slabs)


def test_borders_are_those_of_cells_that_touch():
    layout = BoxLayout((2, 3), np.array([4, 6]), np.array([5, 5, 2, 3, 5]))
    owner = np.zeros((10, 10), dtype=int)
    for rank, box in enumerate(layout.boxes()):
        owner[box.y : box.y + box.height, box.x : box.x + box.width] = rank
    touching = {}
    for a, b in [
        *zip(owner[1:].ravel(), owner[:-1].ravel(), strict=True),
        *zip(owner[:, 1:].ravel(), owner[:, :-1].ravel(), strict=True),
    ]:
        if a != b:
            pair = (min(a, b), max(a, b))
            touching[pair] = touching.get(pair, 0) + 1
    first, second, cells = layout.borders()
    assert (
        dict(zip(zip(first.tolist(), second.tolist(), strict=True), cells.tolist(), strict=True)) == touching
    )
    assert layout.border() == sum(touching.values())


def test_column_groups_are_the_best_of_all():
    areas = np.array([0.35, 0.25, 0.2, 0.1, 0.06, 0.04])

    def length(counts):
        ends = np.cumsum(counts)
        parts = [areas[end - n : end] for n, end in zip(counts, ends, strict=True)]
        return (len(counts) - 1) * 2.0 + sum((len(p) - 1) * p.sum() * 3.0 for p in parts)

    for columns, (found, counts) in enumerate(column_groups(areas, 2.0, 3.0), 1):
        every = [c for c in itertools.product(range(1, 7), repeat=columns) if sum(c) == 6]
        assert len(counts) == columns
        assert found == pytest.approx(min(map(length, every))) == pytest.approx(length(counts))


def test_grid_of_matching_speeds_is_balanced(pool):
    speeds = np.array([[0.8, 0.4], [0.4, 0.2], [0.2, 0.1]])
    problem = pool.problem(pool.snapshot(speeds.ravel()), run_of(pool, 70, 60, "rectilinear", messages=0))
    boxes = in_grid(problem, np.arange(6).reshape(3, 2), AUTO)
    assert boxes.layout.widths.tolist() == [40, 20]
    assert boxes.layout.heights.tolist() == [40, 20, 10] * 2
    assert boxes.seconds == pytest.approx(boxes.seconds[0])


def test_rectilinear_ranks_run_along_x_first(pool):
    plan = make_plan(
        pool.snapshot([1.0] * 6, **links(6)), run_of(pool, 60, 60, "rectilinear"), pool.costs(0.01)
    )
    assert plan.cut.kind == "rectilinear"
    assert [(b.y, b.x) for b in plan.boxes] == sorted((b.y, b.x) for b in plan.boxes)
    assert "borders of" in plan.cut.why
    assert plan.cut.border < plan.cut.slabs_border or plan.cut.two_axes_s < plan.cut.slabs_s


def test_slow_links_take_boxes_and_uneven_speeds_slabs(pool):
    speeds = [0.5, 0.4, 0.3, 0.3, 0.2, 0.1]
    # One band of columns would be slabs along the other axis.
    work = run_of(pool, 600, 600, "rectilinear", min_width=200)
    near, far = (
        make_plan(pool.snapshot(speeds, **links(6, rate)), work, pool.costs(0.001)) for rate in (1e9, 1e5)
    )
    assert (near.cut.kind, far.cut.kind) == ("slabs", "rectilinear")
    assert near.cut.two_axes_s > near.cut.slabs_s


@pytest.mark.parametrize("kind", ["rectilinear", "columns"])
def test_boxes_keep_memory_and_smallest_sizes(pool, kind):
    snapshot = pool.snapshot([1.0, 0.9, 0.2, 0.1], memory=[40.0, 400.0, 400.0, 400.0], **links(4))
    work = run_of(pool, 100, 30, kind, bytes_per_row=1.0, min_rows=3, min_width=4)
    plan = make_plan(snapshot, work, pool.costs(0.01), PlanningOptions(cut=kind))
    assert plan.cut.kind == kind
    assert all(b.width >= 4 and b.height >= 3 for b in plan.boxes)
    assert all(a.work <= 40 for a in plan.assignments if a.host == "h0")
    assert plan.allocation.method == "pulp"


def test_limits_on_hosts_hold_for_boxes(pool):
    snapshot = pool.snapshot([1.0] * 6, sites=[0, 0, 0, 1, 1, 1], **links(6))
    limits = parse_limits({"at-most": ("s0=1", "s1=2")})
    plan = make_plan(
        snapshot, run_of(pool, 60, 60), pool.costs(0.01), PlanningOptions(limits=limits, cut="columns")
    )
    assert len({"h0", "h1", "h2"} & set(plan.hosts)) <= 1
    assert len(plan.hosts) <= 3


def test_times_of_both_cuts_are_predictions(pool):
    exact = pool.snapshot([0.6] * 4, **links(4))
    known = tuple(replace(c, availability=Estimate(value=0.6, error=0.2)) for c in exact.conditions)
    snapshot, work = replace(exact, conditions=known), run_of(pool, 200, 200)
    plans = {cut: make_plan(snapshot, work, pool.costs(0.01), replace(AUTO, cut=cut)) for cut in CUTS}
    assert plans["slabs"].lateness_s > 0
    for plan in (plans["auto"], plans["columns"]):
        assert plan.cut.slabs_s == plans["slabs"].predicted_s
        assert plan.cut.two_axes_s == plans["columns"].predicted_s
    assert plans["auto"].predicted_s == min(plan.predicted_s for plan in plans.values())
