"""The temporary directory of a launch: removed at its end, or by the next launch."""

import os
import subprocess
import sys

import pytest

from apples.run.directory import run_directory

KILLED = """
import os, signal
from apples.run.directory import run_directory
with run_directory() as directory:
    (directory / "mpiexec.log").write_text("x")
    print(directory, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_run_directory_killed_owner_removed_by_next(temporary):
    subprocess.run([sys.executable, "-c", KILLED], check=False, stdout=subprocess.DEVNULL)
    assert len(os.listdir(temporary)) == 1
    with run_directory() as directory:
        assert os.listdir(temporary) == [directory.name]
    assert os.listdir(temporary) == []


def test_run_directory_in_use_or_foreign_is_kept(temporary):
    (temporary / "apples-run-foreign").mkdir()
    with run_directory() as first, run_directory() as second:
        assert sorted(os.listdir(temporary)) == sorted(["apples-run-foreign", first.name, second.name])
    assert os.listdir(temporary) == ["apples-run-foreign"]
