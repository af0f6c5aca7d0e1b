"""What commands print that need no run: problems with what is legal, tables, versions; exit code and all lines.

Lines on stderr begin with `!`. Files that they name are in `tests/golden/apples/cli/inputs`.
"""

import re
import shlex
import shutil
from importlib.metadata import version

import pytest

from nws.client import local_host
from tests.transcripts import GOLDEN, recorded


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """The current directory, which has the files that commands name."""
    directory = tmp_path / "inputs"
    shutil.copytree(GOLDEN / "apples" / "cli" / "inputs", directory)
    (directory / "windows.sh").chmod(0o755)
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def printed(run, inputs, tmp_path, state_of_its_own):
    """Returns what a command line prints, without what depends on time and machine."""

    def call(line, environment):
        program, *words = shlex.split(line.replace("HOST", local_host()))
        done = run(program, *words, state=state_of_its_own, **environment)
        errors = [f"! {text}" for text in done.err.splitlines()]
        text = "\n".join([f"exit code {done.code}", *done.out.splitlines(), *errors])
        text = text.replace(str(tmp_path), "DIR").replace(local_host(), "HOST")
        text = text.replace(f"version {version('apples-grid')}", "version VERSION")
        refused = done.code == 2 and ("apples-run" in line or "drain" in line)
        assert not refused or not any(state_of_its_own.glob("*")), (
            "nothing is kept of what was not understood"
        )
        return re.sub(r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS", text)

    return call


@recorded("apples/cli/commands.txt", "line", "environment")
def test_command_prints_what_is_recorded(printed, answered, line, environment):
    answered(printed(line, environment))


@recorded("apples/cli/advise.txt", "line", "environment")
def test_advise_prints_what_is_recorded(printed, answered, line, environment):
    answered(printed(line, environment))
