"""The memory: what comes back is what was kept, through chunks, crashes, neighbours and unfit files."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nws.chunks import pack, unpack
from nws.errors import StoreError, UsageError
from nws.memory import Memory
from nws.series import Measurement, Resource, Series

A, B = Series(Resource.CPU_NEW, "a"), Series(Resource.LATENCY, "a", "b")
HOUR = 3600.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "weather.db"


@pytest.fixture
def memory(path):
    with Memory(path) as memory:
        yield memory


def kept(memory, **options):
    found = memory.history(**options).samples
    return {series: list(zip(s.times, s.values, strict=True)) for series, s in found.items()}


def chunks(path):
    with sqlite3.connect(path) as connection:
        count = connection.execute("SELECT count(*) FROM chunk").fetchone()[0]
    connection.close()
    return count


def test_a_new_memory_is_empty(memory):
    assert kept(memory) == {}
    assert memory.summaries() == []


def test_what_is_kept_comes_back_after_closing(path):
    with Memory(path) as memory:
        memory.append([Measurement(A, 1.0, 0.5), Measurement(B, 1.1, 1e-5)])
    with Memory(path) as memory:
        memory.append([Measurement(A, 2.0, 0.6)])
        assert kept(memory) == {A: [(1.0, 0.5), (2.0, 0.6)], B: [(1.1, 1e-5)]}


def test_summaries(memory):
    memory.append([Measurement(A, t, t / 10) for t in (1.0, 2.0, 3.0)] + [Measurement(B, 9.0, 1e-5)])
    one, other = memory.summaries()
    assert (one.series, one.samples, one.last_t, one.last) == (A, 3, 3.0, pytest.approx(0.3))
    assert (other.series, other.samples) == (B, 1)


def test_hours_that_are_over_move_into_chunks_and_nothing_changes(path, memory):
    samples = [(60.0 * i, 0.1 * i) for i in range(60 * 5)]
    for t, value in samples:
        memory.append([Measurement(A, t, value), Measurement(B, t, -value)])
    assert kept(memory) == {A: samples, B: [(t, -v) for t, v in samples]}
    assert 2 * 3 <= chunks(path) <= 2 * 5
    assert memory.summaries()[0].samples == 300
    assert memory.summaries()[0].last_t == samples[-1][0]


def test_since_and_most(memory):
    for i in range(100):
        memory.append([Measurement(A, 600.0 * i, float(i))])
    assert [v for _, v in kept(memory, since=600.0 * 90)[A]] == list(range(90, 100))
    assert [v for _, v in kept(memory, most=3)[A]] == [97, 98, 99]
    assert kept(memory, since=1e9) == {}


def test_a_late_sample_joins_the_chunk_of_its_hour(memory):
    for i in range(40):
        memory.append([Measurement(A, 600.0 * i, float(i))])
    memory.append([Measurement(A, 650.0, 99.0)])
    for i in range(40, 80):
        memory.append([Measurement(A, 600.0 * i, float(i))])
    assert kept(memory)[A][:4] == [(0.0, 0.0), (600.0, 1.0), (650.0, 99.0), (1200.0, 2.0)]
    assert len(kept(memory)[A]) == 81


def test_what_is_older_than_the_retention_is_forgotten(path):
    with Memory(path, retention_s=10 * HOUR) as memory:
        for hour in range(50):
            memory.append([Measurement(A, hour * HOUR + 1, float(hour))])
        values = [v for _, v in kept(memory)[A]]
    assert values[-1] == 49
    assert 38 <= values[0] <= 40


def test_news_are_what_came_since_from_whichever_process(path, memory):
    memory.append([Measurement(A, 1.0, 0.5)])
    cursor = memory.history().cursor
    assert memory.news(cursor) == ([], cursor)
    with Memory(path) as other:
        other.append([Measurement(B, 2.0, 1e-5)])
    news, cursor = memory.news(cursor)
    assert news == [Measurement(B, 2.0, 1e-5)]
    assert memory.news(cursor) == ([], cursor)


def test_no_news_but_history_when_they_have_moved_to_chunks(memory):
    memory.append([Measurement(A, 1.0, 0.5)])
    early = memory.history().cursor
    memory.append([Measurement(A, 2.0, 0.5)])
    late = memory.history().cursor
    memory.append([Measurement(A, 10 * HOUR, 0.5)])
    assert memory.news(early) is None
    news, _ = memory.news(late)
    assert [m.t for m in news] == [10 * HOUR]


@pytest.mark.parametrize(("t", "value"), [(1.0, float("nan")), (1.0, float("inf")), (float("nan"), 1.0)])
def test_what_is_no_number_is_refused_and_nothing_of_the_step_kept(memory, t, value):
    with pytest.raises(UsageError, match=r"cpu.new@a: .* is not a measurement; both must be finite"):
        memory.append([Measurement(B, 1.0, 1.0), Measurement(A, t, value)])
    assert kept(memory) == {}


numbers = st.lists(st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)), max_size=50)


@given(numbers)
def test_chunks_are_exact(samples):
    times, values = [t for t, _ in samples], [v for _, v in samples]
    assert unpack(pack(times, values)) == (array("d", times), array("d", values))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([A, B]), st.floats(0, 20 * HOUR), st.floats(-1, 1)), max_size=40))
def test_nothing_is_lost_or_invented_in_any_order_of_time(samples):
    with tempfile.TemporaryDirectory() as directory, Memory(Path(directory) / "w.db") as memory:
        for series, t, value in samples:
            memory.append([Measurement(series, t, value)])
        found = {series: sorted(pairs) for series, pairs in kept(memory).items()}
    expected: dict[Series, list] = {}
    for series, t, value in samples:
        expected.setdefault(series, []).append((t, value))
    assert found == {series: sorted(pairs) for series, pairs in expected.items()}


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


def test_processes_write_at_once_and_nothing_is_lost(path):
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from nws.memory import Memory
        from nws.series import Measurement, Series
        with Memory(Path(sys.argv[1])) as memory:
            for i in range(100):
                memory.append([Measurement(Series.parse(f"cpu.new@{sys.argv[2]}"), float(i), 0.5)])
    """)
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    assert [w.wait(timeout=60) for w in writers] == [0, 0]
    with Memory(path) as memory:
        assert [s.samples for s in memory.summaries()] == [100, 100]


def test_killed_while_writing_it_keeps_whole_steps(path):
    """A step is three measurements; a process that is killed at any moment leaves a multiple of them."""
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from nws.memory import Memory
        from nws.series import Measurement, Series
        names = [Series.parse(f"cpu.new@{x}") for x in "abc"]
        with Memory(Path(sys.argv[1])) as memory:
            for i in range(10**9):
                memory.append([Measurement(name, 100.0 * i, 0.5) for name in names])
                print(i, flush=True)
    """)
    done = -1
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as writer:
            for _ in range(120):
                done = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
    with Memory(path) as memory:
        counts = {s.samples for s in memory.summaries()}
    assert len(counts) == 1
    assert counts.pop() >= 3 * 120 > done


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
    with pytest.raises(StoreError, match=rf"written by {age} release \(schema {version}, this one reads 1\)"):
        Memory(path)


def test_half_written(path):
    with Memory(path) as memory:
        for i in range(300):
            memory.append([Measurement(A, 600.0 * i, float(i))])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match=r"weather.db: .*(damaged|malformed).*move it away"):
        _read_all(path)


def test_pages_of_noise(path):
    with Memory(path) as memory:
        for i in range(300):
            memory.append([Measurement(A, 600.0 * i, float(i))])
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(range(256)) * ((len(whole) - 4096) // 256))
    with pytest.raises(StoreError, match=r"weather.db: .*move it away"):
        _read_all(path)


def test_a_chunk_that_makes_no_sense(path):
    with Memory(path) as memory:
        for i in range(60):
            memory.append([Measurement(A, 600.0 * i, float(i))])
        for data, reason in [(b"\x01junk", "does not decompress"), (b"\x07", "version b'.x07'")]:
            with sqlite3.connect(path) as connection:
                connection.execute("UPDATE chunk SET data = ?", (data,))
            connection.close()
            with pytest.raises(StoreError, match=f"damaged: chunk .*{reason}.*move it away"):
                memory.history()


def test_a_series_nobody_knows(path):
    with Memory(path) as memory:
        memory.append([Measurement(A, 1.0, 1.0)])
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE series SET name = 'pressure@a'")
        connection.close()
        with pytest.raises(StoreError, match="damaged: 'pressure@a': unknown resource"):
            memory.summaries()


def test_a_full_disk_keeps_nothing_of_the_step_and_all_before(memory):
    memory.append([Measurement(A, 1.0, 0.5)])
    connection = memory._database._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreError, match="no room left on its disk; nothing of this step was kept"):
        memory.append([Measurement(A, 2.0 + i, 0.5) for i in range(10_000)])
    assert kept(memory) == {A: [(1.0, 0.5)]}


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
    from nws.database import Database

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
