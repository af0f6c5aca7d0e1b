"""Files that are written completely or not at all."""

import os
import stat
import subprocess
import sys

import pytest

from nws.base.files import Replacement, write_whole


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.json"


def test_write_whole_replaces_the_content_and_leaves_nothing(path):
    write_whole(path, "first")
    write_whole(path, b"second", sync=True)
    assert path.read_bytes() == b"second"
    assert os.listdir(path.parent) == [path.name]


def test_write_whole_text_keeps_undecodable_bytes(path):
    write_whole(path, "l\udcf6ser")
    assert path.read_bytes() == b"l\xf6ser"


def test_write_whole_mode_is_that_of_the_new_file(path):
    path.write_text("old")
    write_whole(path, "key", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_write_whole_relative_name_is_in_the_current_directory(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    write_whole(path.name, "content", sync=True)
    assert path.read_text() == "content"


def test_write_whole_failed_sync_keeps_the_old_file(path, monkeypatch):
    path.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new", sync=True)
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == [path.name]


def test_write_whole_missing_directory_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "gone" / "file", "content", sync=True)


def test_replacement_raised_block_keeps_the_old_file(path):
    path.write_text("old")

    def write_and_fail():
        with Replacement(path) as temporary:
            with open(temporary, "w") as file:
                file.write("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_fail()
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == [path.name]


def test_replacement_concurrent_writers_do_not_meet(path):
    with Replacement(path) as one, Replacement(path) as two:
        assert one != two
    assert path.read_bytes() == b""


def test_files_imports_os_only():
    code = "import sys; before = set(sys.modules); import nws.base.files; print(set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(eval(done.stdout)) == ["__future__", "nws", "nws.base", "nws.base.files", "nws.base.lazy"]
