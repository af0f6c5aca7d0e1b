"""Signals at any moment: the right exit code, no process, no temporary file, a readable history."""

import os
import signal
import time
from pathlib import Path

import pytest

from apples.costs.store import History
from nws.base.scratch import ScratchDirectory

LONG = ("64", "--app", "heat", "--set", "nx=32", "--set", "ny=32", "--set", "iterations=100000000")


def to_group(command, number):
    """What a terminal does at Ctrl-C."""
    os.killpg(command.process.pid, number)


def to_process(command, number):
    command.process.send_signal(number)


@pytest.fixture
def nothing_left(tmp_path):
    """Checks that a command has left no process, no temporary file and a history that can be read."""

    def check(command, state):
        assert command.survivors() == []
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith("apples-") and p != state] == []
        outcomes = [record.outcome for record in History(state / "history.db").records()]
        return [None if outcome is None else outcome.ended for outcome in outcomes]

    return check


INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.mark.parametrize(
    ("send", "number", "said"),
    [
        (to_group, INT, "apples-run: interrupted\n"),
        (to_process, TERM, "apples-run: ended by signal TERM\n"),
        (to_group, HUP, "apples-run: ended by signal HUP\n"),
    ],
)
def test_while_measuring(start, nothing_left, state_of_its_own, send, number, said):
    command = start("apples-run", *LONG)
    command.wait_for("measuring")
    send(command, number)
    assert command.end() == 128 + number
    assert command.err.endswith(said)
    assert "Traceback" not in command.err
    assert nothing_left(command, state_of_its_own) == []


@pytest.mark.parametrize(
    ("who", "send", "number"), [("warm", to_group, INT), ("--benchmark", to_process, TERM)]
)
def test_while_benchmarking(start, nothing_left, state_of_its_own, send, number, who):
    command = start("apples-run", *LONG)
    command.wait_for("benchmark of heat")
    command.wait_for_rank(who)
    send(command, number)
    assert command.end() == 128 + number
    assert nothing_left(command, state_of_its_own) == []


@pytest.mark.parametrize(
    ("after_s", "send", "number"),
    [
        (0.0, to_group, INT),
        pytest.param(0.3, to_process, TERM, marks=pytest.mark.nightly),
        (1.0, to_process, INT),
    ],
)
def test_while_running(start, nothing_left, known, send, number, after_s):
    """Ranks that start, ranks that meet in MPI, ranks that compute."""
    command = start("apples-run", *LONG, state=known)
    command.wait_for_rank("--slabs")
    time.sleep(after_s)
    send(command, number)
    assert command.end() == 128 + number
    assert f"apples-run: the run was interrupted by signal {number.name.removeprefix('SIG')}\n" in command.err
    if after_s > 0.0:
        # An interpreter that is still starting says by itself where it was interrupted.
        assert "Traceback" not in command.err
    assert nothing_left(command, known) == ["finished", "interrupted"]


def test_killed_while_running(start, run, nothing_left, known, tmp_path, monkeypatch):
    command = start("apples-run", *LONG, state=known)
    command.wait_for_rank("--slabs")
    while not (noted := list(tmp_path.glob("apples-run-*/.shm-mpich_shm_*"))):
        time.sleep(0.01)
    command.process.kill()
    assert command.end() == -signal.SIGKILL
    assert command.survivors() == []
    # as if the rank supervisors had been killed, too
    segment = Path("/dev/shm") / f"{noted[0].name.removeprefix('.shm-')}0"
    segment.touch()
    # the next launch removes what SIGKILL left
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ScratchDirectory("apples-run-") as directory:
        assert list(tmp_path.glob("apples-run-*")) == [directory]
    assert not segment.exists()
    assert nothing_left(command, known) == ["finished", None]
    assert run("apples", "history", state=known).out.splitlines()[2].endswith("not ended, or lost")


def test_nohup_is_respected(start, known, small):
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        command = start("apples-run", *small, state=known)
    finally:
        signal.signal(signal.SIGHUP, previous)
    command.wait_for("measuring")
    to_process(command, signal.SIGHUP)
    assert command.end() == 0
    assert "observed" in command.err


def test_reader_that_has_seen_enough(start, known, small):
    command = start("apples-run", *small, "--json-lines", state=known)
    command.process.stdout.readline()
    command.process.stdout.close()
    command.err = command.process.stderr.read()
    assert command.process.wait(60) == 1
    assert "Traceback" not in command.err
