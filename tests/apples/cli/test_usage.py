"""Help, versions and exit codes; `test_commands.py` has what cannot be understood."""

import re
from importlib.metadata import version

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
from nws.base.errors import NotFound, ServiceUnreachable, UnknownName
from stencil_app.cli import commands as stencil_app


def test_help_of_apples_run_lists_every_exit_code():
    text = CliRunner().invoke(apples_run, ["--help"]).stdout.partition("Exit codes:")[2]
    codes = set(re.findall(r"\b\d+\b", text))
    assert codes >= {str(kind.exit_code) for kind in (NoFeasiblePlan, HistoryError, LaunchError, NoDaemon)}
    assert codes >= {"0", "2", "5", "6", "7", "8", "124", "126", "127", "128", "130"}


def test_toolbox_lists_its_commands():
    result = CliRunner().invoke(toolbox, ["--help"])
    assert result.exit_code == 0
    assert all(f"  {name} " in result.output for name in ("calibrate", "history", "experiment"))


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


def test_stencil_app_has_version_and_suggests_the_nearest_word():
    done = CliRunner().invoke(stencil_app, ["--version"], prog_name="stencil-app")
    assert (done.exit_code, done.output) == (0, f"stencil-app, version {version('apples-grid')}\n")
    done = CliRunner().invoke(stencil_app, ["heta"])
    assert done.exit_code == 2
    assert "heat" in done.output.partition("Did you mean")[2]


def test_errors_of_one_kind_have_one_exit_code():
    kinds = {
        2: [ConfigError],
        3: [NoFeasiblePlan],
        4: [HistoryError],
        7: [NoDaemon, ServiceUnreachable],
        8: [UnknownJob, UnknownRun, UnknownName, NotFound],
        125: [LaunchError],
    }
    assert {code: {kind.exit_code for kind in same} for code, same in kinds.items()} == {
        c: {c} for c in kinds
    }
