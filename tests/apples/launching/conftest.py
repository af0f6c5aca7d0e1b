"""Requests for tiny runs, and a search for processes that should be gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from apples.hosts.kernel import children
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import Plan, unplanned
from apples.model.template import Workload

MARKER = "APPLES_TEST_MARKER"
LAUNCH_ONCE = Path(__file__).with_name("launch_once.py")


def plan_on(hosts: list[str]) -> Plan:
    return unplanned(hosts, scheduler="test", application="test")


def processes_with(marker: str) -> dict[int, str]:
    """pid → command of every living process that has the marker in its environment."""
    found = {}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            environment = (directory / "environ").read_bytes()
            if f"{MARKER}={marker}".encode() in environment.split(b"\0"):
                found[int(directory.name)] = (
                    (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                )
        except OSError:
            continue
    return found


def wait_for(what: Callable[[], object], *, within_s: float = 20.0) -> object:
    """The first true value of `what`; fails the test when there is none in time."""
    deadline = time.monotonic() + within_s
    while not (value := what()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return value


class Runs:
    """Makes requests whose processes can all be recognised."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.marker = uuid.uuid4().hex

    def request(
        self,
        *command: str,
        hosts: list[str] | None = None,
        environment: Mapping[str, str] | None = None,
        label: bool = False,
        time_limit_s: float | None = None,
    ) -> LaunchRequest:
        return LaunchRequest(
            plan=plan_on(hosts or ["localhost", "localhost"]),
            workload=Workload(application="test", size=2),
            command=command,
            run_dir=self.directory,
            environment={MARKER: self.marker, **(environment or {})},
            label=label,
            time_limit_s=time_limit_s,
        )

    def left(self) -> dict[int, str]:
        return processes_with(self.marker)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Whatever a test does, nothing of it may be alive at its end."""
    directory = tmp_path / "run"
    directory.mkdir()
    made = Runs(directory)
    yield made
    wait_for(lambda: not made.left())


@pytest.fixture(name="wait_for")
def waiting() -> Callable[..., object]:
    return wait_for


@pytest.fixture
def fake_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ssh` that runs commands on this machine, whatever the host; some names fail as real hosts do."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "ssh").symlink_to(Path(__file__).parent.parent / "hosts" / "fake_ssh.sh")
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


class Launched:
    """A launcher in a process of its own, so that it can be signalled and killed."""

    def __init__(self, runs: Runs, *command: str, ranks: int = 2, label: bool = False) -> None:
        self.runs = runs
        words = [sys.executable, LAUNCH_ONCE, runs.directory, ranks, runs.marker, label, *command]
        self.process = subprocess.Popen(
            list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.ranks = ranks

    def wait_until_running(self) -> None:
        """Every rank's program has been started."""
        wait_for(lambda: len(list(self.runs.directory.glob("status-*.json"))) == self.ranks)

    def chain(self) -> dict[str, list[int]]:
        """Processes from the launcher down to the programs, by their part in it."""
        parts = ("launcher", "agent", "mpiexec", "proxy", "wrapper", "supervisor", "program")
        level = [self.process.pid]
        found = {}
        for part in parts:
            found[part] = level
            level = [child for pid in level for child in children(pid)]
        return found

    def ended(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@pytest.fixture
def launch(runs: Runs) -> Iterator[Callable[..., Launched]]:
    """Starts launchers; those that still run at the end are killed."""
    started: list[Launched] = []

    def start(*command: str, ranks: int = 2, label: bool = False) -> Launched:
        started.append(Launched(runs, *command, ranks=ranks, label=label))
        return started[-1]

    yield start
    for launched in started:
        launched.process.kill()
        launched.process.communicate()
