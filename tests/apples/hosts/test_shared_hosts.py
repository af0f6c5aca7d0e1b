"""Policies over several hosts: their node managers are started or joined, share one manager, and end again."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from apples.coscheduling.policies import policy_kind
from apples.daemons.exchanges import NodeManager, SharedHost
from apples.errors import SharingError
from apples.hosts import hostcheck
from apples.platforms.sharedhosts import SharedHosts

RUN = ("32", "--app", "heat", "-s", "nx=64", "-s", "ny=64", "-s", "iterations=600", "-n", "2")


def daemons(lab):
    hosts = [spec.name for spec in lab.spec.hosts]
    commands = [command for host in hosts for command in lab.processes(host).values()]
    return [command for command in commands if "apples.cli.toolbox" in command or "watchdog" in command]


def test_two_runs_share_hosts_under_one_manager(lab, library):
    words = [Path(sys.executable).parent / "apples-run", *RUN, "--launcher", "ssh", "-H", "a1:1,a2:1"]
    # Long enough to meet, though one may wait for what the other compiles.
    command = [*map(str, words), "-s", "iterations=6000", "--policy", "fcs", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Each is here on one of the hosts, and joins them in the same order.
    runs = [subprocess.Popen(lab.command(host, command), **pipes) for host in ("a1", "a2")]
    ended = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ended
    first, second = (json.loads(out) for out, _ in ended)
    assert first["hosts"][0]["exit_code"] == second["hosts"][0]["exit_code"] == 0
    for shared in (first["sharing"], second["sharing"]):
        assert shared["policy"] == "fcs"
        assert {rank["node"] for rank in shared["ranks"]} == {"a1", "a2"}
        assert all(rank["t_cpu_s"] > 0 for rank in shared["ranks"])
    # One may join when the other, which it waited for to compile, has its turns already.
    assert sorted(one["sharing"]["slots_before"] for one in (first, second)) in ([0, 0], [0, 1])
    assert any(shared["daemons_started"] for shared in (first["sharing"], second["sharing"]))
    # Under one manager they took turns.
    assert any(rank["stopped_s"] > 0 for one in (first, second) for rank in one["sharing"]["ranks"])
    deadline = time.monotonic() + 20.0
    while left := daemons(lab):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


@pytest.mark.nightly
def test_run_without_a_policy_joins_that_of_its_hosts(lab, library):
    program = str(Path(sys.executable).parent / "apples-run")
    words = [program, *RUN, "--launcher", "ssh", "-H", "a1:1,a2:1", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    longer = ["-s", "iterations=1000000", "--policy", "gang"]
    first = subprocess.Popen(lab.command("a1", [*words, *longer]), **pipes)
    assert any("policy gang on a1, a2" in line for line in first.stderr)
    second = subprocess.run(
        lab.command("a2", [*words, "--policy", "auto"]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert second.returncode == 0, second.stderr
    for pid in [pid for pid, command in lab.processes("a1").items() if "iterations=1000000" in command]:
        os.kill(pid, signal.SIGTERM)
    first.communicate(timeout=60)
    document = json.loads(second.stdout)
    assert "policy gang on a1, a2: 1 job there already" in second.stderr
    assert "gives 1 turn away already" in " ".join(document["notes"])
    shared = document["sharing"]
    assert (shared["policy"], shared["slots_before"], shared["daemons_started"]) == ("gang", 1, False)
    assert all(rank["stopped_s"] > 0 for rank in shared["ranks"])


@pytest.mark.parametrize(
    ("policies", "plan", "kind", "note"),
    [
        ({"a": "gang", "b": "gang"}, "ab", "gang", "policy gang on a, b: 2 jobs there already"),
        ({"a": "gang", "b": "fcs"}, "b", "fcs", "policy fcs on b: 2 jobs there already"),
        ({"a": "gang"}, "b", None, None),
        ({}, "ab", None, None),
        ({"a": "gang", "b": "fcs"}, "ab", None, "its hosts have different policies (a: gang, b: fcs)"),
        ({"a": "strange"}, "a", None, "no policy is called 'strange'"),
        ({"a": SharingError("a: ends")}, "a", None, "a: ends"),
        # Its node managers belong to different administrators, or it has no right to the key.
        (
            {"a": "gang 1", "b": "gang 2"},
            "ab",
            None,
            "different machine managers (a: 1.2.3.1:5, b: 1.2.3.2:5)",
        ),
        ({"a": "gang"}, "ab", None, "the key of the machine manager at 1.2.3.0:5 is not ours to give"),
    ],
)
def test_run_without_a_policy_has_that_of_the_hosts_of_its_plan(monkeypatch, policies, plan, kind, note):
    """The hosts' answers are made up: such states take several users."""
    said = []
    hosts = SharedHosts(None, said.append)

    def ask(host, what, *_):
        hosts.managers._hosts.setdefault(host, SimpleNamespace(is_here=False, close=lambda: None))
        if isinstance(policies.get(host), Exception):
            raise policies[host]
        policy, _, manager = policies.get(host, "").partition(" ")
        found = node(f"1.2.3.{manager or 0}:5", None, policy, 2) if policy else None
        return (
            SharedHost(launcher="1.2.3.1", node=found) if what == "look" else [] if what == "ranks" else found
        )

    monkeypatch.setattr(hosts.managers, "ask", ask)
    monkeypatch.setattr("apples.platforms.nodemanagers.AgentConversation.close", lambda host: None)
    with hosts:
        held = hosts.look(dict.fromkeys("abc"), [*policies, "elsewhere"])
        if note is None or kind is not None:
            assert (held is None) == (len(set(policies.values())) != 1)
        assert not hosts.managers._hosts
        hosts.settle([*plan])
        assert (None if hosts.kind is None else hosts.kind.name) == kind
        joined = hosts.join([*plan], hosts.environment)
        assert sorted(joined) == ([] if kind is None else [*plan])
        assert (hosts.observed() == {}) == (kind is None)
        assert hosts.join([*plan], {}) == {}
    assert len(said) == (note is not None)
    assert all(note in text for text in said)
    # A look while the ranks run says nothing again.
    hosts.look(dict.fromkeys("abc"), [*policies])
    assert len(said) == (note is not None)


def test_check_reports_sockets_of_node_managers(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("apples.hosts.nodesockets.SYSTEM_DIRECTORY", str(tmp_path / "none"))
    own = tmp_path / f"apples-{os.getuid()}"
    own.mkdir()
    (own / "node-file.sock").touch()
    assert not hostcheck.node_manager()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(own / "node-a.sock"))
        assert hostcheck.node_manager()


def node(manager, key="k", policy="gang", slots=0):
    about = {"pid": 1, "slots": slots, "connected": True, "node": "n", "socket": "s"}
    return NodeManager(policy=policy, manager=manager, key=key, **about)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"a": node("1.2.3.4:5"), "b": node("1.2.3.9:5")}, "different machine managers"),
        ({"a": node("1.2.3.4:5", key=None), "b": None}, "the key of the machine manager at 1.2.3.4:5"),
        ({"a": node("127.0.0.1:5"), "b": None}, "the machine manager there serves that host only"),
        (
            {"a": node("1.2.3.4:5"), "b": node(None, policy="spin-block")},
            "b: s.* runs policy spin-block, not gang",
        ),
    ],
)
def test_hosts_that_cannot_share_are_refused(monkeypatch, found, reason):
    """What node managers answer is made up: such states take several users."""
    hosts = SharedHosts(policy_kind("gang"), print)
    monkeypatch.setattr(
        hosts.managers, "ask", lambda host, *_: SharedHost(launcher="1.2.3.1", node=found[host])
    )
    monkeypatch.setattr("random.uniform", lambda *_: 0.0)
    with pytest.raises(SharingError, match=reason):
        hosts.join(["a", "b"], hosts.environment)


def test_node_manager_started_meanwhile_without_key_is_refused(monkeypatch):
    """An administrator has started it after the look at the hosts: the other host cannot join its manager."""
    hosts, asked = SharedHosts(policy_kind("gang"), print), []

    def ask(host, what, *_):
        asked.append((host, what))
        return SharedHost(launcher="1.2.3.1", node=None) if what == "look" else node("1.2.3.4:5", key=None)

    monkeypatch.setattr(hosts.managers, "ask", ask)
    hosts.managers._hosts = {host: SimpleNamespace(is_here=False) for host in "ab"}
    with pytest.raises(SharingError, match="the key of the machine manager at"):
        hosts.join(["a", "b"], hosts.environment)
    assert ("b", "join") not in asked
    assert asked[-1] == ("a", "leave")


def test_late_answer_is_not_that_of_the_next_question(monkeypatch, tmp_path):
    monkeypatch.setenv("APPLES_NODE_SOCKET", str(tmp_path / "none.sock"))
    with SharedHosts(policy_kind("gang"), print) as hosts:
        hosts.look({"here": None})
        helper = hosts.managers._hosts["here"]._process
        helper.send_signal(signal.SIGSTOP)
        with pytest.raises(SharingError, match="did not answer within"):
            hosts.managers.ask("here", "holds", None, 0.5)
        helper.send_signal(signal.SIGCONT)
        assert hosts.managers.ask("here", "look").node is None
        assert hosts.managers.ask("here", "holds") is False


def test_answer_that_cannot_be_understood_ends_the_policy_only(monkeypatch):
    answer = b'{"look": {"launcher": "1.2.3.1", "node": {"node": "a", "policy": 7}}}'
    monkeypatch.setattr("apples.platforms.nodemanagers.AgentConversation.answer", lambda *_: answer)
    said = []
    with SharedHosts(None, said.append) as hosts:
        assert hosts.look({"a": "a"}, ["a"]) is None
    assert len(said) == 1
    assert (
        "a gave an answer that cannot be understood (Expected `str`, got `int` - at `$.node.policy`"
        in said[0]
    )


def test_host_without_a_connection_is_named(fake_ssh):
    with (
        SharedHosts(policy_kind("gang"), print) as hosts,
        pytest.raises(SharingError, match="refuses our key"),
    ):
        hosts.look({"locked": "locked"})


def test_hosts_of_an_ended_attempt_are_not_asked_again(monkeypatch):
    hosts, asked = SharedHosts(policy_kind("spin-block"), print), []

    def ask(host, what, *_):
        asked.append((host, what))
        return {"look": SharedHost(launcher="1.2.3.1", node=None), "ranks": []}.get(what, node("1.2.3.4:5"))

    monkeypatch.setattr(hosts.managers, "ask", ask)
    for names in ("ab", "ac"):
        hosts.managers._hosts = {host: SimpleNamespace(is_here=False, close=lambda: None) for host in names}
        monkeypatch.setattr("apples.platforms.nodemanagers.AgentConversation.close", lambda host: None)
        assert sorted(hosts.join([*names], hosts.environment)) == [*names]
        hosts.end()
    assert not [host for host, what in asked if what == "leave"]
