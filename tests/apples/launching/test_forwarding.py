"""Signals to a launcher: what the ranks get, what the user is told, what the exit code is."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.transcripts import text_of

#: Says which signals it gets; ends at the one given.
LISTENER = text_of("apples/launching/forwarding_listener.txt")


def listening(launch, until: str):
    launched = launch(sys.executable, "-c", LISTENER, until)
    for _ in range(2):
        assert launched.process.stdout.readline() == "ready\n"
    # A program may say something before its start is recorded.
    launched.wait_until_running()
    return launched


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_interrupt_reaches_every_rank_once(launch, name: str, code: int) -> None:
    launched = listening(launch, name)
    launched.process.send_signal(signal.Signals[name])
    returned, out, err = launched.ended()
    assert (returned, out) == (code, f"{name}\n" * 2)
    notes = err.splitlines()
    assert notes[0] == "passing the interrupt on to the ranks; interrupt once more to end them"
    assert [note.partition(" (pid")[0] for note in notes[1:3]] == [
        f"rank {r} on localhost runs" for r in (0, 1)
    ]
    assert notes[3] == f"interrupted: the run was interrupted by signal {name.removeprefix('SIG')}"


def test_user_signals_reach_the_ranks_and_the_run_goes_on(launch) -> None:
    launched = listening(launch, "SIGUSR2")
    launched.process.send_signal(signal.SIGUSR1)
    for _ in range(2):
        assert launched.process.stdout.readline() == "SIGUSR1\n"
    launched.process.send_signal(signal.SIGUSR2)
    assert launched.ended() == (0, "SIGUSR2\n" * 2, "finished: \n")


def test_second_interrupt_terminates_and_then_kills(launch, runs) -> None:
    launched = listening(launch, "never")
    launched.process.send_signal(signal.SIGINT)
    for _ in range(2):
        assert launched.process.stdout.readline() == "SIGINT\n"
    launched.process.send_signal(signal.SIGINT)
    returned, out, _ = launched.ended()
    assert (returned, out) == (130, "SIGTERM\n" * 2)
    assert runs.left() == {}


def test_interrupt_while_the_ranks_start_is_not_lost(launch, runs, wait_for) -> None:
    launched = launch("sleep", "600", ranks=4)
    wait_for(lambda: (runs.directory / "mpiexec.log").exists())
    launched.process.send_signal(signal.SIGINT)
    returned, _, err = launched.ended()
    assert returned == 130
    assert err.splitlines()[-1] == "interrupted: the run was interrupted by signal INT"


def test_signal_that_kills_a_rank_is_the_runs_failure(launch) -> None:
    launched = launch("sleep", "600")
    launched.wait_until_running()
    launched.process.send_signal(signal.SIGUSR1)
    returned, _, err = launched.ended()
    assert returned == 128 + signal.SIGUSR1
    assert "was killed by signal 10 (USR1)" in err
