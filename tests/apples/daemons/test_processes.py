"""Who may be touched: real sockets, real processes, and everything that somebody might claim."""

import json
import os
import signal
import socket
import subprocess

import pytest

from apples.coscheduling.events import Process
from apples.daemons import processes
from apples.daemons.exchanges import NODE_REQUESTS, RegisterRequest
from apples.daemons.ipc.requests import read_request
from apples.daemons.journal import Journal
from apples.daemons.nodeclient import NodeClient
from apples.daemons.processes import ProcessRegistration, RegistrationRefused, adopt, alive, check, facts
from apples.errors import ConfigError, SharingError
from tests.transcripts import recorded


@pytest.fixture
def sleeper():
    """Starts processes that do nothing."""
    started = []

    def make(*command):
        process = subprocess.Popen(command or ("sleep", "600"), start_new_session=True)
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def connection(tmp_path):
    """The node manager's end of a connection that this process made."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as ours:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        ours.connect(str(tmp_path / "s"))
        theirs, _ = listener.accept()
        with theirs:
            yield theirs


def request(pid, **changes):
    return RegisterRequest(**{"job": "j", "rank": 1, "ranks": 2, "pid": pid, "page": None} | changes)


def test_process_registers_itself(connection):
    registration, pidfd = check(request(os.getpid()), connection)
    assert registration.process == Process("j", 1)
    assert (registration.ranks, registration.pid, registration.uid) == (2, os.getpid(), os.getuid())
    assert registration.started == facts(os.getpid()).started
    assert alive(pidfd)
    os.close(pidfd)


def test_process_may_leave_its_pid_out(connection):
    registration, pidfd = check(RegisterRequest(job="j", rank=1, ranks=2), connection)
    os.close(pidfd)
    assert registration.pid == os.getpid()


def test_parent_registers_its_child(connection, sleeper):
    child = sleeper()
    registration, pidfd = check(request(child.pid), connection)
    os.close(pidfd)
    assert registration.pid == child.pid


def test_process_that_is_neither_itself_nor_its_child_is_refused(connection):
    with pytest.raises(RegistrationRefused, match="neither the process that registers"):
        check(request(1), connection)


def test_process_that_is_not_there_is_refused(connection, sleeper):
    child = sleeper()
    child.kill()
    child.wait()
    with pytest.raises(RegistrationRefused, match=f"there is no process {child.pid} here"):
        check(request(child.pid), connection)


def test_process_that_has_ended_and_nobody_waited_for_is_refused(connection, sleeper):
    child = sleeper("true")
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(RegistrationRefused, match="has ended"):
        check(request(child.pid), connection)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of another user")
def test_process_of_another_user_is_refused(connection):
    child = subprocess.Popen(["sleep", "600"], user=65534)
    try:
        with pytest.raises(RegistrationRefused, match="nor started by it for the same user"):
            check(request(child.pid), connection)
    finally:
        child.kill()
        child.wait()


@recorded("apples/daemons/register_problems.txt", "changes")
def test_register_request_illegal_value_is_refused_by_name(answered, changes):
    requested = {"job": "j", "rank": 1, "ranks": 2, "pid": 1, "page": None} | changes
    with pytest.raises(ConfigError) as caught:
        read_request(NODE_REQUESTS, json.dumps({"register": requested}).encode())
    answered(str(caught.value))


@recorded("apples/daemons/request_problems.txt", "line")
def test_node_request_illegal_argument_is_refused(answered, line):
    with pytest.raises(ConfigError) as caught:
        read_request(NODE_REQUESTS, line)
    answered(str(caught.value))


def test_one_that_still_lives_is_taken_over_and_one_that_has_its_number_is_not(sleeper):
    child = sleeper()
    known = ProcessRegistration(
        process=Process("j", 0), ranks=1, pid=child.pid, uid=os.getuid(), started=facts(child.pid).started
    )
    pidfd = adopt(known)
    assert pidfd is not None
    os.close(pidfd)
    for changes in ({"started": known.started - 1}, {"uid": known.uid + 1}, {"pid": 2**22 - 1}):
        fields = {name: getattr(known, name) for name in ("process", "ranks", "pid", "uid", "started")}
        assert adopt(ProcessRegistration(**fields | changes)) is None


def test_one_node_manager_has_a_place_and_leaves_its_journal_to_the_next(tmp_path):
    path = tmp_path / "node-a.sock"
    one = ProcessRegistration(process=Process("j", 0), ranks=1, pid=5, uid=7, started=9, page="/dev/shm/x")
    first = Journal(path)
    first.write([one])
    with pytest.raises(SharingError, match=f"runs there already, process {os.getpid()}"):
        Journal(path)
    # as when it is killed: the lock goes, the journal stays
    first._lock.release()
    second = Journal(path)
    assert second.read() == [one]
    second.close()
    third = Journal(path)
    assert third.read() == []
    third.close()


def test_what_somebody_else_has_put_in_the_place_of_lock_and_journal_is_not_touched(tmp_path):
    path, precious = tmp_path / "node-a.sock", tmp_path / "precious"
    precious.write_text("precious")
    path.with_suffix(".lock").symlink_to(precious)
    with pytest.raises(SharingError, match=r"node-a.lock: cannot be made: .*symbolic links"):
        Journal(path)
    path.with_suffix(".lock").unlink()
    os.mkfifo(path.with_suffix(".lock"))
    with pytest.raises(SharingError, match=f"it is no regular file of user {os.geteuid()}; remove it"):
        Journal(path)
    path.with_suffix(".lock").unlink()
    one = ProcessRegistration(process=Process("j", 0), ranks=1, pid=5, uid=7, started=9)
    journal = Journal(path)
    journal.write([one])
    path.with_suffix(".json").rename(precious)
    path.with_suffix(".json").symlink_to(precious)
    assert journal.read() == []
    assert json.loads(precious.read_text())["processes"][0]["pid"] == 5
    journal.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_journal_of_another_user_is_not_believed(tmp_path):
    path = tmp_path / "node-a.sock"
    journal = Journal(path)
    journal.write([ProcessRegistration(process=Process("j", 0), ranks=1, pid=5, uid=7, started=9)])
    os.chown(path.with_suffix(".json"), 65534, -1)
    assert journal.read() == []
    journal.close()
    os.chown(path.with_suffix(".lock"), 65534, -1)
    with pytest.raises(SharingError, match="it is no regular file of user 0"):
        Journal(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can listen as another user")
def test_nobody_else_can_play_node_manager(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        # who listens last is who the kernel names
        os.seteuid(65534)
        try:
            listener.listen()
        finally:
            os.seteuid(0)
        with pytest.raises(SharingError, match=f"{path}: user 65534 listens there; expected user"):
            NodeClient(path)


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"process": ["j", 0]}]'])
def test_journal_that_cannot_be_read_is_an_empty_one(tmp_path, text):
    path = tmp_path / "node-a.sock"
    path.with_suffix(".json").write_text(text)
    journal = Journal(path)
    assert journal.read() == []
    journal.close()


def test_facts_survive_any_name(sleeper, tmp_path):
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    child = sleeper(str(odd), "600")
    about = facts(child.pid)
    assert about.parent == os.getpid()
    assert about.group == child.pid
    assert processes.owner(child.pid) == os.getuid()
    assert processes.threads(child.pid) == [child.pid]
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert facts(child.pid) is None
    assert processes.owner(child.pid) is None
    assert processes.threads(child.pid) == []
