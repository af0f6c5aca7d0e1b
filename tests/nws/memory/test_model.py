"""Whatever is done in whatever order, reading gives exactly what a dictionary of lists gives."""

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nws.memory import Delivery, Keep, Memory, headblock
from nws.series import Measurement, Resource, Series

SERIES = [Series(Resource.CPU_NEW, h) for h in "abc"] + [Series(Resource.LATENCY, "a", "b")]
HOUR, START = 3600.0, 1_800_000_000.0
FOR_EVER = Keep(samples_s=1e9, minutes_s=1e9, ten_minutes_s=1e9)

which = st.integers(0, len(SERIES) - 1)
ages = st.one_of(st.integers(0, 7200), st.integers(-(10**6), 10**6)).map(lambda ms: ms * 0.5)
values = st.one_of(st.floats(-1e6, 1e6), st.floats(-1, 1, width=32), st.integers(0, 5).map(float))
points = st.lists(st.tuples(which, ages, values), max_size=12)


class MemoryModel(RuleBasedStateMachine):
    """Two memories on one file, one in the place of another process; times of samples around a clock that moves."""

    def __init__(self):
        super().__init__()
        # the tail sorts after a few samples what elsewhere it sorts after many
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(headblock, "_FRESH", 8)
        self.patch.setattr(headblock, "_RUNS", 2)
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "w.db"
        self.now = START
        self.memories = [self.opened(), self.opened()]
        self.kept = {series: [] for series in SERIES}
        self.stream = []
        self.expected = 0

    def opened(self):
        return Memory(self.path, keep=FOR_EVER, clock=lambda: self.now)

    def teardown(self):
        for memory in self.memories:
            memory.close()
        self.directory.cleanup()
        self.patch.undo()

    def keep(self, found):
        for series, t, value in found:
            self.kept[SERIES[series]].append((self.now - t, value))

    @rule(who=st.booleans(), found=points)
    def append(self, who, found):
        self.memories[who].append([Measurement(SERIES[s], self.now - t, v) for s, t, v in found])
        self.keep(found)

    @rule(who=st.booleans(), found=points, back=st.integers(0, 20))
    def deliver(self, who, found, back):
        """New ones at the end of the stream, sent together with some that were sent before."""
        self.stream += [(s, self.now - t, v) for s, t, v in found]
        first = max(self.expected - back, 0)
        sent = self.stream[first:]
        memory = self.memories[who]
        ids = memory.series_ids([str(SERIES[s]) for s, _, _ in sent])
        delivery = Delivery(
            source="stream",
            first=first,
            ids=ids,
            times=np.array([t for _, t, _ in sent], float),
            values=np.array([v for _, _, v in sent], float),
            received=self.now,
        )
        (receipt,) = memory.deliver([delivery])
        assert (receipt.kept, receipt.next) == (len(found), len(self.stream))
        self.expected = receipt.next
        self.keep(found)

    @rule(hours=st.floats(-1, 5))
    def time_passes(self, hours):
        self.now += round(hours * HOUR)

    @rule(who=st.booleans(), slices=st.integers(1, 30))
    def tend(self, who, slices):
        for _ in range(slices):
            if not self.memories[who].tend(budget_s=0.0):
                break

    @rule(who=st.booleans())
    def reopen(self, who):
        self.memories[who].close()
        self.memories[who] = self.opened()

    @rule(who=st.booleans(), one=which, since=ages, length=st.floats(0, 5 * HOUR))
    def some_samples(self, who, one, since, length):
        a = self.now - since
        found = self.memories[who].samples(SERIES[one], since=a, until=a + length)
        expected = [(t, v) for t, v in self.kept[SERIES[one]] if a <= t <= a + length]
        assert self.pairs(found) == self.in_order(expected)

    @rule(who=st.booleans(), one=which, bucket_s=st.sampled_from([60, 600]))
    def rollup(self, who, one, bucket_s):
        found = self.memories[who].rollup(SERIES[one], bucket_s=bucket_s)
        expected = {}
        for t, v in self.kept[SERIES[one]]:
            expected.setdefault(math.floor(t / bucket_s) * bucket_s, []).append(v)
        assert found.times.tolist() == sorted(expected)
        for t, mean, low, high, count in zip(
            found.times, found.mean, found.low, found.high, found.count, strict=True
        ):
            inside = expected[t]
            assert (low, high, count) == (min(inside), max(inside), len(inside))
            assert abs(mean - sum(inside) / count) <= 1e-6 * max(abs(low), abs(high)) + 1e-40

    @rule(who=st.booleans())
    def summaries(self, who):
        found = {s.series: (s.samples, s.last_t) for s in self.memories[who].summaries()}
        assert found == {s: (len(p), max(t for t, _ in p)) for s, p in self.kept.items() if p}

    @invariant()
    def everything_is_there(self):
        for memory in self.memories:
            found = memory.history().samples
            expected = {s: self.in_order(pairs) for s, pairs in self.kept.items() if pairs}
            assert {s: self.pairs(samples) for s, samples in found.items()} == expected

    @staticmethod
    def pairs(samples):
        return list(zip(samples.times, samples.values, strict=True))

    @staticmethod
    def in_order(pairs):
        """By time, and those of one time as they came."""
        return sorted(pairs, key=lambda pair: pair[0])


MemoryModel.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestMemoryModel = MemoryModel.TestCase
