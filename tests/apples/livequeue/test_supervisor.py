"""One job from its claim to its end, with real processes: output, codes, limits, what is left behind, who runs it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from apples.livequeue import supervisor
from apples.livequeue.jobprocess import filled
from apples.livequeue.store import Store
from apples.livequeue.supervisor import queue_locks
from apples.livequeue.supervisors import kill_marked
from tests.transcripts import recorded


def supervise(path, job_id, grace_s=0.2):
    command = [sys.executable, "-I", "-S", supervisor.__file__, str(path), str(job_id), str(grace_s)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


@pytest.fixture
def ended(starting, over):
    """Runs a job to its end; its record."""

    def run(*command, **more):
        path, job_id = starting(*command, **more)
        assert supervise(path, job_id).wait(timeout=60) == 0
        return over(path, job_id)

    return run


@recorded("apples/livequeue/job_ends.txt", "script")
def test_how_it_ended(ended, answered, script):
    record = ended("sh", "-c", script)
    answered([record.outcome, str(record.exit_code), record.detail])
    assert record.ended_at == pytest.approx(time.time(), abs=60)


def test_supervisor_stopped_past_the_limit_ends_by_it(starting, over, tmp_path):
    path, job_id = starting("sh", "-c", f"touch {tmp_path}/begun; exec sleep 60", request_s=1.0)
    process = supervise(path, job_id)
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1.2)
    for number in (signal.SIGTERM, signal.SIGCONT):
        os.kill(process.pid, number)
    assert process.wait(timeout=60) == 0
    assert over(path, job_id).outcome == "time limit"


def test_what_a_job_finds(ended, tmp_path):
    script = (
        "pwd; umask; echo $APPLES_QUEUE_JOB $APPLES_QUEUE_PROCS $APPLES_QUEUE_HOSTS $MINE; cat; echo odd >&2"
    )
    (tmp_path / "there").mkdir()
    record = ended(
        "sh",
        "-c",
        script,
        procs=3,
        environment={"PATH": os.environ["PATH"], "MINE": "my own"},
        directory=str(tmp_path / "there"),
        umask=0o027,
        name="x",
        output=str(tmp_path / "%x-%j.out"),
        error=str(tmp_path / "%x.err"),
    )
    assert (tmp_path / "x-1.out").read_text().splitlines() == [
        str(tmp_path / "there"),
        "0027",
        "1 3 here:1 my own",
    ]
    assert (tmp_path / "x.err").read_text() == "odd\n"
    assert (tmp_path / "x.err").stat().st_mode & 0o777 == 0o640
    assert record.exit_code == 0


def test_names_of_output_files():
    job = SimpleNamespace(id=7, name="sun", user="ann", array=5, task=3)
    assert filled("/a/%j-%x-%u%%j%q%", job) == "/a/7-sun-ann%j%q%"
    assert filled("%A_%03a %4A %a%", job) == "5_003 0005 3%"


@recorded("apples/livequeue/not_started.txt", "more", "command")
def test_one_that_cannot_be_started(ended, answered, more, command):
    record = ended(*command, **more)
    answered([record.outcome, str(record.exit_code), record.detail])


def test_file_that_is_no_program_of_this_machine(ended, tmp_path):
    odd = tmp_path / "odd"
    odd.write_bytes(b"\0no magic number\n")
    odd.chmod(0o755)
    record = ended(str(odd))
    assert (record.exit_code, record.detail) == (126, f"{odd}: cannot be run (Exec format error)")
    odd.write_text("no magic number\n")
    assert "names no interpreter; begin it with #!/bin/sh" in ended(str(odd)).detail
    odd.write_bytes(b"#!/bin/sh\r\n")
    record = ended(str(odd))
    assert record.exit_code == 126
    assert "cannot be run: its first line names the interpreter '/bin/sh\\r', which" in record.detail


def test_limit_ends_all_of_it_even_what_does_not_want_to(ended, tmp_path):
    """A program that ignores TERM, and its child that does too."""
    deaf = "trap '' TERM; while :; do sleep 0.05; done"
    script = f"(trap '' TERM; {deaf}) & echo $! > child; {deaf}"
    record = ended("sh", "-c", script, request_s=0.5)
    assert (record.outcome, record.exit_code) == ("time limit", 124)
    child = int((tmp_path / "child").read_text())
    assert not Path(f"/proc/{child}").exists()


def test_one_that_hears_term_has_time_to_tidy(ended, tmp_path):
    record = ended("sh", "-c", "trap 'echo tidy; exit 0' TERM; while :; do sleep 0.02; done", request_s=0.3)
    assert record.outcome == "time limit"
    # Some shells also say that their `sleep` was terminated.
    assert (tmp_path / "1.out").read_text().endswith("tidy\n")


def test_what_it_leaves_behind_is_killed(ended, tmp_path):
    """Even a daemon in a session of its own."""
    script = "setsid sh -c 'echo $$ > daemon; exec sleep 600' & while ! [ -s daemon ]; do sleep 0.01; done"
    record = ended("sh", "-c", script)
    assert record.outcome == "finished"
    assert not Path(f"/proc/{int((tmp_path / 'daemon').read_text())}").exists()


def test_term_is_how_it_is_cancelled(starting, over, cli, tmp_path):
    _, _, eventually = cli
    path, job_id = starting("sh", "-c", "echo up; exec sleep 600")
    process = supervise(path, job_id)
    eventually(lambda: (tmp_path / "1.out").exists() and (tmp_path / "1.out").read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    assert (over(path, job_id).outcome, over(path, job_id).exit_code) == ("cancelled", 143)


def test_many_may_try_and_one_runs_it(starting, over, tmp_path):
    path, job_id = starting("sh", "-c", "echo ran >> runs; sleep 0.3")
    tries = [supervise(path, job_id) for _ in range(6)]
    assert [one.wait(timeout=60) for one in tries] == [0] * 6
    assert over(path, job_id).outcome == "finished"
    assert (tmp_path / "runs").read_text() == "ran\n"


def test_job_that_was_cancelled_before_the_claim_is_not_run(starting, tmp_path):
    path, job_id = starting("touch", "ran")
    store = Store(path)
    with store.transaction():
        store._db.execute("UPDATE jobs SET state = 'ended' WHERE id = ?", (job_id,))
    store.close()
    assert supervise(path, job_id).wait(timeout=60) == 0
    assert not (tmp_path / "ran").exists()


def test_killed_supervisor_gives_its_lock_back_and_the_job_dies_with_it(starting, cli, tmp_path):
    _, _, eventually = cli
    path, job_id = starting("sh", "-c", "echo $$ > pid; exec sleep 600")
    locks = queue_locks(path)
    process = supervise(path, job_id)
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    assert locks.held(job_id)
    process.kill()
    process.wait()
    eventually(lambda: not locks.held(job_id))
    eventually(lambda: not Path(f"/proc/{int((tmp_path / 'pid').read_text())}/cmdline").exists())
    locks.close()


def test_processes_are_found_by_their_token():
    process = subprocess.Popen(
        ["sleep", "600"], env={"PATH": os.environ["PATH"], "APPLES_QUEUE_TOKEN": "mine"}
    )
    other = subprocess.Popen(
        ["sleep", "600"], env={"PATH": os.environ["PATH"], "APPLES_QUEUE_TOKEN": "mine too"}
    )
    deadline = time.monotonic() + 60
    while b"sleep" not in Path(f"/proc/{process.pid}/cmdline").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        # One that is killed and not waited for has no environment any more.
        assert kill_marked("mine") == 1
        assert other.poll() is None
    finally:
        other.kill()
        process.wait()
        other.wait()
