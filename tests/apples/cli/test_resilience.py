"""Runs that do not go well: a rank is killed, the agent is killed, the disk is full, somebody else is at the file."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: Of this mesh there are benchmarks.
SLABS = ("64", "--app", "heat", "-s", "nx=32", "-s", "ny=32", "-n", "1")
LONG = (*SLABS, "-s", "iterations=2000")
EVERY = ("--checkpoint-every", "100")


def ranks(command):
    """Processes of a command's ranks, the programs and not who keeps them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ours = command.mark.encode() in (entry / "environ").read_bytes()
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        others = (b"rankwrapper.py", b"mpiexec", b"hydra_pmi_proxy", b"hostagent.py")
        if ours and b"--slabs" in words and not any(word.endswith(others) for word in words):
            found.append(int(entry.name))
    return found


def wait_for_file(path, command):
    deadline = time.monotonic() + 60.0
    while not path.exists():
        assert command.process.poll() is None, command.process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def answer(command):
    (line,) = [line for line in (command.out + command.err).splitlines() if line.startswith("heat ")]
    return line


@pytest.fixture(scope="module")
def unbroken():
    """The answer of the run that nothing happens to."""
    flags = ["--nx", "32", "--ny", "32", "--iterations", "2000"]
    program = Path(sys.executable).parent / "stencil-app"
    said = subprocess.run(
        [program, "heat", "--size", "64", *flags], capture_output=True, text=True, check=True
    )
    return said.stdout.strip()


@pytest.mark.nightly
def test_killed_rank_costs_no_more_than_the_way_from_the_last_checkpoint(start, known, tmp_path, unbroken):
    file = tmp_path / "run.ckpt"
    command = start(
        "apples-run", *LONG, "-n", "2", *EVERY, "--checkpoint", file, "--attempts", "2", "--json", state=known
    )
    wait_for_file(file, command)
    os.kill(ranks(command)[0], signal.SIGKILL)
    assert command.end() == 0, command.err
    document = json.loads(command.out)
    first, second = document["attempts"]
    assert (first["ended"], first["exit_code"], second["ended"]) == ("failed", 137, "finished")
    assert second["first_iteration"] >= 100
    assert second["first_iteration"] % 100 == 0
    assert second["first_iteration"] + second["iterations"] == 2000
    assert "was killed by signal 9 (KILL); " in command.err
    assert "planning again (attempt 2 of 2)" in command.err
    assert answer(command) == unbroken
    assert command.survivors() == []
    assert sorted(p.name for p in tmp_path.glob("*.ckpt*")) == ["run.ckpt"]
    assert list(tmp_path.glob(".run.ckpt*")) == []


def test_killed_agent_and_a_run_that_goes_on(start, known, tmp_path, unbroken, run_apart):
    file = tmp_path / "run.ckpt"
    command = start("apples-run", *LONG, *EVERY, "--checkpoint", file, state=known)
    wait_for_file(file, command)
    os.kill(command.process.pid, signal.SIGKILL)
    command.end()
    assert command.survivors() == []
    again = run_apart("apples-run", *LONG, *EVERY, "--checkpoint", file, "--resume", "--json", state=known)
    assert again.code == 0, again.err
    (attempt,) = json.loads(again.out)["attempts"]
    assert attempt["first_iteration"] >= 100
    assert f"going on from {file}: {attempt['first_iteration']} iterations are done" in again.err
    assert answer(again) == unbroken


def test_second_run_at_a_checkpoint_is_told_who_is_first(start, known, tmp_path, run_apart):
    file = tmp_path / "run.ckpt"
    for_long = (*SLABS, "-s", "iterations=1000000")
    first = start("apples-run", *for_long, "--checkpoint", file, state=known)
    wait_for_file(tmp_path / ".run.ckpt.lock", first)
    second = run_apart("apples-run", *LONG, "--checkpoint", file, state=known)
    assert second.code == 125
    assert f"checkpoint {file} is in use by process {first.process.pid} of " in second.err
    first.process.send_signal(signal.SIGKILL)


def test_interrupted_run_says_what_is_safe(start, known, tmp_path):
    file = tmp_path / "run.ckpt"
    command = start("apples-run", *LONG, *EVERY, "--checkpoint", file, state=known)
    wait_for_file(file, command)
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 130
    assert f" of 2000 iterations are safe; go on with --checkpoint {file} --resume" in command.err


def test_checkpoint_of_another_run_is_refused(run, known, tmp_path):
    file = tmp_path / "run.ckpt"
    done = run("apples-run", *SLABS, "-s", "iterations=3", "--checkpoint", file, state=known)
    assert done.code == 0, done.err
    other = run("apples-run", "65", *SLABS[1:], "--checkpoint", file, "--resume", state=known)
    assert other.code == 2
    assert f"--checkpoint {file}: size is 64 in the file and 65 in this run; give 64 as SIZE" in other.err
    file.write_bytes(file.read_bytes()[:-1])
    damaged = run("apples-run", *SLABS, "--checkpoint", file, "--resume", state=known)
    assert damaged.code == 2
    assert f"--checkpoint {file}: truncated: " in damaged.err
    assert file.exists()


@pytest.fixture
def small_disk(tmp_path):
    """A directory that holds little more than one checkpoint."""
    where = tmp_path / "small"
    where.mkdir()
    made = (
        os.geteuid() == 0
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", where], check=False, capture_output=True
        ).returncode
        == 0
    )
    if not made:
        pytest.skip("a disk of its own for a test takes root and the right to mount")
    yield where
    subprocess.run(["umount", "-l", where], check=True)


def test_full_disk_leaves_the_previous_checkpoint(run_apart, known, small_disk):
    file = small_disk / "run.ckpt"
    words = ("apples-run", *SLABS, "-n", "2", "-s", "iterations=8")
    done = run_apart(*words, "--checkpoint", file, "--checkpoint-every", "4", "--attempts", "3", state=known)
    assert done.code == 4, done.err
    assert f"{file}: could not be written on {os.uname().nodename} (No space left on device)" in done.err
    assert f"4 of 8 iterations are safe; go on with --checkpoint {file} --resume" in done.err
    assert [p.name for p in small_disk.iterdir()] == ["run.ckpt"]
    assert "planning again" not in done.err


SCENARIO = """
failures:
  - {{host: {host}, at_s: 19.0, noticed_s: 2.0}}
"""


def test_simulated_host_dies_and_the_run_goes_on(run, tmp_path):
    from apples.model.config import configs_dir

    plain = ("apples-run", "64", "--load", "unloaded", "--checkpoint-every", "10", "--json")
    bare = configs_dir() / "mock" / "centurion.yaml"
    used = json.loads(run(*plain, "--scenario", bare, state=tmp_path / "before").out)["hosts"][0]["host"]
    scenario = tmp_path / "failing.yaml"
    scenario.write_text(bare.read_text() + SCENARIO.format(host=used))
    done = run(*plain, "--scenario", scenario)
    assert done.code == 0, done.err
    first, second = json.loads(done.out)["attempts"]
    assert list(first["lost"]) == [used]
    assert second["first_iteration"] > 0
    assert second["first_iteration"] % 10 == 0
    assert used not in {h["host"] for h in second["hosts"]}
    assert f"planning again without {used} (attempt 2 of 3)" in done.err
    once = run(*plain, "--scenario", scenario, "--attempts", "1")
    assert once.code != 0
    assert len(json.loads(once.out)["attempts"]) == 1
    nobody = tmp_path / "nobody.yaml"
    nobody.write_text(bare.read_text() + SCENARIO.format(host="nobody"))
    wrong = run(*plain, "--scenario", nobody)
    assert wrong.code == 2
    assert "failures: no host 'nobody' in grid 'centurion'; legal are c01, " in wrong.err
