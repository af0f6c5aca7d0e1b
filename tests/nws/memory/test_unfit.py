"""Files that are unfit, or not ours: what they are and what to do is said, and they are never written to."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from nws.base.errors import StoreDamaged, StoreError
from nws.base.sealed import crc
from nws.memory import Memory, salvage
from nws.memory.compaction import GRACE_S
from nws.memory.salvage import check, repair
from nws.series import Measurement, Resource, Series
from tests.transcripts import recorded

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


def test_new_file_that_another_process_is_preparing_is_waited_for(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    other = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done = threading.Timer(0.2, lambda: other.execute("ROLLBACK"))
    done.start()
    with Memory(path) as memory:
        assert memory.summaries() == []
    done.join()
    other.close()


def test_step_with_a_programs_error_is_not_damage(path):
    with Memory(path) as memory:
        with pytest.raises(ValueError, match="a defect"), memory.database.writing():
            raise ValueError("a defect")
        assert memory.database.damage.summary() is None


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


def test_database_of_another_program(path):
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
    with pytest.raises(StoreError, match=rf"written by {age} release \(schema {version}, this one reads 3\)"):
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


@recorded("nws/memory/rows_without_sense.txt", "table", "change_")
def test_row_that_makes_no_sense(path, fill, clock, answered, table, change_):
    fill()
    change(path, f"UPDATE {table} SET {change_}")
    with Memory(path, clock=clock) as memory:
        read = {60: lambda: memory.rollup(A, bucket_s=60)}.get(60 if "60" in change_ else 0, memory.history)
        with pytest.raises(StoreDamaged, match=r"weather\.db: damaged: ") as caught:
            read()
    answered(str(caught.value).replace(str(path.parent), "DIR"))


@pytest.mark.parametrize("bucket_s", [0, 60, 600])
def test_missing_block_is_noticed(path, fill, clock, bucket_s):
    """A row that SQLite does not find is as one that was deleted behind the store's back."""
    fill()
    change(path, "DROP TRIGGER block_0_DELETE")
    change(path, "DROP TRIGGER block_60_DELETE")
    change(path, "DROP TRIGGER block_600_DELETE")
    change(
        path, "DELETE FROM block WHERE rowid = (SELECT min(rowid) FROM block WHERE bucket_s = ?)", bucket_s
    )
    with Memory(path, clock=clock) as memory, pytest.raises(StoreDamaged, match="the list of its blocks"):
        memory.rollup(A, bucket_s=bucket_s) if bucket_s else memory.samples(A)


def test_damaged_chunk_spoils_its_own_hour_alone(path, fill, clock):
    fill()
    hour = int((clock.now - 30 * HOUR) // HOUR)
    change(path, "UPDATE block SET data = x'07' WHERE bucket_s = 0 AND span = ?", hour)
    with Memory(path, clock=clock) as memory:
        assert len(memory.samples(A, since=(hour + 1) * HOUR)) == 175
        assert len(memory.samples(A, until=hour * HOUR - 1.0)) == 119
        with pytest.raises(StoreDamaged, match=r"cpu.new@a: samples of"):
            memory.samples(A, since=hour * HOUR, until=hour * HOUR + 1.0)
        found = memory.history(sound=True).samples[A]
        assert len(found) == 294
        assert "samples of 2027" in memory.database.damage.summary()


def test_sample_for_a_damaged_chunk_is_kept_and_loss_remembered(path, fill, clock):
    fill()
    hour = int((clock.now - 40 * HOUR) // HOUR)
    change(path, "UPDATE block SET data = x'07' WHERE bucket_s = 0 AND span = ?", hour)
    with Memory(path, clock=clock) as memory:
        memory.append([Measurement(A, hour * HOUR + 5.0, 1.0)])
        clock.now += HOUR + GRACE_S
        while memory.tend(budget_s=10.0):
            pass
        assert len(memory.samples(A, since=(hour + 2) * HOUR)) == 229
    with Memory(path, clock=clock) as memory:
        assert "6 samples of series 0, " in memory.database.damage.summary()
        with pytest.raises(StoreDamaged, match=r"6 samples of series 0, .* are lost"):
            memory.samples(A, since=hour * HOUR, until=(hour + 1) * HOUR)
    repair(path)
    with Memory(path, clock=clock) as memory:
        assert memory.database.damage.summary() is None
        assert list(memory.samples(A, since=hour * HOUR, until=(hour + 1) * HOUR - 1.0).values) == [1.0]


def test_name_is_read_from_its_copy(path, fill):
    fill()
    change(path, "UPDATE series SET name = 'pressure@a'")
    with Memory(path) as memory:
        assert memory.names() == ["cpu.new@a"]
    change(path, "UPDATE series_copy SET name = 'pressure@a'")
    with Memory(path) as memory, pytest.raises(StoreDamaged, match="names of series, expected"):
        memory.names()


def test_series_nobody_knows(path, fill):
    fill()
    name = "pressure@a"
    for table in ("series", "series_copy"):
        change(path, f"UPDATE {table} SET name = ?, crc = ?", name, crc("series", 0, name))
    with Memory(path) as memory, pytest.raises(StoreError, match="damaged: 'pressure@a': unknown resource"):
        memory.summaries()


@recorded("nws/memory/cells_of_other_types.txt", "change_")
def test_cell_of_another_type_is_damage(path, fill, clock, answered, change_):
    fill()
    change(path, f"UPDATE {change_}")
    with Memory(path, clock=clock) as memory:
        answered(check(memory).damage or "none")
        clock.now += HOUR + GRACE_S
        while memory.tend(budget_s=10.0):
            pass


def test_repair_that_cannot_exchange_files_changes_no_answer(path, fill, clock, monkeypatch):
    fill()
    with Memory(path, clock=clock) as memory:
        memory.append([Measurement(A, clock.now + 1.0, 1.0)])
        log = path.with_name("weather.db-wal").read_bytes()
        content = path.read_bytes()
    path.write_bytes(content)
    path.with_name("weather.db-wal").write_bytes(log)

    def link(*names):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StoreError, match="cannot be repaired: Operation not permitted"):
        repair(path)
    assert [file.name for file in path.parent.iterdir()] == ["weather.db"]
    with Memory(path, clock=clock) as memory:
        assert len(memory.samples(A)) == 301


@pytest.mark.parametrize("frames", [1, 2])
def test_repair_leaves_out_a_step_that_was_not_completed(path, memory, batch, frames):
    """A process that is killed while it writes leaves the first frames of its step."""
    log = path.with_name("weather.db-wal")
    memory.deliver([batch(memory, ["cpu.new@a"], [(0, 1.0, 1.0)], source="a/1", first=0)])
    before = log.stat().st_size
    memory.deliver([batch(memory, ["cpu.new@a"], [(0, 2.0, 2.0)], source="a/1", first=1)])
    killed = path.with_name("killed.db")
    killed.write_bytes(path.read_bytes())
    killed.with_name("killed.db-wal").write_bytes(log.read_bytes()[: before + frames * (24 + 8192)])
    repair(killed)
    with Memory(killed) as found:
        assert list(found.samples(A).values) == [1.0]
        (receipt,) = found.deliver([batch(found, ["cpu.new@a"], [(0, 2.0, 2.0)], source="a/1", first=1)])
        assert receipt.kept == 1


def test_repair_interrupted_while_exchanging_files_loses_nothing(path, fill, clock, monkeypatch):
    fill()

    def interrupted(source, target, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(salvage, "put_in_place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        repair(path)
    monkeypatch.undo()
    with Memory(path, clock=clock) as memory:
        assert memory.summaries()[0].samples == 300
    assert repair(path).samples == 300
    with Memory(path, clock=clock) as memory:
        assert memory.summaries()[0].samples == 300


def test_repair_of_a_store_open_elsewhere_is_refused(path, fill):
    fill()
    program = (
        "import sys; from pathlib import Path; from nws.memory import Memory; m = Memory(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", f"{program}; print(m.names(), flush=True); sys.stdin.read()", path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"['cpu.new@a']\n"
        with pytest.raises(StoreError, match="another program has it open"):
            repair(path)
        other.stdin.close()
    assert repair(path).series == 1


def test_repair_of_a_file_without_sound_rows_leaves_it(path):
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.execute("INSERT INTO theirs VALUES (1)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="no sound row of a store of this release"):
        repair(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["weather.db"]


def test_repair_of_a_damaged_page_costs_the_rows_on_it(path, fill, clock):
    fill()
    connection = sqlite3.connect(path)
    pages = [
        row[0]
        for row in connection.execute("SELECT pageno FROM dbstat WHERE name = 'log' AND pagetype = 'leaf'")
    ]
    connection.close()
    content = bytearray(path.read_bytes())
    at = (pages[0] - 1) * 8192
    content[at : at + 8192] = bytes(8192)
    path.write_bytes(content)
    report = repair(path)
    assert report.lost
    with Memory(path, clock=clock) as memory:
        assert check(memory).damage == []
        assert len(memory.samples(A)) == report.samples


def test_readable_rows_of_damaged_pages_skips_them_alone(tmp_path):
    """Three of the middle pages of a table are zero."""
    path = tmp_path / "rows.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE sample (id INTEGER PRIMARY KEY, data BLOB)")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO sample VALUES (?, ?)", [(i, bytes([i]) * 500) for i in range(200)])
    connection.execute("COMMIT")
    connection.close()
    content = bytearray(path.read_bytes())
    leaves = [at for at in range(0, len(content), 4096) if content[at] == 0x0D]
    hit = leaves[5], leaves[6], leaves[12]
    lost = set()
    for at in hit:
        # the row with the lowest id is at the end of the page
        lost |= set(range(content[at + 4095], content[at + 4095] + content[at + 4]))
        content[at : at + 4096] = bytes(4096)
    path.write_bytes(content)
    with sqlite3.connect(path) as damaged:
        rows = {row for row, _ in salvage.readable_rows(damaged, "sample", "data")}
    damaged.close()
    assert 10 < len(lost) < 30
    assert rows == set(range(200)) - lost


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_repair_by_root_leaves_the_file_to_its_owner(path, fill):
    fill()
    os.chown(path, 65534, 65534)
    repair(path)
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (65534, 0o600)


def test_missing_stream_is_not_taken_for_a_new_one(path, memory, batch):
    memory.deliver([batch(memory, ["cpu.new@a"], [(0, 1.0, 1.0)], source="a/1", first=0)])
    change(path, "DROP TRIGGER source_DELETE")
    change(path, "DELETE FROM source")
    with pytest.raises(StoreDamaged, match="rows of the table source are missing"):
        memory.deliver([batch(memory, ["cpu.new@a"], [(0, 1.0, 1.0)], source="a/1", first=0)])


def test_log_of_an_emptied_file_is_kept_aside(path, fill, clock):
    fill()
    with Memory(path, clock=clock) as memory:
        memory.append([Measurement(A, clock.now + 1.0, 1.0)])
        log = path.with_name("weather.db-wal").read_bytes()
    path.with_name("weather.db-wal").write_bytes(log)
    os.truncate(path, 0)
    with Memory(path, clock=clock) as memory:
        assert "was emptied; its write-ahead log is kept as" in memory.database.damage.summary()
        assert memory.summaries() == []
    assert path.with_name("weather.db-wal.damaged-1").read_bytes() == log


def test_directory_in_its_place(path):
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot be opened: it is a directory"):
        Memory(path)


def test_file_in_place_of_its_directory(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(StoreError, match=r"its directory cannot be made: .*set APPLES_STATE"):
        Memory(tmp_path / "state" / "weather.db")


def test_directory_that_may_not_be_written_to():
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
