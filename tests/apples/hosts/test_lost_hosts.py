"""The run loop over real hosts: one is killed on the way, and the run ends with the right answer without it."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
SETTINGS = ("nx=32", "ny=32", "iterations=600")
RUN = ("48", "--app", "heat", *(w for pair in SETTINGS for w in ("-s", pair)), "--launcher", "ssh")


@pytest.fixture
def start(lab, state_of_its_own):
    """Starts a command on host a1; killed at the end if it still runs."""
    started = []

    def make(*words):
        process = subprocess.Popen(
            lab.command("a1", [str(BIN / words[0]), *map(str, words[1:])]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.communicate()


def test_killed_host_run_continues_from_checkpoint(lab, start, tmp_path):
    file = tmp_path / "run.ckpt"
    run = start(
        *("apples-run", *RUN, "-H", "a1:1,a2:1,a3:1", "-n", "3"),
        *("--checkpoint", file, "--checkpoint-every", "50", "--json"),
    )
    deadline = time.monotonic() + 120.0
    while not file.exists():
        assert run.poll() is None, run.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    try:
        lab.kill("a3")
        out, err = run.communicate(timeout=120)
    finally:
        lab.start("a3")
    assert run.returncode == 0, err
    document = json.loads(out)
    first, second = document["attempts"]
    assert first["lost"]["a3"].startswith("was lost: its connection ended")
    assert second["first_iteration"] >= 50
    assert {h["host"] for h in second["hosts"]} <= {"a1", "a2"}
    reasons = {left["host"]: left["reason"] for left in document["left_out"]}
    assert reasons["a3"].startswith("was lost: its connection ended")
    assert reasons["a3"].endswith("(attempt 1)")
    alone = ["stencil-app", "heat", "--size", "48", "--nx", "32", "--ny", "32", "--iterations", "600"]
    said = subprocess.run([BIN / alone[0], *alone[1:]], capture_output=True, text=True, check=True).stdout
    assert said.strip() in err.splitlines()
    assert sorted(path.name for path in tmp_path.iterdir() if "ckpt" in path.name) == ["run.ckpt"]


@pytest.mark.nightly
def test_hosts_with_another_directory_get_no_checkpoints(lab, start, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as state:
        monkeypatch.setenv("APPLES_STATE", state)
        run = start(
            *("apples-run", *RUN, "-H", "a1:1,own-files:1", "-n", "2", "--mtbf", "1m"),
            *("--dry-run", "--json"),
        )
        out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    document = json.loads(out)
    assert "checkpoints" not in document
    assert (
        f"no checkpoints: not every host can write to the same {state}/checkpoints; " in document["notes"][-1]
    )
