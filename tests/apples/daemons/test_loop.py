"""The loop of a daemon: instants in their order, and nothing starves anything."""

import os
import signal
import subprocess
import sys
import time

import pytest

from apples.daemons.ipc.eventloop import Loop
from apples.daemons.ipc.timer import now
from tests.transcripts import text_of

KINDS = pytest.mark.parametrize("precise", [True, False])


@pytest.fixture
def made(precise):
    loop = Loop(precise=precise)
    yield loop
    loop.close()


@KINDS
def test_alarms_ring_in_their_order_and_not_when_cancelled(made):
    heard, begin = [], now()
    made.at(begin + 0.03, made.stop)
    made.at(begin + 0.02, lambda: heard.append("second"))
    made.at(begin + 0.01, lambda: heard.append("first"))
    made.at(begin + 0.015, lambda: heard.append("never")).cancel()
    made.run()
    assert heard == ["first", "second"]
    assert now() - begin >= 0.03


@KINDS
def test_alarm_that_is_always_late_starves_no_descriptor(made):
    read, write = os.pipe()
    os.write(write, b"x")
    rung = 0

    def late():
        nonlocal rung
        rung += 1
        if rung < 1000:
            made.at(now(), late)

    made.watch(read, made.stop)
    made.at(now(), late)
    made.run()
    os.close(read)
    os.close(write)
    assert rung < 10


@pytest.mark.parametrize("precise", [False])
def test_what_is_expected_is_overdue_once_unless_put_off(made):
    begin, overdue = now(), []
    # A quarter of a second: a process that waits for a processor meanwhile must not find the first one overdue.
    made.expect(begin + 0.25, lambda: overdue.append("early"))
    made.at(begin, lambda: made.expect(begin + 0.26, lambda: overdue.append("late")))
    made.at(begin + 0.3, made.stop)
    made.run()
    assert overdue == ["late"]


@pytest.mark.parametrize("precise", [False])
def test_what_is_urgent_does_not_wait_behind_a_flood(made):
    pipes, heard = [os.pipe() for _ in range(100)], []
    for read, write in pipes:
        os.write(write, b"x")
        made.watch(read, lambda: heard.append("flood"))
    made.hurry(lambda: heard.append("urgent"))
    made.at(now() + 0.01, made.stop)
    made.run()
    for pipe in pipes:
        for end in pipe:
            os.close(end)
    assert heard[0] == "urgent"
    assert heard[1:].count("urgent") >= 1


#: Says what it heard first: a line on its input, or that none has come for 1 s.
_LISTENER = text_of("apples/daemons/loop_listener.txt")


def test_who_was_stopped_for_long_reads_what_came_before_it_calls_others_silent():
    listener = subprocess.Popen(
        [sys.executable, "-c", _LISTENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with listener:
        try:
            assert listener.stdout.readline() == "listening\n"
            time.sleep(0.1)
            listener.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, listener.pid, os.WSTOPPED)
            listener.stdin.write("here I am\n")
            listener.stdin.flush()
            time.sleep(1.0)
            listener.send_signal(signal.SIGCONT)
            assert listener.stdout.readline() == "line\n"
        finally:
            listener.kill()
