"""`apples-run --monitor` and `--wait`: the run is measured, what was seen is told and kept."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from apples.agent import RunRequest
from apples.cli.run import run
from apples.errors import ApplesError, ConfigError
from apples.testing import finished


def test_what_the_monitor_saw_is_in_the_document_and_the_record(bench, observed):
    desk = bench(script=[finished(1.0)])
    request = RunRequest(size=8, template=desk.toy, monitored=lambda: {"parallel_efficiency": 0.5})
    decision = desk.agent.decide(request)
    record = desk.agent.run(request, decision)
    assert record.monitor == {"parallel_efficiency": 0.5}
    assert decision.document(record)["monitor"] == {"parallel_efficiency": 0.5}
    assert desk.history.get(record.id).monitor == {"parallel_efficiency": 0.5}


def test_a_run_without_a_monitor_says_nothing_of_it(bench):
    desk = bench(script=[finished(1.0)])
    request = RunRequest(size=8, template=desk.toy)
    decision = desk.agent.decide(request)
    record = desk.agent.run(request, decision)
    assert record.monitor == {}
    assert "monitor" not in decision.document(record)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--monitor", "--mock"], "--monitor is for real ranks, the mock grid has none; leave --mock out"),
        (["--wait", "poll", "--scenario", "x"], "--wait poll is for real ranks, the mock grid has none"),
    ],
)
def test_the_mock_grid_has_no_ranks_to_monitor(words, wanted):
    result = CliRunner().invoke(run, ["64", *words])
    assert isinstance(result.exception, ConfigError)
    assert wanted in str(result.exception)


def test_without_a_compiler_a_monitored_run_does_not_start(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    result = CliRunner().invoke(run, ["64", "--monitor"])
    assert isinstance(result.exception, ApplesError)
    assert result.exception.exit_code == 5
    assert "no C compiler" in str(result.exception)


def test_a_real_run_is_measured_and_blocks(library, tmp_path):
    """Through keeper and relays: two ranks of the heat application on a grid that states its costs."""
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "name: here\nhosts: [{name: localhost, cpu_type: any, slots: 2}]\n"
        "applications: {heat: {seconds_per_row: {any: 1ms}, overhead: {constant_s: 1}}}\n"
    )
    words = ["8", "--ranks", "2", "--grid", str(grid), "--wait", "block", "--monitor", "--json"]
    for setting in ("nx=16", "ny=16", "iterations=30"):
        words += ["--set", setting]
    done = subprocess.run(
        [sys.executable, "-c", "from apples.cli.run import main; main()", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    monitor = json.loads(done.stdout)["monitor"]
    assert monitor["missing"] == []
    assert [entry["rank"] for entry in monitor["ranks"]] == [0, 1]
    assert all(entry["finalized"] and entry["c_comm"] > 0 for entry in monitor["ranks"])
    assert 0 < monitor["parallel_efficiency"] <= 1
