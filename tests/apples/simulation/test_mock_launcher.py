"""The mock launcher: outcomes as a user's launcher gives them, time taken, load left behind."""

from pathlib import Path

import numpy as np
import pytest

from apples.errors import LaunchError
from apples.model.launchrequest import LaunchRequest
from apples.model.template import Workload
from apples.simulation.mock_launcher import run_on_grid
from apples.simulation.mock_sensors import MockSensors
from nws.series import Resource, Series
from tests.apples.samples import a_plan, an_assignment


def request(*rows, hosts=None, time_limit_s=None):
    hosts = hosts or [f"h{i}" for i in range(len(rows))]
    chain = (an_assignment(i, h, r) for i, (h, r) in enumerate(zip(hosts, rows, strict=True)))
    plan = a_plan(*chain, application="toy", model="none", predicted_s=0.0)
    workload = Workload(application="toy", size=sum(rows), iterations=10, messages=10.0)
    return LaunchRequest(
        plan=plan, workload=workload, command=("toy", "10"), run_dir=Path(), time_limit_s=time_limit_s
    )


def run(grid, launch):
    return run_on_grid(grid, launch, lambda line: None)


def test_finished_run_tells_what_every_rank_did_and_takes_its_time(quiet_grid):
    grid = quiet_grid(2)
    outcome = run(grid, request(100, 50))
    assert outcome.finished
    assert outcome.exit_code == 0
    assert [o.rows for o in outcome.observations] == [100, 50]
    assert outcome.observations[0].compute_s == pytest.approx(10.0)
    assert grid.now == outcome.observed_s > max(o.total_s for o in outcome.observations)


def test_user_is_told_that_the_time_is_simulated(quiet_grid):
    lines = []
    run_on_grid(quiet_grid(1), request(10), lines.append)
    assert lines == ["mock grid toy: 3.6 s of simulated time"]


def test_lost_host_is_named_with_what_to_do(quiet_grid):
    grid = quiet_grid(3)
    grid.fail_host("h1", 6.0)
    outcome = run(grid, request(100, 100, 100))
    assert (outcome.ended, outcome.exit_code, outcome.observed_s) == ("failed", 125, 6.0)
    assert outcome.message == (
        "host h1 was lost after 6.0 s; the other ranks were ended. Run again without it: --exclude h1"
    )
    assert [s.signal for s in outcome.statuses] == [15, None, 15]


def test_time_limit_ends_the_run_with_124(quiet_grid):
    grid = quiet_grid(1)
    outcome = run(grid, request(100, time_limit_s=5.0))
    assert (outcome.ended, outcome.exit_code, grid.now) == ("time limit", 124, 5.0)
    assert outcome.message == "the time limit of 5 s ended the run"


def test_host_lost_after_the_time_limit_does_not_matter(quiet_grid):
    grid = quiet_grid(1)
    grid.fail_host("h0", 8.0)
    assert run(grid, request(100, time_limit_s=5.0)).ended == "time limit"


def test_dead_and_unknown_hosts_are_refused_together(quiet_grid):
    grid = quiet_grid(2)
    grid.fail_host("h1", 0.0)
    with pytest.raises(LaunchError) as refused:
        run(grid, request(10, 10, hosts=["h1", "nowhere"]))
    assert str(refused.value).splitlines() == [
        "host h1 does not answer (it died at 0 s); plan without it",
        "host nowhere is not part of mock grid 'toy' (h0, h1)",
    ]
    assert grid.now == 0.0


def test_sensors_see_the_run_while_it_lasts(quiet_grid):
    grid = quiet_grid(2)
    run(grid, request(400, 400))
    seen = {
        r.t: r.values[r.series.index(Series(Resource.CPU_NEW, "h0"))]
        for r in MockSensors(grid, np.random.default_rng(1), since=0.0).read(100.0)
        if r.series[0].resource is Resource.CPU_NEW
    }
    assert seen[20.0] == pytest.approx(0.5)
    assert seen[100.0] == pytest.approx(1.0)


def test_row_of_another_application_costs_by_its_memory(quiet_grid):
    grid = quiet_grid(1)
    assert grid.row_cost(Workload(application="toy", size=1, bytes_per_row=5e6)) == 1.0
    assert grid.row_cost(Workload(application="other", size=1, bytes_per_row=5e5)) == 0.5
    assert grid.row_cost(Workload(application="other", size=1)) == 1.0
