"""Daemons that are started for a run: found again by the next, and what they say is kept."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from apples.coscheduling.policies import policy_kind
from apples.daemons import starting
from apples.daemons.hostsharing import HostSharing
from apples.daemons.paths import ManagerAccess, machine_of
from apples.daemons.session import SharingSession
from apples.errors import MonitorError, SharingError
from tests.testbed.localcluster import kill


@pytest.fixture
def place(local_cluster, monkeypatch):
    """A directory with room for a socket, where the daemons of this test meet."""
    directory = local_cluster(policy="uncoordinated").directory
    monkeypatch.setenv("APPLES_NODE_SOCKET", str(directory / "n.sock"))
    monkeypatch.setenv("APPLES_STATE", str(directory / "state"))
    started, start = [], starting._daemon
    monkeypatch.setattr(starting, "_daemon", lambda *how: started.append(start(*how)) or started[-1])
    yield directory
    # they outlive the session, not this test
    for process in started:
        process.terminate()
        process.wait(30)


def test_what_daemons_say_that_were_started_for_a_run_is_kept(place):
    log, notes = place / "state" / "daemons.log", []
    with SharingSession(policy_kind("uncoordinated"), notes.append):
        assert f"its log is {log}" in notes[0]
        assert "policy uncoordinated" in log.read_text()
        with SharingSession(policy_kind("uncoordinated"), notes.append):
            assert sum("starting a node manager" in note for note in notes) == 1
    assert log.is_file()


def test_why_daemons_do_not_start_is_told_without_what_earlier_ones_said(place, monkeypatch):
    sockets = place / "open"
    sockets.mkdir()
    monkeypatch.setenv("APPLES_NODE_SOCKET", str(sockets / "n.sock"))
    log = place / "state" / "daemons.log"
    log.parent.mkdir()
    log.write_text("an old story\n" * 100_000)
    sockets.chmod(0o777)
    with pytest.raises(SharingError) as told, SharingSession(policy_kind("uncoordinated"), print):
        pass
    assert str(told.value).startswith("the daemons for policy uncoordinated do not start: ")
    assert "others could put files of theirs there" in str(told.value)
    assert "old story" not in str(told.value)
    assert "old story" in (place / "state" / "daemons.log.1").read_text()
    assert "old story" not in log.read_text()


def test_log_that_cannot_be_written_is_told(place):
    (place / "state").write_text("no directory")
    with pytest.raises(SharingError, match=r"daemons.log: the daemons' log cannot be written: File exists"):
        SharingSession(policy_kind("uncoordinated"), print).__enter__()


def test_session_that_cannot_begin_leaves_its_host(local_cluster, monkeypatch):
    site, left = local_cluster(policy="fcs"), []
    site.start()
    monkeypatch.setenv("APPLES_NODE_SOCKET", str(site.socket("a")))

    def full(notify):
        raise MonitorError("no room for pages")

    leave = HostSharing.leave
    monkeypatch.setattr("apples.daemons.session.page_directory", full)
    monkeypatch.setattr(HostSharing, "leave", lambda here: left.append(here) or leave(here))
    with pytest.raises(MonitorError, match="no room"):
        SharingSession(policy_kind("fcs"), print).__enter__()
    assert [here.holds() for here in left] == [False]


def test_manager_that_is_away_is_told(local_cluster, monkeypatch):
    site, notes = local_cluster(), []
    site.start()
    kill(site.manager)
    site.wait(lambda: not site.ask("a", "status")["connected"])
    monkeypatch.setenv("APPLES_NODE_SOCKET", str(site.socket("a")))
    with SharingSession(policy_kind("gang"), notes.append):
        assert (
            notes[0]
            == f"the manager at {site.manager_address} is not connected: everything runs until it is back"
        )


def test_two_starters_at_once_leave_one_managers_key(place, monkeypatch):
    """They look rarely, so a third run finds the node manager first: it must find the key of its manager, too."""
    find, path = starting.find_node, place / "n.sock"
    monkeypatch.setattr(starting, "find_node", lambda given: time.sleep(1.0) or find(given))
    with ThreadPoolExecutor(2) as pool:
        starters = [pool.submit(starting.start_node, policy_kind("gang"), print) for _ in range(2)]
        while (found := find(path)) is None:
            assert not all(starter.done() for starter in starters)
            time.sleep(0.01)
        first = machine_of(found[1].manager, path)
        assert first is not None
        for starter in starters:
            started = starter.result()
            assert (started.path, started.status.pid) == (path, found[1].pid)
            assert machine_of(started.status.manager, path) == first
    assert len(first.key) == 64
    # Those of the later one have been ended.
    assert sorted(len(starter.result().daemons) for starter in starters) == [0, 2]


def test_manager_at_an_ipv6_address_is_found_with_its_key(place):
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    path, status, _ = starting.start_node(policy_kind("gang"), print, listen="::1")
    assert status.manager.startswith("[::1]:")
    assert machine_of(status.manager, path) is not None


def test_starter_that_comes_too_late_leaves_the_key_alone(place):
    first = starting.start_node(policy_kind("gang"), print)
    machine = machine_of(first.status.manager, first.path)
    assert machine is not None
    late = starting.start_node(policy_kind("gang"), print, machine=ManagerAccess(machine.address, ""))
    assert late.status.pid == first.status.pid
    assert machine_of(late.status.manager, late.path) == machine
