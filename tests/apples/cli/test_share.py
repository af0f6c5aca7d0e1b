"""`apples share`: any program takes part, and leaves nothing behind however it ends."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from apples.cli import share
from apples.cli.toolbox import toolbox
from apples.coscheduling.events import Process
from apples.daemons.classmemory import ClassMemory
from apples.daemons.processes import ProcessRegistration
from tests.testbed.localcluster import LocalCluster

#: Leaves a page as a rank would, says so, and stays.
LEAVES_A_PAGE = 'touch "$APPLES_MONITOR/$APPLES_JOB.0" "$APPLES_MONITOR/$APPLES_JOB.bell"; echo there >&2'


@pytest.fixture
def node(library):
    """A node manager, and the options that name it. Its directory has a path short enough for a socket."""
    place = Path(tempfile.mkdtemp(prefix="share-"))
    with LocalCluster(place, {"a": "0"}, policy="uncoordinated") as cluster:
        cluster.start_node("a", managed=False)
        yield "--node-socket", cluster.socket("a")
    shutil.rmtree(place)


def left_of(job):
    return [path.name for path in Path("/dev/shm").glob(f"apples-*/*{job}*")]


@pytest.mark.parametrize(("ends", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("true", 0)])
def test_however_the_program_ends_its_pages_go(run, node, ends, code):
    job = f"ends-{os.getpid()}"
    done = run("apples", "share", *node, "--job", job, "--", "sh", "-c", f"{LEAVES_A_PAGE}; {ends}")
    assert (done.code, left_of(job)) == (code, []), done.err
    assert "there" in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_one_that_is_ended_ends_its_program_and_removes_its_pages(start, node, number):
    job = f"ended-{os.getpid()}"
    command = start(
        "apples", "share", *node, "--job", job, "--", "sh", "-c", f"{LEAVES_A_PAGE}; exec sleep 600"
    )
    command.wait_for("there")
    assert left_of(job) != []
    command.process.send_signal(number)
    assert command.end() == 128 + number
    assert command.survivors() == []
    assert left_of(job) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_signal_that_comes_while_the_program_is_being_started_is_heard(monkeypatch, number):
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            if number == signal.SIGINT:
                self.kill()
            # it runs, and we have not come back from starting it
            signal.raise_signal(number)

    def unwind(number, frame):
        raise SystemExit(128 + number)

    monkeypatch.setattr(share.subprocess, "Popen", Popen)
    before = signal.signal(signal.SIGTERM, unwind)
    try:
        if number == signal.SIGTERM:
            with pytest.raises(SystemExit, match="143"):
                share._run(["sleep", "600"], {})
        else:
            # which the program had too, and it decides
            assert share._run(["sleep", "600"], {}) == 137
    finally:
        signal.signal(signal.SIGTERM, before)
    assert started[0].returncode == (-15 if number == signal.SIGTERM else -9)


@pytest.mark.parametrize("called", ["löser", "a program", "x" * 200, "-", "."])
def test_program_may_be_called_anything(run, node, tmp_path, called):
    program = tmp_path / called / "run" if called == "." else tmp_path / called
    program.parent.mkdir(exist_ok=True)
    program.write_text('#!/bin/sh\necho "$APPLES_JOB"\n')
    program.chmod(0o755)
    done = run("apples", "share", *node, "--", program)
    assert done.code == 0, done.err
    assert len(done.out.strip()) <= 64


def test_without_a_compiler_it_is_said_what_does_without(run, node):
    done = run("apples", "share", *node, "--", "true", CC="/nowhere/cc")
    assert done.code == 5
    assert "register by the monitor, whatever the policy: CC is '/nowhere/cc'" in done.err
    assert "under gang and batch `apples-run` does without it" in done.err


ALONE = ("apples", "share", "--wait", "block")


def test_share_with_a_wait_needs_no_node_manager(run):
    job = f"alone-{os.getpid()}"
    shown = 'echo "$APPLES_WAIT|${APPLES_NODE_SOCKET-none}|$LD_PRELOAD"; exit 3'
    done = run(*ALONE, "--job", job, "--monitor", "--", "sh", "-c", shown, APPLES_NODE_SOCKET="/nowhere")
    assert done.code == 3
    wait, socket, library = done.out.strip().split("|")
    assert (wait, socket) == ("block", "none")
    assert library.endswith(".so")
    assert "no rank has started MPI" in done.err
    assert left_of(job) == []


def fit(*arguments):
    return CliRunner().invoke(toolbox, ["share", "--fit", *arguments], standalone_mode=False)


def test_fit_reports_measured_programs_by_its_exit_code(state_of_its_own):
    memory = ClassMemory(state_of_its_own / "classes.json")
    for program, duty in (("/opt/busy", 1.0), ("/opt/idle", 0.0)):
        made = ProcessRegistration(
            process=Process("x", 0), ranks=1, pid=7, uid=0, started=1, program=program, page=None
        )
        memory.note(made, None, duty)
    assert [fit("busy", "busy").return_value, fit("busy", "idle").return_value] == [1, 0]
    assert "do not fit" in fit("busy", "busy").stdout
