"""`apples drain`: names and times are checked, and commands that run at once wait for each other."""

import json
import threading

import pytest
from click.testing import CliRunner

from apples.cli.toolbox import toolbox
from apples.errors import ConfigError
from nws.base.lock import FileLock


def drain(*arguments):
    return CliRunner().invoke(toolbox, ["drain", *arguments])


def drained():
    return [one["host"] for one in json.loads(drain("--json").stdout)["hosts"]]


def test_drain_lists_what_it_adds_and_undo_removes_it(state_of_its_own):
    assert drain("a", "b").stdout.splitlines() == [f"{n} is drained (apples drain --undo {n})" for n in "ab"]
    assert drain("--undo", "a").exit_code == 0
    assert drained() == ["b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a\x1b[31m"], "printable characters"),
        ([""], "printable characters"),
        (["a", "--for", "99999999d"], "before the year 9999"),
        (["a", "--for", "999999999999999d"], "before the year 9999"),
        (["--undo"], "names no host"),
        (["a", "--undo", "--for", "2h"], "exclude each other"),
    ],
)
def test_drain_of_an_illegal_host_or_time_changes_nothing(state_of_its_own, arguments, message):
    result = drain(*arguments)
    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception)
    assert drained() == []


def test_drain_waits_for_another_that_changes_the_list(state_of_its_own):
    state_of_its_own.mkdir()
    other = FileLock(state_of_its_own / "drained.lock", remove=True)
    timer = threading.Timer(0.1, other.release)
    timer.start()
    assert drain("a").exit_code == 0
    timer.join()
    assert drained() == ["a"]
