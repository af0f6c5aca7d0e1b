"""`apples drain`: names and times are checked, and commands that run at once wait for each other."""

import json
import threading

from click.testing import CliRunner

from apples.cli.toolbox import toolbox
from nws.base.lock import FileLock


def drain(*arguments):
    return CliRunner().invoke(toolbox, ["drain", *arguments])


def drained():
    return [one["host"] for one in json.loads(drain("--json").stdout)["hosts"]]


def test_drain_lists_what_it_adds_and_undo_removes_it(state_of_its_own):
    assert drain("a", "b").stdout.splitlines() == [f"{n} is drained (apples drain --undo {n})" for n in "ab"]
    assert drain("--undo", "a").exit_code == 0
    assert drained() == ["b"]


def test_drain_waits_for_another_that_changes_the_list(state_of_its_own):
    state_of_its_own.mkdir()
    other = FileLock(state_of_its_own / "drained.lock", remove=True)
    timer = threading.Timer(0.1, other.release)
    timer.start()
    assert drain("a").exit_code == 0
    timer.join()
    assert drained() == ["a"]
