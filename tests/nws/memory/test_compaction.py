"""Hours that are over, samples that are late, clocks that jump: every sample is read once, and forgotten in time."""

import sqlite3

import numpy as np
import pytest

from nws.memory import Keep, Memory, compaction, store
from nws.series import Measurement, Resource, Series

A, B = Series(Resource.CPU_NEW, "a"), Series(Resource.LATENCY, "a", "b")
HOUR, DAY = 3600.0, 86400.0


def count(path, table):
    with sqlite3.connect(path) as connection:
        rows = {"chunk": "block WHERE bucket_s = 0", "rollup": "block WHERE bucket_s > 0"}.get(table, table)
        found = connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]
    connection.close()
    return found


def test_hours_that_are_over_move_into_chunks_and_nothing_changes(path, memory, clock, kept, settle):
    start = clock.now
    samples = [(start + 60.0 * i, 0.1 * i) for i in range(60 * 5)]
    for t, value in samples:
        clock.now = t
        memory.append([Measurement(A, t, value), Measurement(B, t, -value)])
    settle(memory)
    assert kept(memory) == {A: samples, B: [(t, -v) for t, v in samples]}
    assert 2 * 4 <= count(path, "chunk") <= 2 * 5
    assert count(path, "log") < 120
    assert [s.samples for s in memory.summaries()] == [300, 300]


def test_hour_stays_open_until_late_samples_have_come(path, memory, clock, settle):
    memory.append([Measurement(A, clock.now, 1.0)])
    clock.now += HOUR + compaction.GRACE_S - 1
    settle(memory)
    assert count(path, "chunk") == 0
    clock.now += 1
    settle(memory)
    assert count(path, "chunk") == 1


def test_reader_sees_every_sample_once_after_each_slice(path, memory, clock, kept, monkeypatch):
    # how much is done on the way of an append depends on how fast the machine is
    monkeypatch.setattr(store, "_ON_THE_WAY_S", 0.0)
    names = [Series(Resource.CPU_NEW, f"h{i}") for i in range(7)]
    start = clock.now
    memory.append([Measurement(s, start + 700.0 * i, float(i)) for i in range(20) for s in names])
    everything = kept(memory)
    assert {len(samples) for samples in everything.values()} == {20}
    clock.now += 5 * HOUR
    slices = 0
    with Memory(path, clock=clock) as other:
        while memory.tend(budget_s=0.0):
            slices += 1
            if slices == 9:
                memory.append([Measurement(names[0], start + 1.0, 9.0)])
                everything[names[0]].insert(1, (start + 1.0, 9.0))
            for reader in (memory, other):
                assert kept(reader) == everything
                assert [s.samples for s in reader.summaries()] == [21 if slices >= 9 else 20, *[20] * 6]
                buckets = reader.rollup(names[3], bucket_s=600)
                assert (buckets.count.sum(), buckets.high.max()) == (20, 19.0)
    # one for each hour of each series at least
    assert slices >= 7 * 4


def test_another_process_goes_on_where_one_stopped(path, memory, clock, kept, settle):
    memory.append([Measurement(A, clock.now + HOUR * i, float(i)) for i in range(10)])
    everything = kept(memory)
    clock.now += DAY
    for _ in range(4):
        assert memory.tend(budget_s=0.0)
    with Memory(path, clock=clock) as other:
        settle(other)
        assert kept(other) == kept(memory) == everything
    assert memory.tend() is False
    assert count(path, "chunk") == 10


def test_two_that_take_turns_do_it_once(path, memory, clock, kept):
    memory.append([Measurement(s, clock.now + HOUR * i, float(i)) for i in range(10) for s in (A, B)])
    everything = kept(memory)
    clock.now += DAY
    with Memory(path, clock=clock) as other:
        while memory.tend(budget_s=0.0) | other.tend(budget_s=0.0):
            assert kept(memory) == kept(other) == everything


def test_writers_close_hours_on_their_way(path, memory, clock):
    for _ in range(30):
        clock.now += HOUR
        memory.append([Measurement(A, clock.now, 1.0)])
    assert count(path, "chunk") >= 27


def test_late_sample_joins_the_chunk_of_its_hour(path, memory, clock, kept, settle):
    start = clock.now
    memory.append([Measurement(A, start + 600.0 * i, float(i)) for i in range(6)])
    clock.now += 2 * HOUR
    settle(memory)
    memory.append([Measurement(A, start + 650.0, 99.0), Measurement(A, start + 600.0, 98.0)])
    clock.now += 2 * HOUR
    settle(memory)
    assert count(path, "chunk") == 1
    assert [v for _, v in kept(memory)[A]] == [0, 1, 98, 99, 2, 3, 4, 5]
    assert list(memory.rollup(A, bucket_s=600).count) == [1, 3, 1, 1, 1, 1]


def test_sample_from_the_far_future_harms_nobody(path, memory, clock, kept, settle):
    start, future = clock.now, clock.now + 1000 * DAY
    memory.append([Measurement(A, start, 1.0), Measurement(A, future, 2.0)])
    for _ in range(3):
        clock.now += 2 * HOUR
        memory.append([Measurement(A, clock.now, 3.0)])
        settle(memory)
    assert [v for _, v in kept(memory)[A]] == [1, 3, 3, 3, 2]
    assert count(path, "log") <= 2


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_clock_that_is_set_by_an_hour(path, memory, clock, kept, settle, step):
    expected = []
    for i in range(60 * 6):
        clock.now += 60.0 + (step if i in (100, 222) else 0.0)
        expected.append((clock.now, float(i)))
        memory.append([Measurement(A, clock.now, float(i))])
        settle(memory)
    assert kept(memory) == {A: sorted(expected)}
    assert count(path, "chunk") >= 3


def test_clock_that_was_wrong_by_years_does_not_keep_the_log_open(path, memory, clock, settle):
    clock.now += 3650 * DAY
    memory.append([Measurement(A, clock.now - 3650 * DAY, 1.0)])
    clock.now -= 3650 * DAY
    settle(memory)
    assert (count(path, "chunk"), count(path, "log")) == (1, 0)


def test_log_too_long_is_closed_whatever_the_clock_says(path, memory, clock, monkeypatch, settle):
    monkeypatch.setattr(compaction, "LARGEST_LOG", 100)
    memory.append([Measurement(A, clock.now, float(i)) for i in range(101)])
    settle(memory)
    assert count(path, "chunk") == 1


def test_what_is_older_than_the_retention_by_the_clock_is_forgotten(path, clock, kept, settle):
    keep = Keep(samples_s=10 * HOUR, minutes_s=20 * HOUR, ten_minutes_s=3 * DAY)
    with Memory(path, keep=keep, clock=clock) as memory:
        for hour in range(120):
            clock.now += HOUR
            memory.append([Measurement(A, clock.now, float(hour))])
            settle(memory)
        values = [v for _, v in kept(memory)[A]]
        assert values == list(range(120 - len(values), 120))
        assert 10 <= len(values) <= 12
        assert memory.summaries()[0].samples == len(values)
        assert 20 <= len(memory.rollup(A, bucket_s=60)) <= 22
        # spans of ten-minute roll-ups are days
        assert 72 <= len(memory.rollup(A, bucket_s=600)) <= 72 + 25


def test_old_samples_go_to_the_rollups_that_are_kept(path, clock, kept, settle):
    with Memory(
        path, keep=Keep(samples_s=DAY, minutes_s=2 * DAY, ten_minutes_s=30 * DAY), clock=clock
    ) as memory:
        memory.append([Measurement(A, clock.now - 10 * DAY, 3.0), Measurement(A, clock.now, 4.0)])
        clock.now += 2 * HOUR
        settle(memory)
        assert [v for _, v in kept(memory)[A]] == [4.0]
        assert list(memory.rollup(A, bucket_s=60).mean) == [4.0]
        assert list(memory.rollup(A, bucket_s=600).mean) == [3.0, 4.0]


def test_series_of_which_nothing_is_left(memory, clock, settle):
    memory.append([Measurement(A, clock.now, 3.0)])
    clock.now += 30 * DAY
    settle(memory)
    assert memory.summaries() == []
    assert memory.names() == ["cpu.new@a"]


def test_news_of_an_hour_that_was_closed_a_moment_ago(memory, clock, settle):
    memory.append([Measurement(A, clock.now, 1.0)])
    clock.now += HOUR
    early = memory.history().cursor
    memory.append([Measurement(A, clock.now, 2.0)])
    late = memory.history().cursor
    clock.now += HOUR + compaction.LINGER_S
    settle(memory)
    assert memory.news(0) is None
    assert memory.news(early) is None
    assert memory.news(late) == ([], late)
    memory.append([Measurement(A, clock.now, 3.0)])
    news, cursor = memory.news(late)
    assert [m.value for m in news] == [3.0]
    clock.now = (clock.now // HOUR + 1) * HOUR + compaction.GRACE_S
    settle(memory)
    # in a chunk already, and in the log for a while
    assert memory.news(late) is None or [m.value for m in memory.news(late)[0]] == [3.0]
    assert memory.news(cursor) == ([], cursor)


def test_rollups_hold_what_the_samples_say(memory, clock, settle):
    start = clock.now
    rng = np.random.default_rng(3)
    times = start + np.sort(rng.uniform(0, 3 * HOUR, 500))
    values = rng.normal(size=500)
    memory.append([Measurement(A, t, v) for t, v in zip(times.tolist(), values.tolist(), strict=True)])
    clock.now += 2 * HOUR + compaction.GRACE_S
    settle(memory)
    late = Measurement(A, float(times[7]), 50.0)
    memory.append([late])
    times, values = np.append(times, late.t), np.append(values, late.value)
    for bucket_s in (60, 600):
        found = memory.rollup(A, bucket_s=bucket_s, since=start + 1200, until=start + 2 * HOUR)
        starts = np.floor(times / bucket_s) * bucket_s
        expected = [s for s in np.unique(starts) if start + 1200 <= s <= start + 2 * HOUR]
        assert list(found.times) == expected
        for i, s in enumerate(expected):
            inside = values[starts == s]
            assert (found.count[i], found.low[i], found.high[i]) == (len(inside), inside.min(), inside.max())
            assert found.mean[i] == pytest.approx(inside.mean())


def test_rollups_of_other_lengths_are_not_kept(memory):
    from nws.base.errors import UsageError

    with pytest.raises(UsageError, match="roll-ups of 30 s are not kept; legal are 60, 600"):
        memory.rollup(A, bucket_s=30)


def test_sources_that_are_silent_for_long_are_forgotten(path, memory, clock, batch, settle):
    memory.deliver([batch(memory, ["cpu.new@a"], [(0, clock.now, 1.0)], source="a/1")])
    clock.now += 731 * DAY
    settle(memory)
    assert count(path, "source") == 0
