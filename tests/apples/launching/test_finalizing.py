"""Ranks that end after MPI_Finalize without their exit handlers: messages to hydra, and the end of other ranks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apples.hosts.relays import FINALIZE_S
from apples.launching import mpirun
from apples.launching.command import BARE, RANK_WRAPPER
from apples.launching.mpirun import HostAccess
from tests.transcripts import text_of

#: A program that talks to hydra as MPICH does.
PMI = "import os; pmi = int(os.environ['PMI_FD']); ask = lambda line: (os.write(pmi, line), os.read(pmi, 100)); "
INIT, BARRIER, FINALIZE = b"cmd=init\n", b"cmd=barrier_in\n", b"cmd=finalize\n"

MPI = "from mpi4py import MPI\nimport json, os, time\nrank = MPI.COMM_WORLD.rank\n"


class Hydra:
    """The other end of a rank's PMI connection, and the wrapper that was started with it."""

    def __init__(self, run_dir: Path, program: str) -> None:
        self.status = run_dir / "status-00000.json"
        self.connection, theirs = socket.socketpair()
        self.connection.settimeout(20.0)
        lifeline, self.lifeline = os.pipe()
        fds = (lifeline, os.open(os.devnull, os.O_WRONLY), os.dup(1), os.dup(2))
        handed = (*fds, theirs.fileno())
        self.wrapper = subprocess.Popen(
            [
                sys.executable,
                *BARE,
                RANK_WRAPPER,
                run_dir,
                "localhost:1",
                "--",
                sys.executable,
                "-c",
                PMI + program,
            ],
            env={
                "MPI_LOCALNRANKS": "1",
                "PMI_SIZE": "1",
                **os.environ,
                "PMI_FD": str(theirs.fileno()),
                "APPLES_RANK_FDS": ",".join(map(str, fds)),
            },
            pass_fds=handed,
        )
        theirs.close()
        for fd in fds:
            os.close(fd)

    def hears(self) -> bytes:
        """The next message; empty when wrapper, supervisor and program have closed the connection."""
        return self.connection.recv(100)

    def answers(self) -> list[bytes]:
        """Answer every message until the connection is closed, and return them all."""
        messages = []
        while message := self.hears():
            messages.append(message)
            self.connection.send(b"cmd=answer\n")
        return messages

    def lets_go(self) -> None:
        """Close the lifeline, as a launcher does that ends a run."""
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1


@pytest.fixture
def hydra(tmp_path: Path) -> Iterator[Callable[[str], Hydra]]:
    started = []

    def start(program: str) -> Hydra:
        started.append(Hydra(tmp_path, program))
        return started[-1]

    yield start
    for one in started:
        one.lets_go()
        one.connection.close()
        one.wrapper.kill()
        one.wrapper.wait()


@pytest.mark.parametrize(
    ("program", "messages", "code"),
    [
        (f"ask({INIT}); ask({BARRIER}); os._exit(0)", [INIT, BARRIER, FINALIZE], 0),
        (f"ask({INIT}); ask({BARRIER}); os._exit(3)", [INIT, BARRIER, FINALIZE], 3),
        (f"ask({INIT}); ask({BARRIER}); ask({FINALIZE})", [INIT, BARRIER, FINALIZE], 0),
        (f"ask({INIT}); os._exit(0)", [INIT], 0),
        (f"ask({BARRIER}); ask({INIT}); os._exit(0)", [BARRIER, INIT], 0),
        (f"ask({INIT}); ask({BARRIER}); os.kill(os.getpid(), 9)", [INIT, BARRIER], -9),
        ("os._exit(0)", [], 0),
    ],
    ids=["skipped", "skipped-failed", "sent", "no-barrier", "barrier-in-init", "killed", "no-mpi"],
)
def test_finalize_is_sent_once_after_the_barrier(hydra, program: str, messages: list[bytes], code: int):
    rank = hydra(program)
    assert rank.answers() == messages
    assert rank.wrapper.wait() == code
    assert json.loads(rank.status.read_text())["ended_by"] == "itself"


@pytest.mark.parametrize(("barriers", "sent"), [(1, []), (2, [FINALIZE])])
def test_first_barrier_on_several_hosts_is_of_init(
    hydra, monkeypatch, barriers: int, sent: list[bytes]
) -> None:
    monkeypatch.setenv("MPI_LOCALNRANKS", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    rank = hydra(f"ask({INIT}); " + f"ask({BARRIER}); " * barriers + "os._exit(0)")
    assert rank.answers() == [INIT, *[BARRIER] * barriers, *sent]
    assert rank.wrapper.wait() == 0
    error = json.loads(rank.status.read_text())["error"]
    assert error == (None if sent else "ended with exit code 0 before MPI_Finalize")


def test_supervisor_answers_the_last_barrier_of_mpich_4(hydra, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPI_LOCALNRANKS", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    address = b"cmd=put kvsname=k key=-allgather-shm-1-0 value=20D1\n"
    waited = f"import time; began = time.monotonic(); answer = ask({BARRIER})[1]; took_s = time.monotonic() - began"
    judged = (
        f"ask({FINALIZE}); os._exit(0 if answer == b'cmd=barrier_out\\n' and took_s >= {FINALIZE_S} else 1)"
    )
    rank = hydra(f"ask({address}); ask({BARRIER}); {waited}; {judged}")
    assert rank.answers() == [address, BARRIER, FINALIZE]
    assert rank.wrapper.wait() == 0


def test_supervisor_waits_for_the_answer_to_finalize(hydra) -> None:
    rank = hydra(f"ask({BARRIER}); os._exit(0)")
    assert rank.hears() == BARRIER
    rank.connection.send(b"cmd=barrier_out\n")
    assert rank.hears() == FINALIZE
    # The end of the program is recorded before; only the answer is missing.
    assert json.loads(rank.status.read_text())["exit_code"] == 0
    with pytest.raises(subprocess.TimeoutExpired):
        rank.wrapper.wait(0.2)
    rank.connection.send(b"cmd=finalize_ack\n")
    assert rank.hears() == b""
    assert rank.wrapper.wait() == 0


@pytest.mark.parametrize("end", ["lifeline", "wrapper"])
def test_supervisor_ends_if_hydra_never_answers(hydra, end: str) -> None:
    rank = hydra(f"ask({BARRIER}); os._exit(0)")
    assert rank.hears() == BARRIER
    rank.connection.send(b"cmd=barrier_out\n")
    assert rank.hears() == FINALIZE
    if end == "lifeline":
        rank.lets_go()
    else:
        rank.wrapper.kill()
    assert rank.hears() == b""


def test_rank_that_skips_exit_handlers_ends_no_other(runs) -> None:
    # Rank 1 still runs after MPI_Finalize when hydra sees the end of rank 0. Without the finalize message hydra
    # kills it within milliseconds of the end of rank 0's supervisor.
    program = MPI + (text_of("apples/launching/finalizes.txt"))
    request = runs.request("sh", "-c", f'cd "{runs.directory}" && exec "$0" -c "$1"', sys.executable, program)
    outcome = mpirun.run(request, HostAccess(here=True), lambda line: None)
    assert outcome.finished, outcome.message
    assert [s.exit_code for s in outcome.statuses] == [0, 0]


def test_rank_that_skips_mpi_finalize_ends_the_others(runs) -> None:
    program = MPI + "if rank: os._exit(0)\nMPI.COMM_WORLD.barrier()"
    outcome = mpirun.run(
        runs.request(sys.executable, "-c", program), HostAccess(here=True), lambda line: None
    )
    assert outcome.message == "rank 1 on localhost ended with exit code 0 before MPI_Finalize"
    assert outcome.statuses[0].signal == 9
