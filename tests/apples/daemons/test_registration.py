"""The door of a node manager: who floods it, or does not read, takes nothing from the others."""

import errno
import json
import os
import resource
import shutil
import socket
import tempfile
import time
from pathlib import Path

import pytest

from apples.coscheduling.events import Process
from apples.daemons.ipc.eventloop import Loop
from apples.daemons.ipc.listener import Listener
from apples.daemons.ipc.streams import Stream
from apples.daemons.registration import RegistrationServer


class Desk:
    """Answers every question with `size` bytes. requests : of processes for the processor"""

    size = 10

    def __init__(self):
        self.requests = 0

    def register(self, request, connection):
        return Process("j", 0)

    def leave(self, process):
        pass

    def requested(self):
        self.requests += 1

    def ask(self, what, argument, answer):
        answer("x" * self.size)
        return True


@pytest.fixture
def loop():
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def everybodys():
    """A directory that every user can reach, unlike those of pytest."""
    made = Path(tempfile.mkdtemp(prefix="door-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def run(loop, seconds=0.2):
    """Let it run for a while."""
    loop._stopped = False
    loop.after(seconds, loop.stop)
    loop.run()


def test_without_descriptors_the_door_is_closed_for_a_while_and_opened_again(loop):
    tried, came = [], []

    class Scarce(socket.socket):
        def accept(self):
            tried.append(1)
            if len(tried) < 3:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    with Scarce() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        door = Listener(loop, listener, came.append)
        with socket.create_connection(listener.getsockname()):
            # level-triggered: thousands of attempts, were it watched on
            while not came:
                run(loop, 0.05)
            assert len(tried) == 3
            came[0].close()
        door.close()


def test_who_asks_for_the_processor_has_registered_and_gets_no_answer(loop, tmp_path):
    desk = Desk()
    reception = RegistrationServer(loop, tmp_path / "s", desk, most_of_user=9)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "s"))
        client.settimeout(10)

        def answer(line):
            client.sendall(line)
            run(loop, 0.02)
            return client.recv(1000)

        assert b"'schedule' is no request" in answer(b'{"schedule": null}\n')
        assert b"registered" in answer(b'{"register": {"job": "j", "rank": 0, "ranks": 1}}\n')
        client.settimeout(0)
        with pytest.raises(BlockingIOError):
            answer(b'{"schedule": null}\n{"schedule": null}\n')
    assert desk.requests == 2
    reception.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can connect as another user")
def test_one_user_leaves_connections_to_the_others(loop, everybodys):
    path = everybodys / "s"
    logged = []
    reception = RegistrationServer(loop, path, Desk(), most_of_user=2, all_users=True, log=logged.append)

    def connect(uid):
        made = socket.socket(socket.AF_UNIX)
        os.seteuid(uid)
        try:
            made.connect(str(path))
        finally:
            os.seteuid(0)
        run(loop, 0.02)
        made.settimeout(10)
        return made

    def answers(client):
        client.sendall(b'{"status": null}\n')
        run(loop, 0.02)
        return client.recv(100)

    others = [connect(65534) for _ in range(3)]
    assert b"status" in answers(others[1])
    assert json.loads(others[2].recv(1000)) == {
        "refused": "user 65534 has 2 connections already (limits.connections); close some",
        "code": 6,
    }
    ours = [connect(0) for _ in range(4)]
    assert all(b"status" in answers(client) for client in ours)
    others[0].close()
    run(loop, 0.02)
    others.append(connect(65534))
    assert b"status" in answers(others[3])
    assert logged == [
        "user 65534: refused: user 65534 has 2 connections already (limits.connections); close some"
    ]
    for client in (*ours, *others):
        client.close()
    reception.close()


def test_who_asks_and_does_not_read_is_shown_out_and_a_long_answer_is_not_cut(loop, tmp_path):
    desk = Desk()
    reception = RegistrationServer(loop, tmp_path / "s", desk, most_of_user=9)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "s"))
        client.setblocking(False)
        desk.size = 3 << 20
        client.sendall(b'{"status": null}\n')
        got = bytearray()
        while not got.endswith(b"\n"):
            run(loop, 0.01)
            try:
                got += client.recv(1 << 20)
            except BlockingIOError:
                continue
        assert len(json.loads(got)["status"]) == desk.size
        client.sendall(b'{"status": null}\n' * 3)
        until = time.monotonic() + 20
        while reception._server._clients:
            assert time.monotonic() < until
            run(loop, 0.01)
    reception.close()


def test_side_that_does_not_read_has_a_bounded_heap(loop):
    reasons = []
    near, far = socket.socketpair()
    stream = Stream(loop, near, on_line=print, on_end=reasons.append, most_waiting=100_000)
    for _ in range(100):
        stream.send(b"x" * 100_000)
        assert len(stream._waiting) <= 200_000
    assert reasons == ["it does not read what it is sent"]
    far.close()


def test_daemons_have_the_descriptors_that_they_may(local_cluster):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
    try:
        site = local_cluster()
        site.start()
        for daemon in (site.manager, site.nodes["a"]):
            soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
            assert soft == min(65536, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_rank_that_comes_and_goes_is_remembered_once(local_cluster):
    site = local_cluster(policy="uncoordinated")
    site.start_node("a", managed=False)
    affinity = os.sched_getaffinity(0)
    try:
        stays = site.spin("j", 1, 2, "a")
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(20)
                client.connect(str(site.socket("a")))
                about = {"job": "j", "rank": 0, "ranks": 2}
                client.sendall(json.dumps({"register": about}).encode() + b"\n")
                assert b"registered" in client.recv(1000)
                assert [p["rank"] for p in site.ask("a", "job", "j")] == [1, 0]
            site.wait(lambda: len(site.ask("a", "status")["processes"]) == 1)
        assert sorted(p["rank"] for p in site.ask("a", "job", "j")) == [0, 1]
        assert stays.poll() is None
    finally:
        os.sched_setaffinity(0, affinity)
