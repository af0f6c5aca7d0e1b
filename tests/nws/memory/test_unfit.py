"""Files that are unfit, or not ours: what they are and what to do is said, and they are never written to."""

import os
import sqlite3
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from nws.base.errors import StoreError
from nws.memory import Memory
from nws.memory.compaction import GRACE_S
from nws.series import Measurement, Resource, Series

A = Series(Resource.CPU_NEW, "a")
HOUR = 3600.0


@pytest.fixture
def fill(path, clock):
    """Some hours in chunks and the last one in the log."""

    def fill():
        with Memory(path, clock=clock) as memory:
            for i in range(300):
                clock.now += 600.0
                memory.append([Measurement(A, clock.now, float(i) ** 0.5)])
            while memory.tend():
                pass

    return fill


def change(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def test_a_new_file_that_another_process_is_preparing_is_waited_for(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    other = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done = threading.Timer(0.2, lambda: other.execute("ROLLBACK"))
    done.start()
    with Memory(path) as memory:
        assert memory.summaries() == []
    done.join()
    other.close()


def test_store_created_is_for_this_user_alone(path, fill):
    old = os.umask(0)
    try:
        fill()
        with Memory(path) as memory:
            memory.names()
            files = list(path.parent.glob("weather.db*"))
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    finally:
        os.umask(old)


def test_not_a_database(path):
    path.parent.mkdir()
    path.write_text("series,t,value\n" * 100)
    with pytest.raises(
        StoreError, match=r"weather.db: not an SQLite database; move it away \(mv .*measure again"
    ):
        Memory(path)
    assert path.read_text().startswith("series,t")


def test_a_database_of_another_program(path):
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StoreError, match=r"of another program \(application id 0x0, expected"):
        Memory(path)


@pytest.mark.parametrize(("version", "age"), [(99, "a newer"), (0, "an older")])
def test_another_schema(path, version, age):
    Memory(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version={version}")
    connection.close()
    with pytest.raises(StoreError, match=rf"written by {age} release \(schema {version}, this one reads 2\)"):
        Memory(path)


def test_half_written(path, fill):
    fill()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match=r"weather.db: .*(damaged|malformed).*move it away"):
        _read_all(path)


def test_pages_of_noise(path, fill):
    fill()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(range(256)) * ((len(whole) - 4096) // 256))
    with pytest.raises(StoreError, match=r"weather.db: .*move it away"):
        _read_all(path)


@pytest.mark.parametrize(
    ("table", "data", "reason"),
    [
        ("chunk", b"\x07", "chunk of version b'.x07', expected"),
        ("chunk", b"", "chunk of version b''"),
        ("chunk", b"\x02junk", "chunk of 5 bytes, expected at least 41"),
        ("chunk", b"\x02" + bytes(40) + b"junk", "chunk that does not decompress"),
        ("rollup", b"\x07", "roll-up of version b'.x07', expected"),
        ("rollup", b"\x01" + bytes(14) + b"junk", "roll-up that does not decompress"),
        ("log", b"junk", "batch of 4 bytes, expected a multiple of 20"),
    ],
)
def test_a_row_that_makes_no_sense(path, fill, clock, table, data, reason):
    fill()
    change(path, f"UPDATE {table} SET data = ?", data)
    with Memory(path, clock=clock) as memory:
        read = {"rollup": lambda: memory.rollup(A, bucket_s=60)}.get(table, memory.history)
        with pytest.raises(StoreError, match=f"weather.db: damaged: {reason}.*; move it away"):
            read()


def test_a_row_that_makes_no_sense_ends_housekeeping_too(path, fill, clock):
    fill()
    change(path, "UPDATE chunk SET data = x'07'")
    with Memory(path, clock=clock) as memory:
        memory.append([Measurement(A, clock.now - 40 * HOUR, 1.0)])
        clock.now += HOUR + GRACE_S
        with pytest.raises(StoreError, match="damaged: chunk of version"):
            memory.tend(budget_s=10.0)


def test_a_series_nobody_knows(path, fill):
    fill()
    change(path, "UPDATE series SET name = 'pressure@a'")
    with Memory(path) as memory, pytest.raises(StoreError, match="damaged: 'pressure@a': unknown resource"):
        memory.summaries()


def test_series_with_a_hole_in_their_numbers(path, fill):
    fill()
    change(path, "UPDATE series SET id = 7")
    with Memory(path) as memory, pytest.raises(StoreError, match="damaged: series 7 where 0 was expected"):
        memory.names()


def test_a_directory_in_its_place(path):
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot be opened: it is a directory"):
        Memory(path)


def test_a_file_in_place_of_its_directory(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(StoreError, match=r"its directory cannot be made: .*set APPLES_STATE"):
        Memory(tmp_path / "state" / "weather.db")


def test_a_directory_that_may_not_be_written_to():
    """As an ordinary user, whoever runs the tests: root may write anywhere."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "weather.db"
        Memory(path).close()
        path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        os.chmod(directory, 0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(StoreError, match=r"weather.db: .*writ"):
                Memory(path)
        finally:
            os.seteuid(user)
            os.chmod(directory, 0o755)


def test_held_by_another_process(path, memory):
    from nws.memory.database import Database

    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="held by another process all the time"):
            Database(path, busy_s=0.05)
        connection.execute("ROLLBACK")
    connection.close()


def _read_all(path):
    with Memory(path) as memory:
        memory.history()
        memory.summaries()
