"""Real runs through the environment's mpiexec: output, codes, culprits, limits; nothing is left behind.

The `runs` fixture ends every test with a search for processes that carry its marker.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from apples.errors import LaunchError, NotExecutable
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.launching.termination import GracePeriods
from apples.model.plan import Outcome
from tests.transcripts import text_of

QUICK = GracePeriods(together_s=0.2, failure_s=0.3, request_s=0.3, cut_s=1.0)


def run(request, notes: list[str] | None = None) -> Outcome:
    return mpirun.run(
        request, HostAccess(grace=QUICK, here=True), (notes if notes is not None else []).append
    )


def sh(text: str) -> tuple[str, str, str]:
    return ("sh", "-c", text)


def test_run_that_ends_well(runs, capfd) -> None:
    outcome = run(runs.request(*sh("echo out; echo err >&2"), hosts=["localhost", "127.0.0.1"]))
    assert (outcome.ended, outcome.exit_code, outcome.message) == ("finished", 0, "")
    assert [(s.rank, s.host, s.exit_code) for s in outcome.statuses] == [
        (0, "localhost", 0),
        (1, "127.0.0.1", 0),
    ]
    assert outcome.observed_s > 0
    assert outcome.observations == ()
    assert capfd.readouterr() == ("out\nout\n", "err\nerr\n")
    record = json.loads((runs.directory / "status-00001.json").read_text())
    assert record["host"] == "127.0.0.1"
    assert record["started"] <= record["ended"]
    assert sorted(p.name for p in runs.directory.iterdir()) == ["status-00000.json", "status-00001.json"]


def test_what_an_earlier_run_left_is_not_believed(runs) -> None:
    (runs.directory / "status-00001.json").write_text("old")
    assert run(runs.request("true")).finished


def test_stdout_is_kept_free_on_request(runs, capfd) -> None:
    request = dataclasses.replace(runs.request(*sh("echo out")), program_output_to_stderr=True)
    assert run(request).finished
    assert capfd.readouterr() == ("", "out\nout\n")


def test_labels_keep_lines_whole_under_load_through_a_pipe(launch) -> None:
    program = "for i in range(3000): print('x' * (i % 700), flush=i % 7 == 0)\nprint('end', end='')"
    code, out, err = launch(sys.executable, "-c", program, ranks=3, label=True).ended()
    lines = out.splitlines()
    for rank in range(3):
        mine = [line.removeprefix(f"[{rank}] ") for line in lines if line.startswith(f"[{rank}] ")]
        assert mine == ["x" * (i % 700) for i in range(3000)] + ["end"]
    assert (code, len(lines), err) == (0, 9003, "finished: \n")


def test_ranks_inherit_no_descriptors_and_no_stdin(runs, capfd, monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    program = text_of("apples/launching/descriptors.txt")
    assert run(runs.request(sys.executable, "-c", program)).finished
    assert capfd.readouterr().out == "('1', False, '', True)\n" * 2


def test_highest_code_not_the_union_of_bits(runs) -> None:
    outcome = run(runs.request(*sh("exit $((3 + $PMI_RANK))"), hosts=["localhost"] * 3))
    assert (outcome.ended, outcome.exit_code) == ("failed", 5)
    assert [s.exit_code for s in outcome.statuses] == [3, 4, 5]


@pytest.mark.parametrize(
    ("death", "code", "says"),
    [
        ("exit 3", 3, "rank 1 on 127.0.0.1 ended with exit code 3"),
        ("kill -SEGV $$", 139, "rank 1 on 127.0.0.1 was killed by signal 11 (SEGV)"),
        ("kill -KILL $$", 137, "rank 1 on 127.0.0.1 was killed by signal 9 (KILL)"),
    ],
)
def test_crash_ends_the_others_and_names_the_culprit(runs, capfd, death: str, code: int, says: str) -> None:
    outcome = run(
        runs.request(
            *sh(f"test $PMI_RANK = 1 && {{ sleep 0.3; {death}; }}; sleep 600"),
            hosts=["localhost", "127.0.0.1", "localhost"],
        )
    )
    assert (outcome.ended, outcome.exit_code, outcome.message) == ("failed", code, says)
    assert all(s.signal in (9, 15) for s in outcome.statuses if s.rank != 1)
    assert capfd.readouterr() == ("", "")


def test_ranks_that_ignore_being_asked_are_killed(runs) -> None:
    outcome = run(
        runs.request(
            *sh("test $PMI_RANK = 1 && { sleep 0.3; exit 3; }; trap '' TERM INT; while :; do sleep 1; done")
        )
    )
    assert (outcome.exit_code, outcome.message) == (3, "rank 1 on localhost ended with exit code 3")
    assert outcome.statuses[0].signal == 9


MPI = "from mpi4py import MPI\nimport os, sys, time\nrank = MPI.COMM_WORLD.rank\n"


def test_mpi_ranks_find_each_other(runs, capfd) -> None:
    program = MPI + "os.write(1, b'%d\\n' % MPI.COMM_WORLD.allreduce(rank + 1))"
    assert run(runs.request(sys.executable, "-c", program)).finished
    assert capfd.readouterr().out == "3\n3\n"


def test_dead_mpi_neighbour_is_not_waited_for(runs) -> None:
    program = MPI + "if rank == 1: os._exit(3)\nMPI.COMM_WORLD.barrier()"
    outcome = run(runs.request(sys.executable, "-c", program))
    assert (outcome.exit_code, outcome.message) == (3, "rank 1 on localhost ended with exit code 3")


def test_caller_of_mpi_abort_is_named(runs, capfd) -> None:
    program = MPI + "if rank == 1: MPI.COMM_WORLD.Abort(5)\nMPI.COMM_WORLD.barrier()"
    outcome = run(runs.request(sys.executable, "-c", program))
    assert outcome.exit_code == 5
    assert outcome.message == "rank 1 on localhost aborted the run (MPI_Abort) with code 5"
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("death", ["os._exit(3)", "os.kill(os.getpid(), 9)", "MPI.COMM_WORLD.Abort(5)"])
def test_mpis_shared_memory_goes_with_the_ranks(runs, capfd, death: str) -> None:
    program = MPI + (
        "MPI.COMM_WORLD.barrier()\n"
        "names = {line.split()[-1] for line in open('/proc/self/maps') if '/mpich_shm_' in line}\n"
        "os.write(1, ' '.join(names).encode() + b'\\n')\n"
        "MPI.COMM_WORLD.barrier()\n"
        f"if rank == 1: {death}\n"
        "MPI.COMM_WORLD.barrier()"
    )
    assert not run(runs.request(sys.executable, "-c", program)).finished
    (segment,) = set(capfd.readouterr().out.split())
    assert segment.startswith("/dev/shm/mpich_shm_")
    assert not Path(segment).exists()


def test_what_a_program_leaves_running_is_ended(runs) -> None:
    notes: list[str] = []
    request = runs.request(*sh("sleep 600 & setsid sleep 600 & exit 0"))
    assert mpirun.run(request, HostAccess(here=True), notes.append).finished
    assert notes == ["the launcher killed 4 processes that ranks 0-1 had left"]
    assert runs.left() == {}


def test_program_whose_interpreter_is_missing(runs, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(
        NotExecutable, match="names the interpreter '/no/such/interpreter', which is not there"
    ):
        run(runs.request(str(script)))


def test_time_limit(runs) -> None:
    outcome = run(runs.request("sleep", "600", time_limit_s=0.5))
    assert (outcome.ended, outcome.exit_code) == ("time limit", 124)
    assert outcome.message == "the run was ended at its time limit of 0.5 s"
    assert {s.signal for s in outcome.statuses} == {15}


def test_broken_mpiexec_is_a_failed_launch(runs, tmp_path: Path) -> None:
    fake = tmp_path / "mpiexec"
    fake.write_text("#!/bin/sh\necho no licence >&2\nexit 0\n")
    fake.chmod(0o755)
    outcome = mpirun.run(runs.request("true"), HostAccess(bin_dir=tmp_path, here=True), lambda line: None)
    assert (outcome.ended, outcome.exit_code) == ("failed", 125)
    assert outcome.message == (
        "rank 0 on localhost, 1 on localhost did not start (mpiexec ended with code 0): no licence"
    )


def test_in_a_thread_it_runs_as_well(runs) -> None:
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run(runs.request("true"))))
    thread.start()
    thread.join()
    assert outcomes[0].finished


def test_notify_that_fails_takes_the_ranks_with_it(runs, wait_for) -> None:
    def broken(line: str) -> None:
        raise BrokenPipeError("nobody listens")

    def interrupt() -> None:
        wait_for(lambda: len(list(runs.directory.glob("status-*.json"))) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(BrokenPipeError):
        mpirun.run(runs.request("sleep", "600"), HostAccess(grace=QUICK, here=True), broken)
    thread.join()
    assert runs.left() == {}


def test_more_ranks_than_cores(runs) -> None:
    outcome = run(runs.request("true", hosts=["localhost"] * 16))
    assert outcome.finished
    assert [s.rank for s in outcome.statuses] == list(range(16))


def test_launcher_cannot_be_started_where_it_should_not(runs) -> None:
    with pytest.raises(LaunchError, match="hosts far are not this machine"):
        run(runs.request("true", hosts=["far"]))
    assert list(runs.directory.iterdir()) == []
