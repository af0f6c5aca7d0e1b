"""Registered processes are kept until they have really ended."""

import os
import socket
import subprocess

import pytest

from apples.coscheduling.events import Process
from apples.daemons.classmemory import ClassMemory
from apples.daemons.exchanges import RegisterRequest
from apples.daemons.ipc.eventloop import Loop
from apples.daemons.journal import Journal
from apples.daemons.managednode import check_limits
from apples.daemons.processcontrol import Capabilities
from apples.daemons.processes import ProcessRegistration, RegistrationRefused
from apples.daemons.processregistry import ProcessRegistry
from apples.daemons.settings import UserLimits


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
        UserLimits(),
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
        keeping.register(RegisterRequest(job="j", rank=0, ranks=1, pid=child.pid), near)
        process = Process("j", 0)
        seen = keeping._loop._ready[keeping._pidfds[process]]
        # an event of the batch that was fetched before the descriptor was opened anew
        seen()
        assert process in keeping._node.processes
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        seen()
        assert process not in keeping._node.processes
        assert [one.state for one in keeping.ended["j"].values()] == ["ended"]
    child.wait()


def test_processes_and_jobs_of_another_user_are_limited(bench):
    node = bench("uncoordinated")
    for job, rank in (("one", 0), ("one", 1), ("two", 0)):
        node.add(job, rank)

    def check(job, rank=5, uid=7, **limits):
        process = Process(job, rank)
        new = ProcessRegistration(process=process, ranks=9, pid=1, uid=uid, started=1)
        check_limits(node.node.processes, new, UserLimits(**limits))

    check("three", jobs=3, processes=4)
    check("two", jobs=2)
    check("three", uid=8, jobs=1, processes=1)
    with pytest.raises(RegistrationRefused, match=r"user 7 has 2 jobs here already \(limits.jobs\)"):
        check("three", jobs=2)
    with pytest.raises(
        RegistrationRefused, match=r"user 7 has 3 processes here already \(limits.processes\)"
    ):
        check("two", processes=3)
