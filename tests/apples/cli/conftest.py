"""The commands as processes, over a state of their own, and what they leave behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent

#: Signals for which programs set handlers, beside INT.
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def marked(mark):
    """Command lines of all processes that have it in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def lasting(mark):
    """The same, after those about to end had a moment. The machine manager ends up to 5 s after the last run."""
    deadline = time.monotonic() + 10.0
    while (found := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


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
        return lasting(self.mark)

    def wait_for_rank(self, word):
        """Until a rank with this word on its command line is alive."""
        while not any(word in line and "rankwrapper" not in line for line in marked(self.mark)):
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.02)


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
def first_run(bare_machine):
    """(the command as it ended, its state): `apples-run` on a bare machine."""
    done, mark, state = bare_machine
    return Finished(done.returncode, done.stdout, done.stderr, mark), state


@pytest.fixture
def known(first_run, tmp_path):
    """A copy of the state after the first run: this machine is measured, benchmarks and one record are there."""
    return Path(shutil.copytree(first_run[1], tmp_path / "known"))


@pytest.fixture
def run_apart(start):
    """As `run`, in a process of its own."""

    def make(program, *arguments, **more):
        command = start(program, *arguments, **more)
        command.code = command.end()
        assert "Traceback" not in command.err, command.err
        return command

    return make


class Finished:
    """A command that was run to its end."""

    def __init__(self, code, out, err, mark):
        self.code, self.out, self.err, self._mark = code, out, err, mark

    def survivors(self):
        """Command lines of the processes that it has left."""
        return lasting(self._mark)


@pytest.fixture
def run(tmp_path, capfd, monkeypatch):
    """Runs a command to its end in this process, which saves another's start; by default over the test's own state."""
    from importlib.metadata import entry_points

    def make(program, *arguments, state=None, **environment):
        (script,) = entry_points(group="console_scripts", name=program)
        mark = f"APPLES_TEST_MARK={uuid.uuid4().hex}"
        name, _, value = mark.partition("=")
        environment = {
            "TMPDIR": str(tmp_path),
            "APPLES_STATE": str(state or tmp_path / "apples-state"),
        } | environment
        handlers = {number: signal.getsignal(number) for number in ENDING}
        capfd.readouterr()
        with monkeypatch.context() as ours, warnings.catch_warnings():
            # As in a process of its own, where nobody turns warnings into errors.
            warnings.simplefilter("ignore")
            for key, said in {**environment, name: value}.items():
                ours.setenv(key, said)
            # Where temporary files go is kept once it was asked for.
            ours.setattr(tempfile, "tempdir", None)
            ours.setattr(sys, "argv", [str(BIN / program), *map(str, arguments)])
            try:
                code = script.load()()
            except SystemExit as end:
                code = end.code
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        done = Finished(code or 0, *capfd.readouterr(), mark)
        assert "Traceback" not in done.err, done.err
        return done

    return make
