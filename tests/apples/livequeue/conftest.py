"""Queues on disk with a manual clock, managers as processes with their own state, and submissions to both."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from itertools import count
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from apples.cli import toolbox
from apples.errors import SharingError
from apples.hosts.kernel import PR_SET_PDEATHSIG, prctl
from apples.livequeue.core import LiveQueue
from apples.livequeue.queueclient import QueueClient, survey
from apples.livequeue.queuehosts import Machine
from apples.livequeue.records import ENDED, FAILED, FINISHED, STARTING, JobEnd, Submission
from apples.livequeue.store import Store
from apples.livequeue.supervisors import kill_marked
from apples.queueing.configuration import EstimatesSection, QueueFile, QueueSection
from apples.queueing.easyqueue import warm

APPLES = (sys.executable, "-c", "from apples.cli.toolbox import main; main()")
#: Commands that only ask the manager or read its store, and need no process of their own to be tested.
ASKING = ("submit", "queue", "accounting", "why", "cancel", "hold", "release", "wait", "estimate")
#: Signals for which a program sets handlers.
_HANDLED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
RUN = (sys.executable, "-c", "from apples.cli.run import main; main()")


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """Compile the kernel before a manager is started."""
    warm()


@pytest.fixture
def asked(tmp_path):
    """Makes submissions, each with a token of its own."""
    numbers = count(1)

    def make(*command, **more):
        number = next(numbers)
        plain = Submission(
            token=f"token-{number}",
            uid=os.getuid(),
            gid=os.getgid(),
            user="ann",
            project="sun",
            name=f"job-{number}",
            command=command or ("true",),
            directory=str(tmp_path),
            environment={"PATH": os.environ["PATH"]},
            umask=0o022,
            output=str(tmp_path / "%j.out"),
            error=str(tmp_path / "%j.out"),
            procs=1,
            request_s=60.0,
        )
        return replace(plain, **more)

    return make


def one_host(processors):
    """A machine of one host."""
    return Machine(slots={"here": processors})


class Bench:
    """A live queue without a manager: a clock that is turned, jobs that end when they are told to.

    processors : of one host, or a `Machine`
    """

    def __init__(self, directory, processors=8, **chosen):
        self.path, self.processors, self.seconds = directory / "jobs.db", processors, 0.0
        estimates = {k: chosen.pop(k) for k in list(chosen) if k in EstimatesSection.__dataclass_fields__}
        self.chosen = QueueFile(queue=QueueSection(**chosen), estimates=EstimatesSection(**estimates))
        self.store = None
        self.restart()

    def restart(self):
        """Another manager comes; the clock goes on where it was."""
        if self.store is not None:
            self.store.close()
        self.store = Store(self.path, create=True)
        machine = self.processors if isinstance(self.processors, Machine) else one_host(self.processors)
        self.live = LiveQueue(self.store, self.chosen, machine, lambda: self.seconds)
        # The time of day has no say in tests.
        self.live.clock.zero_s = 0.0

    def at(self, seconds, *submitted, ended=(), failed=(), cancelled=(), held=None):
        """One instant; jobs that start run at once. Ids of those that started."""
        self.seconds = max(self.seconds, float(seconds))
        for job_id in (*ended, *failed):
            how = JobEnd(outcome=FINISHED, exit_code=0, ended_at=0.0)
            how = replace(how, outcome=FAILED, exit_code=1) if job_id in failed else how
            with self.store.transaction():
                assert self.store.end(job_id, how, only_from=("running",))
        found = self.live.instant(
            ended=(*ended, *failed), cancelled=cancelled, submitted=submitted, held=held
        )
        for record in found.started:
            with self.store.transaction():
                assert self.store.change(record.id, only_from=("starting",), state="running", supervisor=1)
        return [record.id for record in found.started]

    def states(self):
        return {record.id: record.state for record in self.store.all_jobs()}


@pytest.fixture
def machine():
    """Makes a machine of one host with so many processors."""
    return one_host


@pytest.fixture
def bench(tmp_path):
    """Makes a `Bench`."""
    made = []

    def make(directory=tmp_path, **chosen):
        made.append(Bench(directory, **chosen))
        return made[-1]

    yield make
    for one in made:
        one.store.close()


class Manager:
    """`apples manager --queue` as a process."""

    def __init__(self, directory, *options):
        self.log, self.options = directory / "manager.log", options
        self.processes = []
        self.start()

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*APPLES, "manager", "--queue", *map(str, self.options)],
                stdout=log,
                stderr=log,
                # No teardown runs when the test process is killed, so the manager must end with it.
                preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            )
        self.processes.append(self.process)

    def ready(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                with QueueClient() as client:
                    client.ask("queue")
                return self
            except SharingError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.terminate()
        return self.process.wait(timeout=30)

    def finish(self):
        """Cancel all jobs and end the manager. Kill its processes if that fails."""
        try:
            if self.process.poll() is None:
                jobs = survey(self.socket).jobs
                if jobs:
                    call("cancel", *self.named_socket, *[job.id for job in jobs], code=None)
                    eventually(lambda: not survey(self.socket).jobs)
                assert self.end() == 0
        finally:
            for process in self.processes:
                process.kill()
                process.wait()

    @property
    def socket(self):
        """Return the socket that the options name, or None."""
        return self.options[self.options.index("--socket") + 1] if "--socket" in self.options else None

    @property
    def named_socket(self):
        return ["--socket", self.socket] if self.socket else []


@pytest.fixture
def manager(tmp_path, state_of_its_own):
    """Starts managers. At the end no manager, supervisor or job of the test is left, also when the test failed."""
    with ExitStack() as stack:
        # Last: supervisors of managers that were killed. They have the test's state in their environment.
        stack.callback(kill_marked, str(state_of_its_own), "APPLES_STATE")

        def start(*options, wait=True):
            made = Manager(tmp_path, *options)
            stack.callback(made.finish)
            return made.ready() if wait else made

        yield start


def call(command, *words, code=0, program=APPLES, **more):
    """Run `apples COMMAND …`; its standard output, or both where it fails."""
    arguments = [*([command] if command else []), *map(str, words)]
    if command in ASKING and not more.keys() - {"cwd"}:
        returned, out, err = run_here(arguments, more.get("cwd", "."))
    else:
        done = subprocess.run(
            [*program, *arguments], capture_output=True, text=True, timeout=120, check=False, **more
        )
        returned, out, err = done.returncode, done.stdout, done.stderr
    assert "Traceback" not in err, err
    assert code is None or returned == code, out + err
    return out if code == 0 else out + err


def run_here(arguments, directory):
    """(exit code, output, error output) of an `apples` command in this process."""
    out, err = StringIO(), StringIO()
    handlers = {number: signal.getsignal(number) for number in _HANDLED}
    with patch.object(sys, "argv", ["apples", *arguments]), chdir(directory):
        try:
            with redirect_stdout(out), redirect_stderr(err):
                toolbox.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return code, out.getvalue(), err.getvalue()


def queue(everything=False):
    """Return the document of the whole queue, as the manager answers."""
    return json.loads(msgspec.json.encode(survey(everything=everything)))


def eventually(condition, limit_s=60.0):
    """Wait until it holds; the machine may be busy."""
    until = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.02)
    return found


@pytest.fixture
def cli():
    """(call a command, ask for the whole queue, wait for something)."""
    return call, queue, eventually


@pytest.fixture
def starting(tmp_path, asked):
    """A store with one job whose start is decided: (path of the store, id)."""

    def make(*command, **more):
        path = tmp_path / "jobs.db"
        store = Store(path, create=True)
        with store.transaction():
            job_id = store.add(asked(*command, **more), 0.0)
            store.change(job_id, state=STARTING, start_s=0.0, hosts={"here": 1}, attempts=1)
        assert store.job(job_id).state == STARTING
        store.close()
        return path, job_id

    return make


@pytest.fixture
def over():
    """The record of a job once it has ended."""

    def wait(path, job_id):
        store = Store(path)
        try:
            return eventually(lambda: (r := store.job(job_id)).state == ENDED and r)
        finally:
            store.close()

    return wait


@pytest.fixture
def state_file():
    """Path of the default store."""
    return lambda: Path(os.environ["APPLES_STATE"]) / "queue" / "jobs.db"


@pytest.fixture
def request_document(tmp_path):
    """Makes the argument of `submit` for a command."""

    def make(*command, **more):
        plain = {
            "token": os.urandom(8).hex(),
            "name": "x",
            "project": "",
            "command": list(command) or ["true"],
            "directory": str(tmp_path),
            "environment": {"PATH": os.environ["PATH"]},
            "umask": 0o022,
            "output": "/dev/null",
            "error": "/dev/null",
            "procs": 1,
            "request_s": 60,
            "model_s": None,
        }
        return plain | more

    return make
