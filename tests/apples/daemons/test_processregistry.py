"""Registered processes are kept until they have really ended."""

import os
import socket
import subprocess

import pytest

from apples.coscheduling.events import Process
from apples.daemons.classmemory import ClassMemory
from apples.daemons.journal import Journal
from apples.daemons.processcontrol import Capabilities
from apples.daemons.processregistry import ProcessRegistry
from apples.ipc.loop import Loop


class NoWatchdog:
    """A watchdog that nobody needs."""

    def hold(self, key, fd, action):
        pass

    def drop(self, key):
        pass


@pytest.fixture
def keeping(bench, tmp_path):
    loop, journal = Loop(), Journal(tmp_path / "n.sock")
    made = ProcessRegistry(
        bench("uncoordinated").node,
        loop,
        NoWatchdog(),
        Capabilities(),
        journal,
        ClassMemory(tmp_path / "classes.json"),
        removed=lambda process: None,
    )
    yield made
    for process in list(made._node.processes):
        made.remove(process, "left")
    journal.close()
    loop.close()


def test_news_of_another_process_with_the_same_descriptor_ends_nobody(keeping):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    near, far = socket.socketpair()
    with near, far:
        keeping.register({"job": "j", "rank": 0, "ranks": 1, "pid": child.pid}, near)
        process = Process("j", 0)
        seen = keeping._loop._ready[keeping._pidfds[process]]
        # an event of the batch that was fetched before the descriptor was opened anew
        seen()
        assert process in keeping._node.processes
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        seen()
        assert process not in keeping._node.processes
        assert [one["state"] for one in keeping.ended["j"].values()] == ["ended"]
    child.wait()
