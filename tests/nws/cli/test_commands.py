"""`nws`: what people and programs read, and how it ends when something is wrong."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.transcripts import recorded

COMMANDS = ["measure", "show", "forecast", "export", "score"]
SERIES = {"cpu.new@a": [0.5, 0.75], "network.latency@a>b": [5.34e-5] * 3, "memory.free@a": [2.3e10]}


@pytest.fixture
def now():
    """Seconds since the epoch as the test begins: ages are told from it."""
    return time.time()


def test_help_names_all_commands(nws):
    run = nws("--help")
    assert run.code == 0
    assert all(f"  {command} " in run.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_json(nws, command):
    assert "--json" in nws(command, "--help").out


def test_measure_then_show_then_forecast_then_export(nws):
    run = nws("measure", "--rounds", 2, "--interval", 0)
    assert run.code == 0
    assert "round 2 of 2: 6 measurements" in run.err
    assert "memory.free@" in run.out
    assert nws("show").out.count("\n") == 1 + 6
    assert nws("forecast").out.count("\n") == 1 + 6
    assert nws("export").out.count("\n") == 1 + 12


def test_measure_as_json(nws, state):
    document = json.loads(nws("measure", "--json").out)
    assert document["store"] == str(state / "weather.db")
    assert document["runs"] is None
    assert {m["unit"] for m in document["measurements"]} == {"CPU", "CPUs", "B", "s", "B/s"}


def test_measure_at_a_period_accounts_for_every_run(nws):
    run = nws("measure", "--every", 1, "--for", 1.5, "--json")
    runs = json.loads(run.out)["runs"]
    assert runs["due"] == sum(count for name, count in runs.items() if name != "due") >= 2
    assert f"{runs['done']} of {runs['due']} runs done" in run.err


@recorded("nws/cli/measure_problems.txt", "options")
def test_options_that_contradict(nws, answered, options):
    run = nws("measure", *options)
    assert run.code == 2
    answered(run.err)


def test_show_marks_what_is_stale(nws, measured, now):
    measured(now - 1000, **{"cpu.new@a": [0.5]})
    measured(now, **{"cpu.new@b": [0.5, 0.6]})
    # stored before the clock was set back
    measured(now + 1000, **{"cpu.new@c": [0.5]})
    old, new, future = nws("show").out.splitlines()[1:]
    assert future.split()[-4:] == ["in", "17", "min", "stale"]
    assert old.split() == ["cpu.new@a", "1", "0.500", "CPU", "17", "min", "stale"]
    assert new.split()[:4] == ["cpu.new@b", "2", "0.600", "CPU"]
    assert "stale" not in new
    assert nws("show", "--stale-after", 5000).out.count("stale") == 1


def test_show_as_json(nws, measured, now):
    measured(now - 1000, **SERIES)
    first = json.loads(nws("show", "--json").out)["series"][0]
    assert first.pop("age_s") >= 1000
    assert first == {
        "series": "cpu.new@a",
        "unit": "CPU",
        "samples": 2,
        "last": 0.75,
        "measured_at": now - 1000,
        "stale": True,
    }


def test_forecast_of_named_series(nws, measured, now):
    measured(now, **SERIES)
    heading, line = nws("forecast", "network.latency@a>b").out.splitlines()
    assert heading.split() == ["series", "forecast", "MAE", "RMSE", "method", "samples", "age"]
    assert line.split()[:7] == ["network.latency@a>b", "53.4", "µs", "0", "µs", "0", "µs"]


def test_forecast_as_json_has_no_nan(nws, measured, now):
    measured(now, **SERIES)
    (found,) = json.loads(nws("forecast", "memory.free@a", "--json").out)["forecasts"]
    assert (found["value"], found["mae"], found["rmse"], found["samples"]) == (2.3e10, None, None, 1)


@pytest.mark.parametrize("command", ["forecast", "export"])
def test_series_nobody_measured(nws, measured, command, now):
    measured(now, **{"cpu.new@a": [0.5]})
    run = nws(command, "cpu.new@a", "cpu.new@z", "memory.free@z")
    assert run.code == 8
    assert run.err == "nws: no measurements of cpu.new@z, memory.free@z; known are cpu.new@a\n"


def test_export_is_exact_and_in_order_of_time(nws, measured, now):
    measured(now, **SERIES)
    rows = list(csv.DictReader(nws("export").out.splitlines()))
    assert [(r["series"], float(r["value"])) for r in rows] == [
        (name, value) for name in sorted(SERIES) for value in SERIES[name]
    ]
    assert float(rows[1]["t"]) == now


def test_score_reads_what_export_writes(nws, measured, tmp_path, now):
    measured(now, **{"cpu.new@a": [0.5, 0.6] * 20})
    (tmp_path / "x.csv").write_text(nws("export").out)
    document = json.loads(nws("score", tmp_path / "x.csv", "--json").out)
    assert (document["samples"], document["scored"]) == (40, 20)


def test_export_as_json(nws, measured, now):
    measured(now, **SERIES)
    found = json.loads(nws("export", "cpu.new@a", "--json").out)["series"]
    assert found == [{"series": "cpu.new@a", "unit": "CPU", "t": [now - 10, now], "value": [0.5, 0.75]}]


@pytest.mark.parametrize("command", ["show", "forecast", "export"])
def test_nothing_measured_yet(nws, command, state):
    run = nws(command)
    assert (run.code, run.out) == (4, "")
    assert run.err.endswith("weather.db: it does not exist yet; run `nws measure` first\n")
    assert not state.exists()


@pytest.mark.parametrize("command", ["measure", "show", "forecast", "export"])
def test_unfit_store_is_one_message_and_no_traceback(nws, command, tmp_path):
    (tmp_path / "broken.db").write_text("hello " * 1000)
    run = nws(command, "--store", tmp_path / "broken.db")
    assert (run.code, run.out) == (4, "")
    assert run.err.startswith(f"nws: {tmp_path}/broken.db: not an SQLite database; move it away")
    assert run.err.count("\n") == 1


def test_unknown_command_or_option(nws):
    assert nws("predict").code == 2
    assert nws("show", "--colour").code == 2


def test_ctrl_c_ends_a_periodic_measurement_with_130_and_keeps_the_history(tmp_path):
    store = tmp_path / "w.db"
    command = [sys.executable, "-m", "nws.cli", "measure", "--every", "0.7", "--store", str(store)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        # on a busy machine the first round may outlast the period: that is told before it
        assert any("round 1 of 1" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "runs done" in said
    assert said.endswith("nws: interrupted\n")
    shown = subprocess.run(
        [sys.executable, "-m", "nws.cli", "show", "--store", str(store), "--json"],
        capture_output=True,
        check=True,
    )
    assert len(json.loads(shown.stdout)["series"]) == 6


def test_reader_that_has_seen_enough(measured, state, now):
    measured(now, **{"cpu.new@a": [0.5] * 20_000})
    command = [sys.executable, "-m", "nws.cli", "export"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ, text=True
    ) as process:
        assert process.stdout.readline() == "series,t,value\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_full_disk_under_our_output(measured, now):
    measured(now, **SERIES)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "nws.cli", "show"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "nws: [Errno 28] No space left on device\n")


def test_home_that_does_not_exist(nws, monkeypatch):
    monkeypatch.setenv("APPLES_STATE", "~nobody-of-that-name/state")
    run = nws("show")
    assert run.code == 4
    assert run.err == (
        "nws: APPLES_STATE '~nobody-of-that-name/state': there is no such home directory; "
        "set APPLES_STATE to a directory\n"
    )
