"""The program itself, under mpiexec: real ranks, real signals, real files."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.transcripts import text_of

SMALL = ("--nx", 20, "--ny", 9, "--initial", "random", "--iterations", 40)


@pytest.mark.parametrize(("boundary", "ranks", "slabs"), [("fixed", 2, "6,1"), ("periodic", 3, "1,4,2")])
def test_answer_is_the_same_for_every_layout(stencil_app, boundary, ranks, slabs):
    words = ("heat", *SMALL, "--boundary", boundary)
    line = stencil_app(0, *words, "--size", 7).stdout
    assert stencil_app(ranks, *words, "--slabs", slabs).stdout == line
    assert line.startswith("heat 7x9x20: iteration 40, residual ")
    assert line.count("\n") == 1


def test_restart_on_other_ranks_equals_the_unbroken_run(stencil_app, tmp_path):
    words = ("jacobi2d", "--nx", 50, "--boundary", "hot")
    unbroken = stencil_app(0, *words, "--size", 9, "--iterations", 60, "--sweeps", 1)
    saved = ("--checkpoint", "run.ck", "--checkpoint-every", 10, "--sweeps", 2)
    stencil_app(3, *words, "--slabs", "2,3,4", "--iterations", 35, *saved)
    resumed = stencil_app(
        2, *words, "--slabs", "8,1", "--iterations", 60, "--restart", "run.ck", "--output", "f.npy"
    )
    assert resumed.stdout == unbroken.stdout != ""
    assert np.load(tmp_path / "f.npy").shape == (9, 1, 50)
    assert sorted(os.listdir(tmp_path)) == ["f.npy", "run.ck"]


def test_rank_leaves_one_record(stencil_app, tmp_path):
    stencil_app(2, "heat", *SMALL, "--slabs", "5,2", "--record-dir", "times/run")
    records = [json.loads((tmp_path / f"times/run/rank-{rank:05d}.json").read_text()) for rank in range(2)]
    assert [(r["rank"], r["rows"], r["first_row"]) for r in records] == [(0, 5, 0), (1, 2, 5)]
    for record in records:
        assert (record["nx"], record["ny"], record["iterations"], record["signal"]) == (20, 9, 40, 0)
        for phase in ("compute_s", "exchange_s", "reduce_s"):
            assert len(record["per_iteration"][phase]) == 40
            assert sum(record["per_iteration"][phase]) == pytest.approx(record[phase])
        parts = sum(record[p] for p in ("setup_s", "compute_s", "exchange_s", "reduce_s"))
        assert 0 < parts <= record["total_s"]
    assert len(os.listdir(tmp_path / "times/run")) == 2


def test_bad_input_is_said_once_by_all_ranks_together(stencil_app, tmp_path):
    done = stencil_app(3, "heat", "--slabs", "1,x,2", "--nx", 0, "--colour", "red", "green")
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert [line.split(": ")[1].split(";")[0] for line in lines] == [
        "unknown option --colour (did you mean --courant?)",
        "unexpected word 'green'",
        "--nx",
        "--slabs",
    ]
    assert os.listdir(tmp_path) == []


def test_full_disk_under_the_result_ends_all_ranks_with_4():
    command = [sys.executable, "-m", "stencil_app", "heat", *map(str, SMALL), "--size", "6"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 4
    assert done.stderr == ("stencil-app: stdout: the result could not be written: No space left on device\n")


@pytest.mark.parametrize("words", [("heat", "--nx"), ("heet",)])
def test_what_cannot_be_parsed_is_said_once_too(stencil_app, words):
    done = stencil_app(2, *words)
    assert done.returncode == 2
    assert done.stderr.count("Error: ") == 1


def test_mesh_beyond_all_memory_is_refused(stencil_app):
    done = stencil_app(2, "heat", "--size", 10**9)
    assert done.returncode == 2
    assert "2 rank(s) need " in done.stderr
    assert "GiB are free; take fewer rows, a smaller mesh or more hosts" in done.stderr
    assert done.stderr.count("\n") == 1


def test_damaged_checkpoint_ends_all_ranks(stencil_app, tmp_path):
    stencil_app(0, "heat", *SMALL, "--size", 6, "--checkpoint", "run.ck")
    data = bytearray((tmp_path / "run.ck").read_bytes())
    data[-60] ^= 1
    (tmp_path / "run.ck").write_bytes(data)
    done = stencil_app(2, "heat", *SMALL, "--size", 6, "--restart", "run.ck")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("the checksum of row 5 does not match") == 1


def test_restart_beyond_its_end_is_refused(stencil_app):
    stencil_app(0, "heat", *SMALL, "--size", 6, "--checkpoint", "run.ck")
    done = stencil_app(0, "heat", *SMALL[:-1], 39, "--size", 6, "--restart", "run.ck")
    assert done.returncode == 2
    assert "--iterations 39: run.ck is already at iteration 40; give a larger number" in done.stderr


def ranks_of(parent: int) -> list[int]:
    """Processes under `parent` that run the program, in no order."""
    import psutil

    children = psutil.Process(parent).children(recursive=True)
    return [child.pid for child in children if "stencil_app" in " ".join(child.cmdline())]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_to_one_rank_ends_all_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    mpiexec = Path(sys.executable).with_name("mpiexec")
    words = ["heat", "--size", "6", "--nx", "20", "--ny", "9", "--iterations", "1000000000"]
    words += ["--checkpoint", "run.ck", "--checkpoint-every", "100", "--record-dir", "times"]
    command = [str(mpiexec), "-n", "2", sys.executable, "-m", "stencil_app", *words]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "run.ck").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(max(ranks_of(process.pid)), number)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert out.startswith("heat 6x9x20: iteration ")
    assert sorted(os.listdir(tmp_path)) == ["run.ck", "times"]
    assert json.loads((tmp_path / "times/rank-00000.json").read_text())["signal"] == number


def test_unexpected_failure_of_one_rank_ends_the_others(tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text(text_of("stencil_app/runs_program.txt"))
    mpiexec = Path(sys.executable).with_name("mpiexec")
    command = [str(mpiexec), "-n", "2", sys.executable, str(program), "heat", "--size", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "RuntimeError: disk on fire" in done.stderr
    assert "rank 1 of 2 failed (RuntimeError); ending all ranks" in done.stderr


def test_benchmark_measures_all_ranks_at_once(stencil_app, tmp_path):
    done = stencil_app(2, "heat", "--benchmark", "b.json", "--nx", 64, "--ny", 64, "--rows", 100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = json.loads((tmp_path / "b.json").read_text())
    assert (found["ranks"], found["rows"], found["application"]) == (2, 100, "heat")
    assert found["seconds_per_row"] == pytest.approx(found["seconds_per_cell"] * 64 * 64)
    assert found["bytes_per_row"] == pytest.approx(2 * found["message_bytes"], rel=0.2)
    assert min(found["exchange_s"], found["setup_s"], found["measured_s"]) > 0


def test_warming_compiles_every_physics(stencil_app):
    done = stencil_app(0, "warm")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_warming_compiles_what_is_named_and_knows_the_names(stencil_app):
    done = stencil_app(0, "warm", "--say", "heat")
    assert (done.returncode, done.stdout) == (0, "")
    done = stencil_app(0, "warm", "tea")
    assert done.returncode == 2
    assert "no application is called tea; legal are: heat, jacobi2d, mhd" in done.stderr


def test_run_killed_while_it_writes_keeps_the_checkpoint_before(stencil_app, tmp_path):
    program = tmp_path / "killed.py"
    program.write_text(text_of("stencil_app/killed_while_writing.txt"))
    words = ["heat", *map(str, SMALL), "--size", "5", "--checkpoint", "run.ck", "--checkpoint-every", "15"]
    killed = subprocess.run([sys.executable, str(program), *words], cwd=tmp_path, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    resumed = stencil_app(0, "heat", *SMALL, "--size", 5, "--restart", "run.ck")
    assert resumed.stdout == stencil_app(0, "heat", *SMALL, "--size", 5).stdout != ""
