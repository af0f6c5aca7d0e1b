"""The tail: samples by series in memory, whatever batches they came in, and for whoever asks meanwhile."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nws.memory import Delivery, headblock
from nws.memory.headblock import SortedBuffer, Totals
from nws.memory.log import LogBatch
from nws.series import Resource, Series

ids = st.sampled_from([0, 1, 2, 7, 65_535, 65_536])
batches = st.lists(st.lists(st.tuples(ids, st.integers(0, 5)), max_size=9), max_size=12)


@pytest.fixture(scope="module")
def small_runs():
    """Batches are sorted after a few samples, as they are after many elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(headblock, "_FRESH", 4)
        patch.setattr(headblock, "_RUNS", 2)
        yield


def batch_of(samples, first):
    """Each value is the place in the order of arrival."""
    return LogBatch(
        ids=np.array([i for i, _ in samples], np.int32),
        times=np.array([t for _, t in samples], float),
        values=np.arange(first, first + len(samples), dtype=float),
    )


@settings(max_examples=50, deadline=None)
@given(batches)
def test_pile_keeps_the_order_of_each_series(small_runs, found):
    pile, kept = SortedBuffer(), {}
    for samples in found:
        batch = batch_of(samples, len(pile))
        for i, t, v in zip(batch.ids.tolist(), batch.times.tolist(), batch.values.tolist(), strict=True):
            kept.setdefault(i, []).append((t, v))
        pile.add(batch)
        assert len(pile) == sum(map(len, kept.values()))
    assert pile.series().tolist() == sorted(kept)
    for i in (0, 1, 2, 3, 7, 65_535, 65_536):
        one = pile.of(i)
        assert list(zip(one.times, one.values, strict=True)) == kept.get(i, [])


@settings(max_examples=50, deadline=None)
@given(batches, st.sampled_from([0, 1, 3, 65_536]))
def test_totals_are_of_the_last_sample_by_time(small_runs, found, first):
    pile, kept = SortedBuffer(), {}
    for samples in found:
        batch = batch_of(samples, len(pile))
        pile.add(batch)
        for i, t, v in zip(batch.ids.tolist(), batch.times.tolist(), batch.values.tolist(), strict=True):
            kept.setdefault(i, []).append((t, v))
    totals = Totals.none(65_537)
    pile.count(totals, first=first)
    for i in (0, 1, 2, 3, 7, 65_535, 65_536):
        pairs = kept.get(i, []) if i >= first else []
        # of the same time what came last
        last_t, last = max(pairs, default=(-np.inf, np.nan))
        assert totals.samples[i] == len(pairs)
        assert totals.last_t[i] == last_t
        assert np.array_equal(totals.last[i], last, equal_nan=True)


def test_threads_write_read_and_keep_house_at_once(memory, clock):
    """Every thread checks what it sees; the clock runs, so that hours close all the while."""
    names = [f"cpu.new@h{i}" for i in range(8)]
    numbers = memory.series_ids(names)
    start, steps, faults = clock.now, 150, []

    def write(part):
        mine = numbers[part::2]
        for step in range(steps):
            clock.now = start + 300.0 * step
            times = np.full(len(mine), start + 300.0 * step)
            values = np.full(len(mine), float(step))
            memory.deliver([Delivery(ids=mine, times=times, values=values, received=clock.now)])

    def read():
        before = 0
        while any(writer.is_alive() for writer in writers):
            values = list(memory.samples(Series(Resource.CPU_NEW, "h3")).values)
            if values != list(range(len(values))) or len(values) < before:
                faults.append(values)
            before = len(values)
            memory.tend(budget_s=0.001)

    writers = [threading.Thread(target=write, args=(part,)) for part in (0, 1)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in (*writers, *readers):
        thread.join()
    assert faults == []
    assert [s.samples for s in memory.summaries()] == [steps] * 8
