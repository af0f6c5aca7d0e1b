"""The watchdog resumes what is held when the node manager is gone or hangs; and it is watched over itself."""

import os
import signal
import subprocess
import time

import pytest

from apples.daemons.ipc.eventloop import Loop
from apples.daemons.processes import facts
from apples.daemons.watchdogclient import WatchdogClient


class Post:
    """A guard in a loop of its own, holding one process."""

    def __init__(self, patience_s):
        self.said, self.patience_s = [], patience_s
        self.loop = Loop()
        self.guard = WatchdogClient(self.loop, realtime=False, log=self.said.append, changed=self.loop.stop)
        self.process = subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.pidfd = os.pidfd_open(self.process.pid)
        self.guard.start()
        self.turn()
        self.guard.hold("x", self.pidfd, b"s%d" % self.process.pid)

    def turn(self):
        """Until `ready` has changed."""
        self.loop._stopped = False
        self.loop.run()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        assert self.becomes("T")
        self.guard.stopping(time.monotonic() + self.patience_s)

    def becomes(self, state, within_s=10.0):
        deadline = time.monotonic() + within_s
        while facts(self.process.pid).state != state and time.monotonic() < deadline:
            time.sleep(0.002)
        return facts(self.process.pid).state == state

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.pidfd)
        self.guard.close()
        self.loop.close()


@pytest.fixture
def post():
    made = []

    def make(patience_s=60.0):
        made.append(Post(patience_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_end_of_the_node_manager_resumes_everything(post):
    one = post()
    one.stop()
    one.guard.close()
    assert one.becomes("S")


def test_node_manager_that_hangs_is_not_waited_for(post):
    one = post(patience_s=0.2)
    one.stop()
    assert one.becomes("S")
    # and when it goes on as if nothing had been, so does the watchdog
    one.stop()
    assert one.becomes("S")
    assert one.guard.ready


def test_hang_after_another_watchdog_has_taken_over(post):
    one = post(patience_s=0.2)
    one.stop()
    os.kill(one.guard.pid, signal.SIGKILL)
    one.turn()
    one.turn()
    assert one.guard.ready
    assert one.becomes("S")
    one.stop()
    assert one.becomes("S")


def test_one_who_hangs_in_the_middle_of_stopping_is_not_waited_for_either(post):
    one = post(patience_s=0.1)
    one.stop()
    assert one.becomes("S")
    # stopped after its deadline, and nothing said since
    one.process.send_signal(signal.SIGSTOP)
    assert one.becomes("T")
    assert one.becomes("S")


def test_later_deadline_is_waited_for(post):
    one = post(patience_s=0.1)
    one.process.send_signal(signal.SIGSTOP)
    assert one.becomes("T")
    one.guard.stopping(time.monotonic() + 60.0)
    time.sleep(0.3)
    assert facts(one.process.pid).state == "T"


def test_while_nothing_is_stopped_no_signs_of_life_are_needed(post):
    one = post(patience_s=0.05)
    one.stop()
    one.guard.running()
    one.process.send_signal(signal.SIGSTOP)
    assert one.becomes("T")
    time.sleep(0.2)
    assert facts(one.process.pid).state == "T"


def test_what_was_dropped_is_left_alone(post):
    one = post()
    one.stop()
    one.guard.drop("x")
    one.guard.close()
    assert facts(one.process.pid).state == "T"


def test_watchdog_that_is_killed_is_replaced_and_knows_what_is_held(post):
    one = post()
    first = one.guard.pid
    os.kill(first, signal.SIGKILL)
    one.turn()
    assert not one.guard.ready
    assert one.said == ["the watchdog has died; nothing is stopped until another stands"]
    one.turn()
    assert one.guard.ready
    assert one.guard.pid != first
    one.stop()
    one.guard.close()
    assert one.becomes("S")


def test_signals_meant_for_the_node_manager_do_not_end_it(post):
    one = post()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(one.guard.pid, number)
    one.stop()
    one.guard.close()
    assert one.becomes("S")


def test_process_that_has_ended_does_not_keep_the_others_stopped(post):
    one = post()
    gone = subprocess.Popen(["true"])
    pidfd = os.pidfd_open(gone.pid)
    one.guard.drop("x")
    one.guard.hold("gone", pidfd, b"s%d" % gone.pid)
    one.guard.hold("x", one.pidfd, b"s0")
    gone.wait()
    one.stop()
    one.guard.close()
    assert one.becomes("S")
    os.close(pidfd)
