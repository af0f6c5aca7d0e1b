"""A memory under a clock that the test sets, and what is said of its content."""

import numpy as np
import pytest

from nws.memory import Delivery, Memory

START = 1_800_000_000.0  # the start of an hour, and far from every real clock


class Clock:
    def __init__(self, now=START):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "weather.db"


@pytest.fixture
def memory(path, clock):
    with Memory(path, clock=clock) as memory:
        yield memory


@pytest.fixture
def kept():
    def kept(memory, **options):
        found = memory.history(**options).samples
        return {series: list(zip(s.times, s.values, strict=True)) for series, s in found.items()}

    return kept


@pytest.fixture
def settle():
    """All housekeeping that is due, in slices as short as they come."""

    def settle(memory, budget_s=0.0):
        slices = 1
        while memory.tend(budget_s=budget_s):
            slices += 1
        return slices

    return settle


@pytest.fixture
def batch(clock):
    def batch(memory, names, samples, **options):
        """A delivery of (name number, time, value)s."""
        ids = memory.series_ids(names)
        return Delivery(
            ids=np.array([ids[i] for i, _, _ in samples], np.int32),
            times=np.array([t for _, t, _ in samples], float),
            values=np.array([v for _, _, v in samples], float),
            **{"received": clock(), **options},
        )

    return batch
