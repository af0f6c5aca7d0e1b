"""Services in the background: a small command in place of a real service."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.transcripts import text_of

SCRIPT = text_of("nws/base/detach_script.txt")


@pytest.fixture
def demo(state_of_its_own):
    """Run the command; a service that a test has left running is killed."""

    def run(*arguments, script=SCRIPT):
        return subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    yield run
    for path in state_of_its_own.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def pid_of(state):
    (path,) = state.glob("*.pid")
    return int(path.read_text())


def test_detach_returns_when_the_service_is_ready(demo, state_of_its_own):
    begun = time.monotonic()
    done = demo("--ready", 0.5, "--detach")
    assert time.monotonic() - begun >= 0.5
    pid = pid_of(state_of_its_own)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "starting" in done.stderr
    assert f"demo: listens at 1.2.3.4; process {pid}, log {state_of_its_own}/demo" in done.stderr
    assert os.getsid(pid) == pid


def test_detach_fails_with_the_error_of_the_service(demo):
    done = demo("--ready", 0, "--code", 7, "--detach")
    assert done.returncode == 7
    assert "demo: no disk" in done.stderr


def test_service_that_ends_well_before_it_is_ready_is_an_error(demo):
    assert demo("--ready", 0, "--code", 0, "--detach").returncode == 1


def test_end_of_a_service_is_noticed_where_sigchld_is_ignored(state_of_its_own):
    script = f"import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n{SCRIPT}"
    command = [sys.executable, "-c", script, "--ready", "0", "--code", "7", "--detach"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("demo: no disk\n")


def test_detach_twice_is_refused(demo, state_of_its_own):
    demo("--ready", 0, "--detach")
    done = demo("--ready", 0, "--detach")
    assert done.returncode == 2
    assert f"demo already runs in the background (process {pid_of(state_of_its_own)})" in done.stderr


def test_detach_after_a_kill_starts_again(demo, state_of_its_own):
    demo("--ready", 0, "--detach")
    killed = pid_of(state_of_its_own)
    os.kill(killed, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{killed}/fd").exists() and os.listdir(f"/proc/{killed}/fd"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert demo("--ready", 0, "--detach").returncode == 0
    assert pid_of(state_of_its_own) != killed


def test_stop_ends_the_service_without_its_options(demo, state_of_its_own):
    demo("--ready", 0, "--detach")
    done = demo("--stop")
    assert (done.returncode, done.stderr) == (0, f"demo: stopped (process {pid_of(state_of_its_own)})\n")


def test_stop_without_a_service_fails(demo, state_of_its_own):
    done = demo("--stop")
    assert done.returncode == 1
    assert done.stderr == f"demo: not running in the background with state in {state_of_its_own}\n"


def test_detach_gives_up_waiting_after_its_patience(demo):
    done = demo("--ready", 30, "--detach", script=SCRIPT.replace("patience_s=5.0", "patience_s=0.5"))
    assert done.returncode == 0
    assert "demo: started, but not ready yet" in done.stderr
