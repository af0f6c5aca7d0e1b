"""Temporary directories of commands: removed at their end, or by the next command."""

import os
import subprocess
import sys

import pytest

from nws.base.scratch import ScratchDirectory, own, remove_abandoned
from tests.transcripts import text_of

KILLED = text_of("nws/base/scratch_killed.txt")


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    for name in ("tmp", "shm", "else"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("nws.base.scratch.SHARED_MEMORY", str(tmp_path / "shm"))
    return tmp_path / "tmp"


def killed(*arguments):
    subprocess.run([sys.executable, "-c", KILLED, *map(str, arguments)], check=False)


def test_scratch_killed_owner_removed_by_next(temporary):
    elsewhere, memory, lines = temporary.parent / "else", temporary.parent / "shm", []
    killed(".apples-run-", elsewhere)
    killed("apples-benchmark-")
    (memory / "mpich_shm_of_another_run").touch()
    assert [len(os.listdir(path)) for path in (temporary, elsewhere, memory)] == [1, 1, 3]
    with ScratchDirectory("apples-run-", elsewhere, notify=lines.append) as directory:
        assert os.listdir(temporary) == []
        assert os.listdir(elsewhere) == [directory.name]
        assert os.listdir(memory) == ["mpich_shm_of_another_run"]
    assert os.listdir(elsewhere) == []
    (line,) = lines
    assert line.startswith("removed what killed commands had left: ")
    assert line.count("apples-") == 2


def test_scratch_in_use_or_foreign_is_kept(temporary):
    (temporary / "apples-run-foreign").mkdir()
    (temporary / "apples-run-host").mkdir()
    (temporary / "apples-run-host/.owner").write_text("process 7 of eve on another, since 2026-01-01\n")
    (temporary / "apples-run-link").symlink_to(temporary / "apples-run-foreign")
    with ScratchDirectory("apples-run-") as first, ScratchDirectory("apples-run-") as second:
        names = {path.name for path in temporary.iterdir()}
        assert names >= {"apples-run-foreign", "apples-run-host", "apples-run-link", first.name, second.name}
    assert names - {path.name for path in temporary.iterdir()} == {first.name, second.name}


def test_scratch_taken_while_it_was_made_is_made_anew(temporary, monkeypatch):
    seen = []

    def own_late(directory):
        if not seen:
            own(directory).release()
            assert remove_abandoned(str(temporary)) == [str(directory)]
        seen.append(directory)
        return own(directory)

    monkeypatch.setattr("nws.base.scratch.own", own_late)
    with ScratchDirectory("apples-run-") as directory:
        assert seen == [seen[0], directory]
        assert directory.is_dir()
