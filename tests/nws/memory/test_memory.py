"""What comes back is what was kept, in time order, from whichever process and whatever part of the store."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from nws.base.errors import UsageError
from nws.memory import Keep, Memory
from nws.series import Measurement, Resource, Series
from tests.transcripts import text_of

A, B = Series(Resource.CPU_NEW, "a"), Series(Resource.LATENCY, "a", "b")
HOUR = 3600.0


def test_new_memory_is_empty(memory, kept):
    assert kept(memory) == {}
    assert memory.summaries() == []
    assert memory.names() == []
    assert len(memory.samples(A)) == len(memory.rollup(A, bucket_s=60)) == 0
    assert memory.tend() is False


def test_what_is_kept_comes_back_after_closing(path, kept):
    with Memory(path) as memory:
        memory.append([Measurement(A, 1.0, 0.5), Measurement(B, 1.1, 1e-5)])
    with Memory(path) as memory:
        memory.append([Measurement(A, 2.0, 0.6)])
        memory.append([])
        assert kept(memory) == {A: [(1.0, 0.5), (2.0, 0.6)], B: [(1.1, 1e-5)]}


def test_summaries(memory):
    memory.append([Measurement(A, t, t / 10) for t in (1.0, 3.0, 2.0)] + [Measurement(B, 9.0, 1e-5)])
    one, other = memory.summaries()
    assert (one.series, one.samples, one.last_t, one.last) == (A, 3, 3.0, pytest.approx(0.3))
    assert (other.series, other.samples) == (B, 1)


def test_summaries_count_chunks_and_log_together(memory, clock, settle):
    start = clock.now
    memory.append([Measurement(A, start + i, float(i)) for i in range(10)])
    clock.now += 2 * HOUR
    settle(memory)
    memory.append([Measurement(A, start - 5, -5.0), Measurement(A, start + 9, 99.0)])
    (summary,) = memory.summaries()
    # of two samples of the same time, what came later is the last one
    assert (summary.samples, summary.last_t, summary.last) == (12, start + 9, 99.0)


def test_since_and_most(memory, kept):
    memory.append([Measurement(A, 600.0 * i, float(i)) for i in range(100)])
    assert [v for _, v in kept(memory, since=600.0 * 90)[A]] == list(range(90, 100))
    assert [v for _, v in kept(memory, most=3)[A]] == [97, 98, 99]
    assert kept(memory, since=1e9) == kept(memory, most=0) == {}


def test_newest_across_hours_in_chunks_and_late_samples(memory, clock, kept, settle):
    start = clock.now
    memory.append([Measurement(A, start + 600.0 * i, float(i)) for i in range(60)])
    clock.now += 11 * HOUR
    settle(memory)
    memory.append([Measurement(A, start + 300.0, 0.5), Measurement(A, start + 600.0 * 57 + 1, 57.5)])
    for most in (1, 3, 8, 61, 1000):
        expected = sorted([*map(float, range(60)), 0.5, 57.5])[-most:]
        assert [v for _, v in kept(memory, most=most)[A]] == expected
    assert [v for _, v in kept(memory, since=start + 600.0 * 57, most=10)[A]] == [57, 57.5, 58, 59]


def test_history_of_some_series(memory, kept):
    memory.append([Measurement(A, 1.0, 0.5), Measurement(B, 1.0, 1e-5)])
    assert kept(memory, series=[B]) == {B: [(1.0, 1e-5)]}
    assert kept(memory, series=[Series(Resource.CPU_NEW, "nobody")]) == {}


def test_samples_between_two_times_both_included(memory, clock, settle):
    start = clock.now
    memory.append([Measurement(A, start + 60.0 * i, float(i)) for i in range(300)])
    clock.now += 3 * HOUR
    settle(memory)
    memory.append([Measurement(A, start + 60.0 * 300, 300.0)])
    found = memory.samples(A, since=start + 60.0 * 55, until=start + 60.0 * 180)
    assert list(found.values) == list(range(55, 181))
    assert list(memory.samples(A, since=start + 60.0 * 299).values) == [299, 300]
    assert len(memory.samples(A, until=start - 1)) == len(memory.samples(B)) == 0


def test_numpy_takes_samples_without_copying(memory):
    memory.append([Measurement(A, 1.0, 0.5)])
    times = memory.samples(A).times
    np.asarray(times)[0] = 7.0
    assert times[0] == 7.0


@pytest.mark.parametrize("now", [1_800_000_000, np.float64(1_800_000_000.0)])
def test_clock_of_whole_numbers_or_numpy_is_one_of_floats(path, now):
    with Memory(path, clock=lambda: now) as memory:
        memory.append([Measurement(Series.parse("cpu.new@a"), now, 0.5)])
    with Memory(path, clock=lambda: now) as memory:
        assert list(memory.samples(Series.parse("cpu.new@a")).times) == [1_800_000_000.0]


def test_ids_count_from_0_and_stay(path, memory):
    assert list(memory.series_ids(["cpu.new@a", "cpu.new@b", "cpu.new@a"])) == [0, 1, 0]
    with Memory(path) as other:
        assert list(other.series_ids(["cpu.new@c", "cpu.new@b"])) == [2, 1]
        assert memory.names() == other.names() == ["cpu.new@a", "cpu.new@b", "cpu.new@c"]
    assert list(memory.series_ids(["cpu.new@d"])) == [3]


def test_news_are_what_came_since_from_whichever_process(path, memory):
    memory.append([Measurement(A, 1.0, 0.5)])
    cursor = memory.history().cursor
    assert memory.news(cursor) == ([], cursor)
    with Memory(path) as other:
        other.append([Measurement(B, 2.0, 1e-5)])
    news, cursor = memory.news(cursor)
    assert news == [Measurement(B, 2.0, 1e-5)]
    assert memory.news(cursor) == ([], cursor)


@pytest.mark.parametrize(("t", "value"), [(1.0, float("nan")), (1.0, float("inf")), (float("nan"), 1.0)])
def test_what_is_no_number_is_refused_and_nothing_of_the_step_kept(memory, kept, t, value):
    with pytest.raises(UsageError, match=r"cpu.new@a: .* is not a measurement; both must be finite"):
        memory.append([Measurement(B, 1.0, 1.0), Measurement(A, t, value)])
    assert kept(memory) == {}


def test_time_beyond_all_calendars_is_refused(memory):
    with pytest.raises(UsageError, match=r"cpu.new@a: 1.0 at 1e\+300 .* within ±1e\+11 s of the epoch"):
        memory.append([Measurement(A, 1e300, 1.0)])


def test_retention_that_is_none(path):
    with pytest.raises(UsageError, match="keep minutes_s = 0: expected a positive, finite number of seconds"):
        Keep(minutes_s=0)
    with pytest.raises(UsageError, match="keep samples_s = inf"):
        Keep(samples_s=float("inf"))


def test_memory_without_a_file(tmp_path, clock, kept, settle):
    with Memory(tmp_path / "none" / "w.db", in_memory=True, clock=clock) as memory:
        memory.append([Measurement(A, clock.now, 0.5)])
        clock.now += 2 * HOUR
        settle(memory)
        assert kept(memory) == {A: [(clock.now - 2 * HOUR, 0.5)]}
    assert os.listdir(tmp_path) == []


def test_each_step_on_the_disk_before_it_returns(path, kept):
    with Memory(path, full_sync=True) as memory:
        memory.append([Measurement(A, 1.0, 0.5)])
        with memory.database.reading() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert kept(memory) == {A: [(1.0, 0.5)]}


def test_names_from_here_need_no_numpy():
    code = "import sys, nws.memory; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_there_is_nothing_else_by_name():
    import nws.memory

    assert nws.memory.Buckets.__name__ == "Buckets"
    with pytest.raises(AttributeError, match=r"module 'nws\.memory' has no attribute 'Retention'"):
        _ = nws.memory.Retention


def test_tables_of_others_live_in_the_same_file(path, memory):
    with memory.database.writing() as connection:
        connection.execute("INSERT INTO host (name, document, crc) VALUES ('a', '{}', 0)")
        connection.execute("INSERT INTO event (t, kind, text, crc) VALUES (1.0, 'note', 'hello', 0)")
    with Memory(path) as other, other.database.reading() as connection:
        assert connection.execute("SELECT text FROM event").fetchone() == ("hello",)


def test_processes_write_at_once_and_nothing_is_lost(path):
    code = textwrap.dedent(text_of("nws/memory/memory_program.txt"))
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    assert [w.wait(timeout=60) for w in writers] == [0, 0]
    with Memory(path) as memory:
        assert [s.samples for s in memory.summaries()] == [100, 100]
