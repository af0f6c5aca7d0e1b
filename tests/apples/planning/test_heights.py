"""Programs of slab heights: whole rows against minimax, the paper's balance (§3.3), constraints across hosts."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.errors import NoFeasiblePlan
from apples.model.template import LinearConstraint
from apples.planning import heights, solver
from apples.planning.chains import Chains
from apples.planning.heights import HeightProgram, whole_heights
from apples.planning.minimax import makespans, minimax_rows
from apples.planning.model import RankLines, rank_lines
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions

LP = PlanningOptions(allocation="lp", improve=False, ranks=2)


def together(bound, **coefficients):
    return LinearConstraint(name="licence", coefficients=coefficients, bound=bound)


@pytest.mark.parametrize(
    ("held", "tolerance"), [(50, 0.01), (49, 0.02), (48, 0.05), (46, 0.1), (41, 0.2), (26, 0.5)]
)
def test_tolerance_widens_no_further_than_needed(pool, held, tolerance):
    snapshot = pool.snapshot([1.0, 1.0], memory=[math.inf, held * 1e6])
    problem = pool.problem(snapshot, pool.workload(100, bytes_per_row=1e6))
    lines = rank_lines(problem, Chains.of([[0, 1]]), LP)
    found = heights.allocate(problem, np.array([0, 1]), lines, 0.01)
    assert found.tolerance == tolerance
    assert found.rows.sum() == pytest.approx(100)


def test_work_that_fits_nowhere_has_no_allocation(pool):
    problem = pool.problem(pool.snapshot([1, 1]), pool.workload(100, max_rows=40))
    lines = rank_lines(problem, Chains.of([[0, 1]]), LP)
    assert heights.allocate(problem, np.array([0, 1]), lines, 0.01) is None


@pytest.mark.parametrize("seconds_per_row", [1e-7, 1.0, 1e6])
def test_units_of_time_do_not_disturb_the_solver(pool, seconds_per_row):
    problem = pool.problem(pool.snapshot([1.0, 0.5]), pool.workload(90), pool.costs(seconds_per_row))
    lines = rank_lines(problem, Chains.of([[0, 1]]), PlanningOptions(model="paper"))
    found = heights.allocate(problem, np.array([0, 1]), lines, math.inf)
    assert found.rows == pytest.approx([60, 30], rel=1e-4)


@given(
    shares=st.lists(st.floats(0.2, 1), min_size=2, max_size=5),
    size=st.integers(20, 300),
    part=st.floats(0.1, 0.9),
    allocation=st.sampled_from(["lp", "minimax"]),
)
@settings(deadline=None, max_examples=25)
def test_constraint_across_hosts_holds_in_whole_rows(pool, shares, size, part, allocation):
    bound = part * size
    workload = pool.workload(size, constraints=(together(bound, h0=1.0, h1=2.0),))
    options = PlanningOptions(allocation=allocation, improve=False)
    if len(shares) == 2:
        # h0 alone would hold the work only within the bound, h1 only within half of it.
        with pytest.raises(NoFeasiblePlan, match="licence"):
            make_plan(pool.snapshot(shares), workload, pool.costs(), options)
        return
    plan = make_plan(pool.snapshot(shares), workload, pool.costs(), options)
    rows = {a.host: a.rows for a in plan.assignments}
    assert rows.get("h0", 0) + 2 * rows.get("h1", 0) <= bound + 1e-9
    assert sum(plan.rows) == size


def test_limit_on_one_host_is_part_of_its_cap(pool):
    workload = pool.workload(100, constraints=(together(30, h0=1.0),))
    problem = pool.problem(pool.snapshot([1.0, 1.0]), workload)
    assert problem.coupling == ()
    assert problem.cap[:, 1].tolist() == [30, math.inf]


def test_first_solve_of_a_process_leaves_stdout_clean():
    """HiGHS prints its banner once a process, so the program under test is a new one."""
    program = "\n".join(
        [
            "from apples.cli.run import main",
            "import sys",
            "sys.argv = 'apples-run 200 --mock --scheduler paper --dry-run --json'.split()",
            "main()",
        ]
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["scheduler"] == "paper"


def random_lines(rng):
    """(lines of one chain, size, min_rows) that can hold the size."""
    n, min_rows = int(rng.integers(1, 9)), int(rng.integers(1, 3))
    size = int(rng.integers(n * min_rows, 40 * n * min_rows))
    cap = np.where(rng.random(n) < 0.5, np.inf, rng.integers(min_rows, size + 1, n))
    cap[0] = np.inf if cap.sum() < size else cap[0]
    fixed = rng.uniform(0, 10, n)
    lines = RankLines(
        slope=rng.choice([0.1, 0.5, 1.0, 2.0], n) if rng.random() < 0.3 else rng.uniform(0.05, 5, n),
        fixed=fixed if rng.random() < 0.7 else np.zeros(n),
        communicate=np.zeros(n),
        cap=cap,
        bend=np.where(rng.random(n) < 0.8, 1e15, rng.integers(0, size, n)),
        spill_factor=float(rng.uniform(1, 20)),
    )
    return lines, size, min_rows


@pytest.mark.parametrize(
    "chains",
    [
        150,
        pytest.param(1000, marks=pytest.mark.slow),
        pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.nightly]),
    ],
)
def test_program_in_whole_rows_equals_minimax(chains):
    """Every tenth chain is also solved by a program that knows no other heights and no lower bounds."""
    rng = np.random.default_rng(chains)
    for number in range(chains):
        lines, size, min_rows = random_lines(rng)
        real = float(makespans(lines, Chains.of([np.arange(len(lines.slope))]), size, min_rows)[0])
        by_minimax = minimax_rows(lines, size, min_rows, real)
        alone = by_minimax
        if number % 10 == 0:
            alone = HeightProgram(lines, size, min_rows).solve(whole=True)
        rows, allocation = whole_heights(HeightProgram(lines, size, min_rows), lines, by_minimax)
        ends = [float(lines.seconds(np.rint(x)).max()) for x in (by_minimax, alone, rows)]
        assert max(ends) - min(ends) <= lines.slope.max() * 1e-3
        assert rows.sum() == size
        assert (rows >= min_rows).all()
        assert (rows <= lines.cap).all()
        assert allocation.bound_s == pytest.approx(ends[2], rel=1e-5)


def test_plan_of_many_ranks_has_heights_of_minimax(pool, monkeypatch):
    monkeypatch.setattr(heights, "MOST", 2)
    plan = make_plan(pool.snapshot([1.0] * 3), pool.workload(90), pool.costs())
    assert (plan.allocation.method, plan.rows) == ("minimax", (30, 30, 30))


def test_program_at_its_node_limit_has_no_solution(pool, monkeypatch):
    rng = np.random.default_rng(12)
    lines = replace(random_lines(rng)[0], slope=rng.uniform(0.2, 1, 30), fixed=rng.uniform(0, 30, 30))
    lines = replace(lines, cap=np.full(30, 900.0), bend=np.full(30, 1e15))
    monkeypatch.setattr(solver, "NODES", 0)
    assert HeightProgram(lines, 5000, 1).solve(whole=True) is None
    assert HeightProgram(lines, 5000, 1).solve(whole=False).sum() == pytest.approx(5000)
    monkeypatch.setattr(heights, "whole_heights", lambda *args: None)
    plan = make_plan(pool.snapshot([1.0, 0.5]), pool.workload(90), pool.costs())
    assert (plan.allocation.method, sorted(plan.rows)) == ("minimax", [30, 60])
