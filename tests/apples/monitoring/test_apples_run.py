"""`apples-run --monitor` and `--wait`: the run is measured, what was seen is told and kept."""

import sys

import pytest
from click.testing import CliRunner

from apples.cli.run import run
from apples.coscheduling.events import Wait
from apples.errors import ApplesError, ConfigError, MonitorError
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import unplanned
from apples.model.runrequest import RunRequest
from apples.model.template import Deployment, Workload
from apples.monitoring.job import MonitoredJob, MonitoredRun
from apples.monitoring.names import LIBRARY
from apples.run.loop import AttemptLoop
from apples.testing import finished
from tests.transcripts import recorded


class FakeMonitor:
    """A monitor that observes an efficiency in each run directory."""

    def __init__(self):
        self.collected = 0

    def environment(self, run_dir, wait=None):
        assert run_dir.is_dir()
        return {
            "APPLES_MONITOR": str(run_dir),
            "LD_PRELOAD": "/user.so:/monitor.so",
            "PYTHONPATH": "/monitor",
        }

    def collect(self, run_dir):
        assert run_dir.is_dir()
        self.collected += 1

    def document(self):
        assert self.collected == 1
        return {"parallel_efficiency": 0.5}


def test_monitored_run_has_library_and_pages_in_its_directory(library, tmp_path):
    monitor = MonitoredRun(wait=Wait.SPIN_BLOCK)
    variables = monitor.environment(tmp_path)
    assert (tmp_path / LIBRARY).read_bytes() == library.read_bytes()
    assert variables["LD_PRELOAD"].endswith(str(tmp_path / LIBRARY))
    assert (variables["APPLES_MONITOR"], variables["APPLES_WAIT"]) == (str(tmp_path), "block")
    monitor.collect(tmp_path)
    assert monitor.document()["ranks"] == []


def test_monitored_run_without_room_for_the_library_is_an_error(library, tmp_path):
    with pytest.raises(MonitorError, match="cannot copy the monitor's library"):
        MonitoredRun().environment(tmp_path / "none")


def test_what_the_monitor_saw_is_in_the_document_and_the_record(bench, observed):
    desk = bench(script=[finished(1.0)])
    request = RunRequest(size=8, template=desk.toy, monitor=FakeMonitor())
    decision = desk.agent.decide(request)
    record = AttemptLoop(desk.agent, request).run(decision)
    assert record.monitor == {"parallel_efficiency": 0.5}
    assert decision.document(record)["monitor"] == {"parallel_efficiency": 0.5}
    assert desk.history.get(record.id).monitor == {"parallel_efficiency": 0.5}


@pytest.mark.parametrize(
    ("theirs", "preloaded"), [("/theirs.so", "/theirs.so:/user.so:/monitor.so"), ("", "/user.so:/monitor.so")]
)
def test_paths_of_program_and_monitor_are_joined(bench, monkeypatch, theirs, preloaded):
    desk = bench(script=[finished(1.0)])
    variables = {"LD_PRELOAD": theirs, "PYTHONPATH": "/theirs", "LANG": "C"}
    monkeypatch.setattr(
        desk.toy, "start", lambda *a, **b: Deployment(command=("toy",), environment=variables), raising=False
    )
    request = RunRequest(size=8, template=desk.toy, monitor=FakeMonitor())
    AttemptLoop(desk.agent, request).run(desk.agent.decide(request))
    (launch,) = desk.platform.launcher.requests
    assert launch.environment["LD_PRELOAD"] == preloaded
    assert (launch.environment["PYTHONPATH"], launch.environment["LANG"]) == ("/theirs:/monitor", "C")


def test_run_without_a_monitor_says_nothing_of_it(bench):
    desk = bench(script=[finished(1.0)])
    request = RunRequest(size=8, template=desk.toy)
    decision = desk.agent.decide(request)
    record = AttemptLoop(desk.agent, request).run(decision)
    assert record.monitor == {}
    assert "monitor" not in decision.document(record)


@recorded("apples/monitoring/mock_problems.txt", "words")
def test_mock_grid_has_no_ranks_to_monitor(answered, words):
    result = CliRunner().invoke(run, ["64", *words])
    assert isinstance(result.exception, ConfigError)
    answered(str(result.exception))


def test_without_a_compiler_a_monitored_run_does_not_start(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    result = CliRunner().invoke(run, ["64", "--monitor"])
    assert isinstance(result.exception, ApplesError)
    assert result.exception.exit_code == 5
    assert "no C compiler" in str(result.exception)


def test_real_ranks_of_the_launcher_are_measured_and_block(library, tmp_path, pages_directory):
    """Through mpiexec, front and keeper, as `apples-run --wait block` starts them."""
    plan = unplanned(["localhost", "localhost"], scheduler="test", application="bsp")
    job_words = ["bsp", "--iterations", "30", "--imbalance", "1,20", "--work", "spin", "--pattern", "barrier"]
    with MonitoredJob(wait=Wait.SPIN_BLOCK, directory=pages_directory) as job:
        request = LaunchRequest(
            plan=plan,
            workload=Workload(application="bsp", size=2, iterations=30),
            command=(sys.executable, "-m", "stencil_app", *job_words),
            run_dir=tmp_path,
            environment=job.environment,
            program_output_to_stderr=True,
        )
        outcome = mpirun.run(request, HostAccess(here=True), print)
        monitor = job.document()
    assert outcome.finished, outcome.message
    assert monitor["missing"] == []
    assert [entry["rank"] for entry in monitor["ranks"]] == [0, 1]
    assert all(entry["finalized"] and entry["c_comm"] >= 30 for entry in monitor["ranks"])
    assert monitor["ranks"][0]["sleeps"] > 0
    assert 0 < monitor["parallel_efficiency"] <= 1
    assert list(pages_directory.iterdir()) == []
