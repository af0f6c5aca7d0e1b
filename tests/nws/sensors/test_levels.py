"""Levels of load: their mean and number, and the demands at a ratio of the mean."""

import pytest
from hypothesis import assume, given, strategies as st

from nws.sensors.levels import CpuSample, at_ratio, changed, levels
from nws.sensors.procfs import CpuTimes
from nws.sensors.sharing import SchedulingGroup, Task, tasks_of

HERE = frozenset({0, 1})


def samples(busy, seconds=1.0):
    """Samples of two CPUs, of which so many are busy in each second."""
    found, total = [], 0.0
    for number, cpus in enumerate([0.0, *busy]):
        total += cpus * seconds
        times = CpuTimes(normal=total / 2, niced=0.0, interrupts=0.0, idle=0.0, steal=0.0)
        found.append(CpuSample(at=number * seconds, cpus={0: times, 1: times}, own_s=0.0))
    return found


def levels_of(busy):
    first, *between, last = samples(busy)
    return levels(first, between, last, HERE)


busy_seconds = st.lists(st.floats(0.0, 2.0), min_size=2, max_size=30)


@given(busy_seconds)
def test_levels_keep_the_mean_and_are_few(busy):
    found = levels_of(busy)
    assume(found)
    assert len(found) <= 5
    assert sum(level.seconds for level in found) == pytest.approx(len(busy))
    assert sum(level.busy * level.seconds for level in found) == pytest.approx(sum(busy), abs=1e-6)
    assert [level.busy for level in found] == sorted(level.busy for level in found)


@given(st.floats(0.0, 2.0), st.lists(st.floats(-0.05, 0.05), min_size=2, max_size=30))
def test_steady_load_has_no_levels(mean, noise):
    assert levels_of([max(mean + each, 0.0) for each in noise]) == ()


def test_cpus_that_do_not_count_make_no_levels():
    first, *between, last = samples([2.0, 0.0] * 4)
    assert levels(first, between, last, frozenset({5})) == ()


demands = st.lists(st.floats(0.0, 1.0), max_size=8)


def tasks_with(found):
    return [Task(demand=demand, cpus=HERE) for demand in found]


@given(demands, st.floats(0.0, 5.0))
def test_demands_stay_demands_and_follow_the_ratio(found, ratio):
    tasks = tasks_with(found)
    change = at_ratio(tasks, ratio, HERE)
    after = [change(task).demand for task in tasks]
    assert all(0.0 <= demand <= 1.0 for demand in after)
    if ratio >= 1.0:
        assert all(b >= a - 0.01 for a, b in zip(found, after, strict=True))
    else:
        assert all(b <= a + 0.01 for a, b in zip(found, after, strict=True))


@given(st.lists(st.floats(0.15, 0.85), min_size=1, max_size=8), st.floats(0.3, 1.0))
def test_sum_of_varying_demands_has_the_ratio(found, ratio):
    tasks = tasks_with(found)
    change = at_ratio(tasks, ratio, HERE)
    assert sum(change(task).demand for task in tasks) == pytest.approx(ratio * sum(found), rel=0.02)


def test_small_and_distant_tasks_keep_their_demand():
    tasks = [
        Task(demand=0.05, cpus=HERE),
        Task(demand=0.5, cpus=frozenset({7})),
        Task(demand=0.5, cpus=HERE),
        Task(demand=1.0, cpus=HERE),
    ]
    change = at_ratio(tasks, 1.2, HERE)
    small, distant, part, busy = (change(task).demand for task in tasks)
    assert (small, distant, busy) == (0.05, 0.5, 1.0)
    assert part == pytest.approx(0.5 + 0.2 * 1.55, abs=0.01)


def test_changed_hierarchy_has_the_same_shape_and_objects():
    part, busy = Task(demand=0.5, cpus=HERE), Task(demand=1.0, cpus=HERE)
    hierarchy = (part, SchedulingGroup(name="/a", weight=512.0, members=(busy,), limit=0.3))
    change = at_ratio(hierarchy, 0.9, HERE)
    after = changed(hierarchy, change)
    assert [*tasks_of(after)] == [change(part), change(busy)]
    assert next(tasks_of(after)) is change(part)
    assert after[1].limit == 0.3
