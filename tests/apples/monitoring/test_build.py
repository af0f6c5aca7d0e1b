"""The library: compiled where it is needed, kept, and every way in which that can fail said clearly."""

import os
import stat
import threading

import pytest

from apples.errors import MonitorError
from apples.monitoring.build import compiler, monitor_library
from nws.base.errors import StoreError


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Makes a program of that name the only one in PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("CC", raising=False)

    def make(name, script):
        path = directory / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


def test_machine_without_a_compiler_is_told_what_to_install(tool):
    with pytest.raises(MonitorError, match=r"no C compiler \(cc, gcc, clang\) is in PATH; install one"):
        monitor_library()


def test_compiler_of_the_user_comes_first(tool, monkeypatch):
    usual, own = tool("cc", ""), tool("mycc", "")
    assert compiler() == [str(usual)]
    monkeypatch.setenv("CC", "mycc -m64")
    assert compiler() == [str(own), "-m64"]
    monkeypatch.setenv("CC", "absent")
    with pytest.raises(MonitorError, match="CC is 'absent', and no such program is in PATH"):
        compiler()


def test_what_the_compiler_said_is_in_the_message(tool, state_of_its_own):
    tool("cc", 'case "$1" in --version) exit 0;; esac; echo "x.c:1: fatal error: stdio.h: none" >&2; exit 3')
    with pytest.raises(MonitorError, match=r"exit code 3: x.c:1: fatal error: stdio.h: none; it needs a C11"):
        monitor_library()
    assert list((state_of_its_own / "monitor").iterdir()) == []


def test_umask_of_zero_leaves_a_library_only_its_owner_writes():
    before = os.umask(0)
    try:
        assert stat.S_IMODE(monitor_library().stat().st_mode) == 0o755
    finally:
        os.umask(before)


def test_library_is_kept_by_compiler_and_flags(tool, monkeypatch):
    counting = (
        'case "$1" in --version) echo "$VERSION"; exit 0;; esac\n'
        'while [ "$1" != -o ]; do shift; done; echo built > "$2"; echo x >> "$COUNT"'
    )
    count = tool("cc", counting).with_name("count")
    monkeypatch.setenv("COUNT", str(count))
    monkeypatch.setenv("VERSION", "1")
    first = monitor_library()
    assert monitor_library() == first
    assert first.read_text() == "built\n"
    assert count.read_text() == "x\n"
    monkeypatch.setenv("VERSION", "2")
    assert monitor_library() != first
    assert count.read_text() == "x\nx\n"


def test_what_was_built_serves_hosts_without_a_compiler(tool, monkeypatch):
    script = 'case "$1" in --version) exit 0;; esac\nwhile [ "$1" != -o ]; do shift; done; echo built > "$2"'
    cc = tool("cc", script)
    built = monitor_library()
    cc.unlink()
    assert monitor_library() == built
    # who names a compiler wants that one
    monkeypatch.setenv("CC", "absent")
    with pytest.raises(MonitorError, match="CC is 'absent'"):
        monitor_library()


def test_many_at_once_find_a_whole_library(tool):
    tool(
        "cc", 'case "$1" in --version) exit 0;; esac; while [ "$1" != -o ]; do shift; done; echo built > "$2"'
    )
    found = []
    threads = [threading.Thread(target=lambda: found.append(monitor_library())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert [path.name for path in found[0].parent.iterdir()] == [found[0].name]


def test_place_that_cannot_be_written_is_named(tool, tmp_path, monkeypatch):
    tool("cc", "")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("APPLES_STATE", str(tmp_path / "file"))
    with pytest.raises(MonitorError, match=r"could not be written: .*set APPLES_STATE to another directory"):
        monitor_library()


def test_path_that_cannot_be_preloaded_is_refused(tool, tmp_path, monkeypatch):
    tool("cc", "")
    monkeypatch.setenv("APPLES_STATE", str(tmp_path / "two words"))
    with pytest.raises(MonitorError, match="no space and no colon in its path"):
        monitor_library()


def test_real_compiler_makes_a_library(library):
    assert monitor_library() == library
    assert os.path.getsize(library) > 10_000


@pytest.mark.parametrize("planted", [".", "monitor", "library"])
def test_monitor_library_others_can_write_is_refused(library, planted):
    assert monitor_library() == library
    path = library if planted == "library" else library.parent.parent / planted
    mode = path.stat().st_mode
    path.chmod(mode | stat.S_IWOTH)
    try:
        with pytest.raises(StoreError, match="other users may write there"):
            monitor_library()
    finally:
        # The library is a link to that of all tests.
        path.chmod(mode)
