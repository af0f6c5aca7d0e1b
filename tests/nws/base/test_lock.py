"""Locks on files: exclusive, described by their holder, released by the kernel."""

import os
import pwd
import subprocess
import sys
import threading

import pytest

from nws.base.lock import ByteLocks, FileLock, LockHeld, user_name
from tests.transcripts import text_of

HOLDER = text_of("nws/base/lock_holder.txt")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lock"


@pytest.fixture
def holder(path):
    words = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_file_lock_names_its_holder(path, holder):
    with pytest.raises(LockHeld) as caught:
        FileLock(path)
    assert caught.value.holder.startswith(f"process {holder.pid} of ")


def test_file_lock_of_a_killed_holder_is_free(path, holder):
    holder.kill()
    holder.wait()
    with FileLock(path):
        assert path.read_text().startswith(f"process {os.getpid()} of ")
    assert path.exists()


def test_file_lock_without_description_names_another_process(path):
    with FileLock(path, description=""), pytest.raises(LockHeld) as caught:
        FileLock(path)
    assert caught.value.holder == "another process"


def test_file_lock_removed_at_release_excludes_all_the_time(path):
    """Threads take and remove one lock file; a counter shows that no two hold it."""
    inside, most, rounds = 0, 0, []

    def work():
        nonlocal inside, most
        while len(rounds) < 300:
            try:
                lock = FileLock(path, remove=True)
            except LockHeld:
                continue
            inside += 1
            most = max(most, inside)
            rounds.append(1)
            inside -= 1
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == 1
    assert not path.exists()


def test_file_lock_private_rejects_links(path, tmp_path):
    path.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        FileLock(path, private=True)


def test_byte_locks_show_the_bytes_of_others(path, holder):
    locks = ByteLocks(path.with_name("lock.bytes"))
    assert locks.held(3)
    assert not locks.take(3)
    assert not locks.held(4)
    assert locks.take(4)
    holder.kill()
    holder.wait()
    assert not locks.held(3)
    locks.close()


def test_user_name_without_an_entry_in_passwd_is_the_number(monkeypatch):
    def missing(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", missing)
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert user_name() == str(os.geteuid())
