"""Host agents that fail, and commands that cannot be started: the reason is reported, and nothing is left behind."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from apples.errors import LaunchError
from apples.hosts import hostagent
from apples.hosts.agentconnection import HostAddress
from apples.launching import mpirun
from apples.launching.command import LaunchMethod, Rendezvous
from apples.launching.engine import launch
from apples.launching.mpirun import HostAccess
from apples.launching.runprocesses import RunProcesses
from apples.launching.termination import GracePeriods
from apples.model.plan import Outcome

QUICK = GracePeriods(together_s=0.2, failure_s=0.3, request_s=0.3, cut_s=1.0)


def run(request) -> Outcome:
    return mpirun.run(request, HostAccess(grace=QUICK, here=True), lambda line: None)


def forked(command: Callable[[Rendezvous], list[str]], *hosts: str, here: bool = False) -> LaunchMethod:
    """Return a method whose agents are all forked on this machine."""
    return LaunchMethod(
        agents={host: (HostAddress(host=host), None) for host in hosts}, command=command, here=here
    )


def test_status_that_disappears_is_reported(runs, monkeypatch) -> None:
    original = hostagent.HostAgent._on_events

    def after_a_cleaner(agent: hostagent.HostAgent, fd: int) -> None:
        for path in runs.directory.glob("status-*.json"):
            path.unlink()
        original(agent, fd)

    monkeypatch.setattr(hostagent.HostAgent, "_on_events", after_a_cleaner)
    outcome = run(runs.request("sleep", "600", hosts=["localhost"]))
    assert (outcome.ended, outcome.exit_code) == ("failed", 125)
    assert outcome.message.endswith(
        f"localhost cannot take part: the status of rank 0 disappeared from {runs.directory}; "
        "use a run directory that nothing else cleans"
    )


def test_reason_of_a_crash_is_reported(runs, monkeypatch) -> None:
    def crash(agent: hostagent.HostAgent, fd: int) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(hostagent.HostAgent, "_on_events", crash)
    outcome = run(runs.request("sleep", "600", hosts=["localhost"]))
    assert outcome.exit_code == 125
    assert outcome.message.endswith("localhost was lost: its connection ended (RuntimeError: out of order)")


def test_command_that_cannot_be_executed_is_named(runs) -> None:
    method = forked(lambda _: ["/no/mpiexec"], "localhost", here=True)
    outcome = launch(runs.request("true"), method, QUICK, lambda line: None)
    assert outcome.ended == "failed"
    assert "cannot start /no/mpiexec: No such file or directory" in outcome.message


def test_agent_that_has_ended_does_not_wake_the_launcher(runs) -> None:
    method = forked(lambda _: ["sleep", "600"], "alpha", "beta")
    processes = RunProcesses(runs.request("true", hosts=["alpha", "beta"]), method)
    try:
        os.kill(processes._agents["alpha"]._process._pid, signal.SIGKILL)
        deadline = time.monotonic() + 20.0
        while not processes.lost_hosts():
            assert time.monotonic() < deadline
            processes.listen()
        poll = select.poll()
        poll.register(processes.events, select.POLLIN)
        # The other agent may report or send a heartbeat meanwhile.
        woken = 0
        for _ in range(20):
            woken += bool(poll.poll(10))
            processes.listen()
        assert woken < 10
    finally:
        processes.close()


@pytest.fixture
def no_sigchld() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("no_sigchld")
def test_launcher_that_ignores_sigchld(runs) -> None:
    assert run(runs.request("true")).finished


def test_refusal_to_start_the_command_is_a_launch_error(runs) -> None:
    def refuse(_: Rendezvous) -> list[str]:
        raise PermissionError(13, "Permission denied", "/bin/mpiexec")

    with pytest.raises(LaunchError, match=r"^cannot start the ranks: /bin/mpiexec: Permission denied$"):
        launch(
            runs.request("true", hosts=["alpha", "beta"]),
            forked(refuse, "alpha", "beta"),
            QUICK,
            lambda line: None,
        )
    assert [
        path.name for path in runs.directory.iterdir() if "agent" in path.name or "shared" in path.name
    ] == []


def test_run_directory_that_cannot_be_cleared_is_a_launch_error(runs) -> None:
    (runs.directory / "status-00000.json").mkdir()
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LaunchError, match=r"^cannot start the host agents: .*/status-00000\.json: Is a dir"):
        run(runs.request("true"))
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_unfinished_statuses_of_an_earlier_run_are_removed(runs) -> None:
    (runs.directory / ".status-00007.json.0a1b2c3d.whole-tmp").touch()
    assert run(runs.request("true", hosts=["localhost"])).finished
    assert [path.name for path in runs.directory.iterdir()] == ["status-00000.json"]
