"""People's limits on the choice of hosts: the plan keeps them, and the refusal names them."""

import math

import numpy as np
import pytest

from apples.errors import ConfigError
from apples.model.gridfile import load_grid_file
from apples.model.limits import AtMost, Limits, parse_limits
from apples.planning import placement, planner
from apples.planning.hostprogram import HostProgram
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions
from tests.transcripts import recorded, text_of

GRID = text_of("apples/planning/hostlimits_grid.txt")


@pytest.fixture
def plan(pool):
    """Return a planner of 120 rows of 1 s on equal hosts, six in site s0 and the others in s1."""

    def planned(limits, hosts=8, **snapshot):
        at = pool.snapshot([1.0] * hosts, sites=[0] * 6 + [1] * (hosts - 6), **snapshot)
        return make_plan(at, pool.workload(120), pool.costs(), PlanningOptions(limits=limits, prices=True))

    return planned


@pytest.mark.parametrize("hosts", [8, 14])
def test_plan_within_limits_uses_allowed_hosts(plan, hosts):
    limits = Limits(
        at_most=(AtMost(of="s0", hosts=3), AtMost(of="h[0-2]", ranks=1)),
        together=("h3,h6",),
        apart=("h4,h7",),
    )
    used = set(plan(limits, hosts).hosts)
    assert len(used & {f"h{i}" for i in range(6)}) == 3
    assert len(used & {"h0", "h1", "h2"}) <= 1
    assert len(used & {"h3", "h6"}) in (0, 2)
    assert len(used & {"h4", "h7"}) <= 1


@pytest.mark.parametrize("hosts", [8, 14])
def test_plan_within_budget_costs_at_most_it(plan, hosts):
    prices = {"s0": 3600.0, "s1": 1800.0}
    free = plan(Limits(prices=prices), hosts)
    assert free.cost == pytest.approx(free.predicted_s * (6 + (hosts - 6) / 2))
    # The cheap hosts alone: any use of another one costs more for each row.
    bound = plan(Limits(prices=prices, budget=60.0), hosts)
    assert bound.cost <= 60.0 + 1e-9
    assert set(bound.hosts) == {f"h{i}" for i in range(6, hosts)}


def test_search_that_was_cut_says_so_with_its_gap(plan, monkeypatch):
    limits = Limits(apart=("h0,h6",), prices={"s0": 3600.0, "s1": 1800.0}, budget=250.0)
    whole = plan(limits, 14)
    monkeypatch.setattr(placement.soonest, "__defaults__", (math.inf, 1))
    monkeypatch.setattr(planner.search, "__kwdefaults__", {"effort": 1})
    cut = plan(limits, 14)
    assert (whole.search, cut.search[:27]) == ("", "the search of hosts was cut")
    assert sum(cut.rows) == 120


def test_equal_hosts_are_one_variable_of_the_program(pool):
    at = pool.snapshot([1.0] * 30 + [0.5] * 20)
    problem = pool.problem(at, pool.workload(500))
    program = HostProgram(problem, PlanningOptions(), "")
    assert [len(members) for members in program.kinds] == [30, 20]
    program.allow(program.whole, ends=False)
    assert len(program.solve(10)[0]) >= 1
    assert program.rows_placed == 500


def test_program_and_planner_equal_brute_force(limit_quality):
    rng, tally = np.random.default_rng(4), limit_quality.Tally()
    for _ in range(25):
        limit_quality.examine(limit_quality.random_case(rng), tally)
    assert tally.wrong == []
    assert tally.feasible >= 10
    assert tally.refusals >= 3


def test_program_is_asked_also_if_other_orders_hold_the_work(limit_quality):
    """Only few orders keep the coupling, the group and the budget, and the planner's own are slower."""
    rng, tally = np.random.default_rng(888003), limit_quality.Tally()
    cases = [limit_quality.random_case(rng) for _ in range(84)]
    limit_quality.examine(cases[-1], tally)
    assert tally.wrong == []
    assert tally.feasible == 1


def test_limits_of_a_grid_file_are_read(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    limits = load_grid_file(path).limits
    assert limits.at_most == (AtMost(of="lyon", hosts=2), AtMost(of="a[1-3]", ranks=5))
    assert (limits.together, limits.apart) == (("a1,beta",), ())
    assert (limits.prices, limits.budget, limits.deadline) == ({"lyon": 0.5, "a2": 1.0}, 2.5, 7200.0)


@recorded("apples/planning/limit_problems.txt", "old", "new")
def test_illegal_limits_of_a_grid_file_are_named(tmp_path, answered, old, new):
    path = tmp_path / "grid.yaml"
    path.write_text(GRID.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_grid_file(path)
    answered(str(caught.value).replace(f"{tmp_path}/", ""))


def test_limits_of_a_command_line_name_every_problem():
    given = {"at-most": ["lyon=2", "lyon"], "licences": ["a1=x"], "budget": ["-1"], "deadline": ["1:30:00"]}
    with pytest.raises(ConfigError) as caught:
        parse_limits(given)
    assert len(caught.value.problems) == 3
    del given["at-most"][1], given["licences"], given["budget"]
    assert parse_limits(given) == Limits(at_most=(AtMost(of="lyon", hosts=2),), deadline=5400.0)
