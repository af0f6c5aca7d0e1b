"""What cannot be understood: every problem at once, what is legal, the right exit code, nothing left behind."""

import re
from importlib.metadata import version

import pytest
from click.testing import CliRunner

from apples.cli.run import run as apples_run
from apples.cli.toolbox import toolbox
from apples.errors import (
    ConfigError,
    HistoryError,
    LaunchError,
    NoDaemon,
    NoFeasiblePlan,
    UnknownJob,
    UnknownRun,
)
from apples.platforms.platform import local_host
from nws.base.errors import NotFound, ServiceUnreachable, UnknownName
from tests.transcripts import recorded, text_of

BAD_GRID = text_of("apples/cli/usage_bad_grid.txt")


@pytest.fixture
def problems(state_of_its_own):
    """Calls `apples-run` in this process and gives the lines of the error it raised."""

    def call(*arguments, kind=ConfigError):
        result = CliRunner().invoke(apples_run, [str(a) for a in arguments])
        assert isinstance(result.exception, kind), result.output
        assert result.stdout == ""
        assert not state_of_its_own.exists(), "nothing is kept of a call that was not understood"
        return str(result.exception).splitlines()

    return call


@recorded("apples/cli/usage.txt", "arguments")
def test_usage(answered, arguments):
    result = CliRunner().invoke(apples_run, arguments)
    assert result.exit_code == 2
    answered(result.stderr)


def test_bad_grid_file_is_told_line_by_line(problems, tmp_path):
    grid = tmp_path / "grid.yaml"
    grid.write_text(BAD_GRID)
    assert problems("64", "--grid", grid) == [
        f"{grid}:3: hosts.0.slotz: unknown key (did you mean slots?); "
        "legal keys are name, slots, cpu_type, site, address, memory",
        f"{grid}:4: hosts.1.slots: should be a whole number; got 'two'",
        f"{grid}:6: links.default.latency: latency must be 0 or more; got -1ms",
    ]


def test_problems_of_different_kinds_are_told_at_once(problems, tmp_path):
    grid = tmp_path / "grid.yaml"
    grid.write_text(BAD_GRID)
    found = problems("64", "-g", grid, "-s", "nx=-4", "-s", "colour=red", "-t", "soon", "--seed", 1)
    assert [line.partition(" ")[0] for line in found] == [
        "--time-limit",
        "--seed",
        *(f"{grid}:{line}:" for line in (3, 4, 6)),
        "mhd3d:",
        "mhd3d:",
    ]


@recorded("apples/cli/problems.txt", "arguments")
def test_one_problem(problems, answered, arguments):
    lines = problems("64", *(word.replace("HOST", local_host()) for word in arguments))
    answered([line.replace(local_host(), "HOST") for line in lines])


def test_unknown_launcher_hides_no_other_problem(problems):
    limit, launcher = problems("64", "--launcher", "nosuch", "--time-limit", "bogus", "--partition", "p")
    assert limit.startswith("--time-limit 'bogus' is not a span of time")
    assert launcher.startswith("--launcher nosuch: no such platform; legal are ")
    first, second = problems("64", "--mock", "--launcher", "nosuch", "-t", "bogus")
    assert (first.split()[0], second.split()[0]) == ("--time-limit", "--launcher")


def test_help_of_apples_run_lists_every_exit_code():
    text = CliRunner().invoke(apples_run, ["--help"]).stdout.partition("Exit codes:")[2]
    codes = set(re.findall(r"\b\d+\b", text))
    assert codes >= {str(kind.exit_code) for kind in (NoFeasiblePlan, HistoryError, LaunchError, NoDaemon)}
    assert codes >= {"0", "2", "5", "6", "7", "8", "124", "126", "127", "128", "130"}


def test_bad_hostfile_is_told_line_by_line(problems, tmp_path):
    path = tmp_path / "hosts"
    path.write_text("localhost slots=x\n# fine\nbad/name\n")
    first, second = problems("64", "--hostfile", path)
    assert first.startswith(f"{path}:1: ")
    assert second.startswith(f"{path}:3: ")


@pytest.mark.parametrize(
    ("kind", "code"), [(ConfigError, 2), (NoFeasiblePlan, 3), (HistoryError, 4), (LaunchError, 125)]
)
def test_errors_know_their_exit_code(kind, code):
    assert kind("x").exit_code == code


def test_toolbox_lists_its_commands():
    result = CliRunner().invoke(toolbox, ["--help"])
    assert result.exit_code == 0
    assert all(f"  {name} " in result.output for name in ("calibrate", "history", "experiment"))


@pytest.mark.parametrize("command", ["calibrate", "history", "experiment"])
def test_tool_has_help_and_json(command):
    assert "--json" in CliRunner().invoke(toolbox, [command, "--help"]).output


def test_unknown_tool():
    assert CliRunner().invoke(toolbox, ["repair"]).exit_code == 2


def commands():
    from nws.cli import cli as nws
    from stencil_app.cli import commands as stencil_app

    return {"apples-run": apples_run, "apples": toolbox, "nws": nws, "stencil-app": stencil_app}


@pytest.mark.parametrize("name", ["apples-run", "apples", "nws", "stencil-app"])
def test_command_has_version(name):
    result = CliRunner().invoke(commands()[name], ["--version"], prog_name=name)
    assert (result.exit_code, result.output) == (0, f"{name}, version {version('apples-grid')}\n")


@pytest.mark.parametrize(
    ("name", "word", "near"),
    [
        ("apples-run", "--schedular", "--scheduler"),
        ("apples", "histroy", "history"),
        ("nws", "forcast", "forecast"),
        ("nws", "--versoin", "--version"),
        ("stencil-app", "heta", "heat"),
    ],
)
def test_misspelt_word_suggests_the_nearest(name, word, near):
    result = CliRunner().invoke(commands()[name], [word])
    assert result.exit_code == 2
    assert "Did you mean" in result.output
    assert near in result.output


def test_unknown_names_have_one_exit_code():
    codes = {UnknownJob.exit_code, UnknownRun.exit_code, UnknownName.exit_code, NotFound.exit_code}
    assert codes == {8}


def test_no_answer_has_one_exit_code():
    assert {NoDaemon.exit_code, ServiceUnreachable.exit_code} == {7}


def test_help_has_headings_in_order():
    lines = CliRunner().invoke(apples_run, ["--help"]).output.splitlines()
    headings = [line[:-1] for line in lines if re.fullmatch(r"\S.*:", line)]
    assert headings == [
        *(
            "Which hosts",
            "Slurm",
            "Mock grid",
            "Forecasts",
            "Plan",
            "Limits",
            "Run",
            "Checkpoints and attempts",
        ),
        *("Adaptation", "Sharing hosts", "Output", "Options"),
    ]
