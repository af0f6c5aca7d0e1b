"""The commands as processes, over a state of their own, and what they leave behind."""

import os
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent

#: A run of a second or two.
SMALL = ("64", "--app", "heat", "--set", "nx=32", "--set", "ny=32", "--set", "iterations=20")


class Command:
    """One command that runs: its process, and what of it is still alive."""

    def __init__(self, program, arguments, state, more):
        self.mark = f"APPLES_TEST_MARK={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        self.process = subprocess.Popen(
            [str(BIN / program), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "APPLES_STATE": str(state), name: value, **more},
            # A group of its own, so that a test can do what Ctrl-C at a terminal does.
            start_new_session=True,
        )
        self.out = self.err = ""

    def wait_for(self, text):
        """Read stderr up to the line with `text`."""
        for line in self.process.stderr:
            self.err += line
            if text in line:
                return
        raise AssertionError(f"{text!r} was never said, only:\n{self.err}")

    def end(self, timeout_s=60):
        """Wait for the end; the exit code."""
        self.out, rest = self.process.communicate(timeout=timeout_s)
        self.err += rest
        return self.process.returncode

    def survivors(self):
        """Command lines of all processes that carry our mark; those about to end have a moment."""
        deadline = time.monotonic() + 5.0
        while (found := self._marked()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def wait_for_rank(self, word):
        """Until a rank with this word on its command line is alive."""
        while not any(word in line and "shim" not in line for line in self._marked()):
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.02)

    def _marked(self):
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@pytest.fixture
def start(tmp_path):
    """Starts a command, by default over the test's own state; killed at the end if it still runs."""
    commands = []

    def make(program, *arguments, state=None, **environment):
        environment.setdefault("TMPDIR", str(tmp_path))
        command = Command(program, arguments, state or tmp_path / "apples-state", environment)
        commands.append(command)
        return command

    yield make
    for command in commands:
        if command.process.poll() is None:
            os.killpg(command.process.pid, 9)
        command.process.wait()
        command.process.stdout.close()
        command.process.stderr.close()


@pytest.fixture(scope="session")
def first_run(tmp_path_factory):
    """(the command, its state): `apples-run` on a bare machine."""
    state = tmp_path_factory.mktemp("first") / "state"
    command = Command("apples-run", SMALL, state, {})
    command.code = command.end(timeout_s=120)
    return command, state


@pytest.fixture
def known(first_run, tmp_path):
    """A copy of the state after the first run: this machine is measured, benchmarks and one record are there."""
    return Path(shutil.copytree(first_run[1], tmp_path / "known"))


@pytest.fixture
def small():
    """Arguments of a short run, which `known` knows."""
    return SMALL


@pytest.fixture
def run(start):
    """Runs a command to its end."""

    def make(program, *arguments, **more):
        command = start(program, *arguments, **more)
        command.code = command.end()
        assert "Traceback" not in command.err, command.err
        return command

    return make
