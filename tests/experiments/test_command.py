"""`apples experiment`: lists, runs, prints JSON or a table, and draws where matplotlib is there."""

import builtins
import json

import pytest
from click.testing import CliRunner

from apples.cli.toolbox import toolbox
from apples.errors import ConfigError
from apples_experiments import catalogue, plots
from apples_experiments.catalogue import experiments, run
from apples_experiments.command import experiment
from apples_experiments.result import Curve, Figure, Row
from nws.base.errors import ReportedError


def call(*arguments):
    return CliRunner().invoke(experiment, arguments)


def test_alone_it_lists_the_experiments():
    lines = call().stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(experiments())
    listed = json.loads(call("--json").stdout)["experiments"]
    assert [entry["id"] for entry in listed] == list(experiments())


def test_listing_has_run_time_source_and_data_of_each():
    entries = {entry["id"]: entry for entry in json.loads(call("--json").stdout)["experiments"]}
    assert all(entry["source"] and entry["title"] for entry in entries.values())
    assert entries["A1"]["runtime_s"] == 2
    assert entries["W1"]["data"] == "two logs in $APPLES_DATA/swf"
    assert entries["A1"]["data"] is None
    assert "needs two logs in $APPLES_DATA/swf" in call().stdout


def test_declared_function_exists():
    for entry in experiments().values():
        assert callable(catalogue._load(entry.function))
        assert entry.choices is None or callable(catalogue._load(entry.choices))


def test_toolbox_finds_the_command_by_entry_point():
    assert CliRunner().invoke(toolbox, ["experiment", "--json"]).stdout == call("--json").stdout


def test_toolbox_without_the_distribution_tells_how_to_install(monkeypatch):
    monkeypatch.setattr("nws.base.command.entry_points", lambda **selection: ())
    with pytest.raises(ReportedError, match=r"run `pip install \./experiments`") as caught:
        CliRunner().invoke(toolbox, ["experiment", "A3", "--json"], catch_exceptions=False)
    assert caught.value.exit_code == 1


def test_json_is_one_document_and_progress_goes_elsewhere():
    done = call("A3", "--json")
    document = json.loads(done.stdout)
    assert document["id"] == "A3"
    assert set(document) >= {"rows", "constants", "seeds"}
    assert set(document["rows"][0]) == {"name", "paper", "ours", "unit", "relative"}
    assert "planning a pool of 10" in done.stderr


def test_table_for_people_and_ids_in_either_case():
    done = call("a3", "-q")
    assert done.stderr == ""
    header, first = done.stdout.splitlines()[2:4]
    assert header.split() == ["paper", "ours", "unit", "relative"]
    assert first.split() == ["hosts", "at", "pool", "10", "10", "10", "hosts", "+0.0%"]


def test_unknown_id_is_answered_with_the_legal_ones():
    with pytest.raises(ConfigError, match="unknown experiment 'A99'; legal are A1, A2, A3"):
        run("A99", print)


def test_row_without_a_figure_in_the_paper_has_no_relative():
    assert Row(name="x", paper=None, ours=1.0, unit="s").relative is None
    assert Row(name="x", paper=0, ours=1.0, unit="s").relative is None
    assert Row(name="x", paper=2.0, ours=1.0, unit="s").relative == -0.5


def test_plot_without_an_id_is_a_usage_error(tmp_path):
    done = call("--plot", str(tmp_path / "a.png"))
    assert done.exit_code == 2
    assert "--plot needs the ID of an experiment" in done.stderr


def test_plot_that_cannot_be_made_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(ConfigError, match=r"unknown kind of file '.bmp'; legal are .png, .pdf, .svg"):
        plots.check(tmp_path / "a.bmp")
    with pytest.raises(ConfigError, match="there is no directory"):
        plots.check(tmp_path / "nowhere" / "a.png")


def test_without_matplotlib_the_message_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ReportedError, match=r"pip install 'apples-grid\[plot\]'"):
        plots.check(tmp_path / "a.png")


def test_figure_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="drawing needs the extra 'plot'")
    curves = (
        Curve(label="seen", x=(1.0, 2.0), y=(3.0, 4.0)),
        Curve(label="", x=(1.0, 2.0), y=(3.1, 3.9), style="dashed"),
        Curve(label="cases", x=(1.0, 2.0), y=(3.1, 3.9), style="points"),
        Curve(label="runs", x=(1.0, 2.0), y=(1.0, 2.0), style="bars"),
    )
    file = tmp_path / "figure.png"
    plots.draw(Figure(title="t", x_label="x", y_label="y", curves=curves), file)
    assert file.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match="cannot be written"):
        plots.draw(Figure(title="t", x_label="x", y_label="y", curves=curves), tmp_path / "gone" / "a.png")
