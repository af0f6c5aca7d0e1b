"""Runs over several hosts: real host agents and a real mpiexec behind an ssh that stays on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from apples.errors import LaunchError, ProgramNotFound
from apples.hosts.agentconnection import HostAddress, LivenessTimeouts
from apples.hosts.notices import notify_agents
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.launching.termination import GracePeriods
from apples.model.plan import Outcome
from apples.model.progress import CheckpointAndEnd, NewSlabs
from apples.monitoring.environment import figures_of
from apples.monitoring.job import JOB, MonitoredRun
from nws.base.errors import SshNotFound
from tests.transcripts import text_of

QUICK = GracePeriods(together_s=0.2, failure_s=0.3, request_s=0.3, cut_s=1.0)
PATIENT = LivenessTimeouts(connect_s=60.0, lost_s=60.0)
HOSTS = ("alpha", "beta", "gamma", "locked", "bare", "mute", "chatty")

pytestmark = pytest.mark.usefixtures("fake_ssh")


def access(silence: LivenessTimeouts = PATIENT) -> HostAccess:
    places = {host: HostAddress(host=host, address=host) for host in HOSTS}
    places["here"] = HostAddress(host="here")
    return HostAccess(addresses=places, grace=QUICK, timeouts=silence)


def run(request, silence: LivenessTimeouts = PATIENT) -> Outcome:
    return mpirun.run(request, access(silence), lambda line: None)


def sh(text: str) -> tuple[str, str, str]:
    return ("sh", "-c", text)


def test_run_over_three_hosts_ends_well(runs, capfd) -> None:
    chain = ["alpha", "here", "alpha", "chatty"]
    outcome = run(runs.request(*sh("echo out $PMI_RANK; echo err >&2"), hosts=chain))
    assert (outcome.ended, outcome.exit_code, outcome.message) == ("finished", 0, "")
    assert [(s.rank, s.host, s.exit_code) for s in outcome.statuses] == [
        (r, h, 0) for r, h in enumerate(chain)
    ]
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == [f"out {rank}" for rank in range(4)]
    assert err == "err\n" * 4
    assert sorted(p.name for p in runs.directory.iterdir()) == [
        f"status-{rank:05d}.json" for rank in range(4)
    ]


def test_ranks_talk_to_each_other(runs, capfd) -> None:
    # One write a rank, which nobody can come between.
    program = (
        "import os; from mpi4py import MPI; c = MPI.COMM_WORLD; os.write(1, b'%d\\n' % c.allreduce(c.rank))"
    )
    outcome = run(runs.request(sys.executable, "-c", program, hosts=["alpha", "beta", "here"]))
    assert outcome.finished, outcome.message
    assert capfd.readouterr().out == "3\n" * 3


def test_labels_and_a_free_stdout(runs, capfd) -> None:
    request = runs.request(*sh("echo a; echo b"), hosts=["alpha", "beta"], label=True)
    assert run(dataclasses.replace(request, program_output_to_stderr=True)).finished
    out, err = capfd.readouterr()
    assert (out, sorted(err.splitlines())) == ("", ["[0] a", "[0] b", "[1] a", "[1] b"])


def test_much_output_arrives_whole(runs, capfd) -> None:
    program = "import sys\nfor i in range(40000): print('x' * (i % 90))"
    assert run(runs.request(sys.executable, "-c", program, hosts=["alpha"])).finished
    lines = capfd.readouterr().out.splitlines()
    assert [len(line) for line in lines] == [i % 90 for i in range(40000)]


def test_environment_is_carried_except_host_variables(runs, capfd, monkeypatch) -> None:
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setenv("CARRIED", "a b")
    request = runs.request(
        *sh('echo "$CARRIED|$MORE|$OMP_NUM_THREADS|$APPLES_RSH|$APPLES_RANK_FDS|$PWD"'), hosts=["here"]
    )
    request = dataclasses.replace(request, environment={**request.environment, "MORE": "x"})
    assert run(request).finished
    assert capfd.readouterr().out == f"a b|x|1|||{os.getcwd()}\n"


def test_rank_that_failed_is_named(runs) -> None:
    outcome = run(
        runs.request(*sh("test $PMI_RANK != 1 || exit 5; sleep 60"), hosts=["alpha", "beta", "here"])
    )
    assert (outcome.ended, outcome.exit_code) == ("failed", 5)
    assert outcome.message == "rank 1 on beta ended with exit code 5"


def test_program_that_is_killed(runs) -> None:
    outcome = run(runs.request(*sh("test $PMI_RANK = 0 && kill -9 $$; sleep 60"), hosts=["alpha", "beta"]))
    assert (outcome.exit_code, outcome.message) == (137, "rank 0 on alpha was killed by signal 9 (KILL)")


def test_host_that_refuses_ends_the_run_before_it_starts(runs) -> None:
    outcome = run(runs.request("true", hosts=["alpha", "locked"]))
    assert (outcome.ended, outcome.exit_code) == ("failed", 125)
    assert outcome.message.startswith("locked refuses our key; put the public key there (ssh-copy-id locked)")
    assert [s.exit_code for s in outcome.statuses] == [None, None]


def test_host_that_does_not_answer_is_not_waited_for(runs) -> None:
    outcome = run(runs.request("true", hosts=["mute"]), LivenessTimeouts(connect_s=0.5, lost_s=60.0))
    assert outcome.message.startswith("mute did not answer for")


def test_time_limit(runs) -> None:
    outcome = run(runs.request("sleep", "60", hosts=["alpha", "beta"], time_limit_s=2.0))
    assert (outcome.ended, outcome.exit_code) == ("time limit", 124)


def follow(request, act) -> Outcome:
    """The outcome of a run during which `act` is called, once every rank has started."""
    found: list[Outcome] = []
    thread = threading.Thread(target=lambda: found.append(run(request)))
    thread.start()
    act()
    thread.join(60)
    assert not thread.is_alive()
    return found[0]


def ranks(runs, count: int) -> list[dict]:
    paths = [runs.directory / f"status-{rank:05d}.json" for rank in range(count)]
    return [json.loads(path.read_text()) for path in paths] if all(p.exists() for p in paths) else []


class Leaving:
    """Departures that make the run go on from a checkpoint elsewhere; asked : hosts to leave."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    def look(self) -> dict[str, str]:
        return {}

    def leave(self, hosts) -> CheckpointAndEnd:
        self.asked.append(dict(hosts))
        return CheckpointAndEnd(why="going on elsewhere")


def signal_agent(runs, wait_for, monkeypatch, *numbers: int, departures=None, send=os.kill) -> Outcome:
    """The outcome of a run whose host agent gets these signals."""

    def act() -> None:
        wait_for(lambda: ranks(runs, 2))
        (agent,) = (
            pid
            for pid, command in runs.left().items()
            if "hostagent.py serve" in command and command.startswith(sys.executable)
        )
        for number in numbers:
            send(agent, number)
            time.sleep(0.1)

    # our marker is in the environment of ssh, and so in that of the host agent behind it
    monkeypatch.setenv("APPLES_TEST_MARKER", runs.marker)
    request = runs.request("sleep", "60", hosts=["alpha", "alpha"])
    outcome = follow(dataclasses.replace(request, departures=departures), act)
    monkeypatch.delenv("APPLES_TEST_MARKER")
    wait_for(lambda: not runs.left())
    return outcome


@pytest.mark.parametrize("numbers", [[signal.SIGKILL], [signal.SIGTERM, signal.SIGTERM]])
def test_killed_host_agent_takes_its_ranks_along(runs, wait_for, monkeypatch, numbers) -> None:
    outcome = signal_agent(runs, wait_for, monkeypatch, *numbers)
    assert (outcome.ended, outcome.exit_code) == ("failed", 125)


def processes(runs):
    for pid in runs.left():
        # Some end meanwhile.
        with contextlib.suppress(psutil.NoSuchProcess):
            yield psutil.Process(pid)


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGUSR1, signal.SIGUSR1]])
def test_signal_to_a_host_agent_is_a_notice_to_leave(runs, wait_for, monkeypatch, numbers) -> None:
    leaving = Leaving()
    # As `apples drain --watch` sends USR1: to agents only, and any number of times.
    monkeypatch.setattr(psutil, "process_iter", lambda: processes(runs))
    send = os.kill if numbers == [signal.SIGTERM] else lambda *agent: notify_agents()
    outcome = signal_agent(runs, wait_for, monkeypatch, *numbers, departures=leaving, send=send)
    assert leaving.asked == [{"alpha": "ends soon (a signal to its host agent)"}]
    assert (outcome.ended, outcome.lost) == ("adapted", leaving.asked[0])


class Draining(Leaving):
    """Departures of a run whose first host is drained at once; also its controller. heard : rows of the reports."""

    report_every_s = 0.2

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[int, ...]] = []

    def look(self) -> dict[str, str]:
        return {"beta": "is drained"}

    def leave(self, hosts) -> NewSlabs:
        self.asked.append(dict(hosts))
        return NewSlabs(rows=(0, 6, 6), reader="alpha")

    def hear(self, told) -> None:
        self.heard.append(told.rows)

    def ended(self) -> tuple[()]:
        return ()


MOVING = text_of("apples/launching/ssh_moving.txt")


def test_ranks_of_a_drained_host_leave_the_run(library, runs, capfd) -> None:
    draining = Draining()
    environment = MonitoredRun().environment(runs.directory) | {"APPLES_NODE_SOCKET": "/nowhere"}
    request = runs.request(
        sys.executable, "-c", MOVING, hosts=["beta", "alpha", "here"], environment=environment
    )
    outcome = run(dataclasses.replace(request, departures=draining, controller=draining))
    assert outcome.finished, outcome.message
    assert capfd.readouterr().out == "[6, 6] 12\n"
    assert draining.asked == [{"beta": "is drained"}]
    assert draining.heard[-1] == (6, 6)
    assert [page.state.name for page in figures_of(runs.directory, JOB)] == ["FINALIZED"] * 3


def test_launcher_that_dies_leaves_nothing_on_any_host(runs, wait_for) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            run(runs.request("sleep", "60", hosts=["alpha", "beta", "here"]))
        finally:
            os._exit(0)
    wait_for(lambda: ranks(runs, 3))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    wait_for(lambda: not runs.left())


@pytest.mark.parametrize(
    ("numbers", "program", "expected"),
    [
        ([signal.SIGUSR1], "trap 'exit 0' USR1; while :; do sleep 0.05; done", ("finished", 0)),
        ([signal.SIGINT], "trap 'exit 0' INT; while :; do sleep 0.05; done", ("interrupted", 130)),
        ([signal.SIGINT, signal.SIGINT], "trap '' INT; while :; do sleep 0.05; done", ("interrupted", 130)),
    ],
)
def test_signals_reach_the_ranks_of_every_host(runs, wait_for, numbers, program, expected) -> None:
    found = runs.directory.parent / "outcome"
    pid = os.fork()
    if pid == 0:
        try:
            trap, _, rest = program.partition(";")
            heard = f"{trap}; touch {runs.directory}/heard-$PMI_RANK;{rest}"
            outcome = run(runs.request(*sh(heard), hosts=["alpha", "beta"]))
            found.write_text(json.dumps([outcome.ended, outcome.exit_code]))
        finally:
            os._exit(0)
    wait_for(lambda: len(list(runs.directory.glob("heard-*"))) == 2 and ranks(runs, 2))
    for number in numbers:
        os.kill(pid, number)
        # the first is heard before the second comes: two at once are one
        wait_for(lambda: not signals_pending(pid))
    os.waitpid(pid, 0)
    assert tuple(json.loads(found.read_text())) == expected


def signals_pending(pid: int) -> bool:
    text = Path(f"/proc/{pid}/status").read_text()
    return any(int(line.split()[1], 16) for line in text.splitlines() if line.startswith("ShdPnd"))


def test_what_cannot_start_is_said_before_anything_starts(runs) -> None:
    with pytest.raises(LaunchError, match=r"hosts delta are not among those that were checked: alpha, beta"):
        mpirun.check(runs.request("true", hosts=["delta"]), access())
    with pytest.raises(ProgramNotFound, match="program 'nosuch'"):
        mpirun.check(runs.request("nosuch", hosts=["alpha"]), access())
    request = runs.request("true", hosts=["alpha"])
    empty = dataclasses.replace(request, plan=dataclasses.replace(request.plan, assignments=()))
    with pytest.raises(LaunchError, match="the plan has no ranks"):
        mpirun.check(empty, access())


def test_without_ssh_other_hosts_are_out_of_reach(runs, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    true = str(Path("/bin/true"))
    mpirun.check(runs.request(true, hosts=["here"]), access())
    with pytest.raises(SshNotFound, match="ssh is in none of the directories of PATH"):
        mpirun.check(runs.request(true, hosts=["alpha"]), access())
