"""A whole mock platform: the agent's view is made of forecasts, a run moves time, a seed gives one platform."""

import numpy as np
import pytest

from apples.model.grid import Grid, Host
from apples.model.launchrequest import LaunchRequest
from apples.model.template import Costs
from apples.planning.baselines import default_plan
from apples.platforms.mock import EPOCH, open_mock
from apples.testing.platformcontract import one_rank


@pytest.fixture(scope="module")
def costs():
    return Costs(seconds_per_row={"pentium2-400": {1: 0.001}})


def run(platform, size, costs, tmp_path):
    workload = platform.workload(size)
    plan = default_plan(platform.snapshot(lambda line: None), workload, costs)
    request = LaunchRequest(plan=plan, workload=workload, command=("pmhd3d",), run_dir=tmp_path)
    return platform.run(request, lambda line: None)


def test_snapshot_is_made_of_forecasts_up_to_now():
    platform = open_mock("centurion", seed=1)
    lines = []
    snapshot = platform.snapshot(lines.append)
    assert lines == ["mock grid centurion: reading the sensors of 34 hosts"]
    assert len(snapshot.hosts) == 34
    assert snapshot.taken_at == EPOCH
    availability = [c.availability for c in snapshot.conditions]
    assert all(e.samples == 180 and e.age_s == 0.0 for e in availability)
    assert min(e.value for e in availability) < 0.7 < max(e.value for e in availability)
    off = ~np.eye(34, dtype=bool)
    assert np.all(np.asarray(snapshot.latency_s)[off] > 0)
    assert np.asarray(snapshot.bandwidth_Bps)[off].max() < 12.5e6


def test_forecasts_do_not_know_the_future(costs):
    """The truth after now is drawn already or not; the forecasts are the same."""
    ahead, plain = open_mock("centurion", seed=4), open_mock("centurion", seed=4)
    ahead.truth.processes(1e5)
    mine, other = (w.weather.forecasts() for w in (ahead, plain) if w.snapshot(print) is not None)
    assert mine == other


def test_one_seed_is_one_platform_to_the_last_bit(costs, tmp_path):
    outcomes = [run(open_mock("centurion", seed=s), 1000, costs, tmp_path) for s in (1, 1, 2)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].observed_s != outcomes[2].observed_s


def test_time_passes_with_runs_and_rest_and_the_sensors_go_on(costs, tmp_path):
    platform = open_mock("centurion", seed=1, load="unloaded")
    outcome = run(platform, 1000, costs, tmp_path)
    platform.rest(60.0)
    assert platform.now() == EPOCH + outcome.observed_s + 60.0
    later = platform.snapshot(lambda line: None)
    assert later.conditions[0].availability.samples > 180
    assert later.conditions[0].availability.age_s < 10.0


def test_benchmark_is_that_of_a_dedicated_host():
    platform = open_mock("centurion", seed=1)
    host = platform.pool.hosts[0]
    found = platform.measure(platform.workload(1), host, 1)
    assert found.seconds_per_row == pytest.approx(0.000975, rel=0.03)
    assert found.bytes_per_row == pytest.approx(384e3, rel=0.03)
    assert platform.machine(host) == "mock centurion pentium2-400"


def test_another_grid_can_be_put_under_a_scenario():
    platform = open_mock("centurion", seed=1)
    few = open_mock("centurion", seed=1, grid=platform.pool.restrict(["c01", "c20"]))
    assert [h.name for h in few.snapshot(lambda line: None).hosts] == ["c01", "c20"]


def test_grid_without_a_scenario_of_its_name_is_one_of_workstations():
    hosts = tuple(Host(name=n, cpu_type="whatever", slots=4) for n in ("a", "b"))
    platform = open_mock(seed=1, grid=Grid(name="mine", hosts=hosts))
    assert platform.scenario.name == "workstations"
    assert open_mock(seed=1, grid=Grid(name="centurion", hosts=hosts_of("c"))).scenario.name == "centurion"
    assert platform.snapshot(lambda line: None).conditions[0].capacity.value > 0


def hosts_of(name):
    return (Host(name=name, cpu_type="pentium2-400"),)


def test_command_line_is_that_of_the_ranks(tmp_path):
    request = one_rank("c01", tmp_path)
    assert open_mock("centurion", seed=1).command_line(request) == list(request.command)
