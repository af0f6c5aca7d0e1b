"""What a fair scheduler gives a newcomer: known cases, and what must hold for any."""

import pytest
from hypothesis import given, strategies as st

from nws.sensors.sharing import (
    REALTIME_WEIGHT,
    SchedulingGroup,
    Task,
    flattened,
    joined,
    newcomer_share,
    share_of_new,
    tasks_of,
    weight_of_nice,
)

BOTH = frozenset({0, 1})
TWO = {0: 1.0, 1: 1.0}


def spinner(cpus=BOTH, nice=0):
    return Task(demand=1.0, weight=weight_of_nice(nice), cpus=frozenset(cpus))


@pytest.mark.parametrize(("spinners", "share"), [(0, 1.0), (1, 1.0), (2, 2 / 3), (4, 2 / 5)])
def test_newcomer_is_one_of_equals(spinners, share):
    assert share_of_new(TWO, [spinner()] * spinners, 1) == pytest.approx(share)


def test_part_time_competitor_leaves_what_it_does_not_want():
    assert newcomer_share(1.0, [Task(demand=0.3, cpus=BOTH)], 1) == pytest.approx(0.7)


def test_niced_spinner_takes_little():
    assert newcomer_share(1.0, [spinner(nice=19)], 1) == pytest.approx(1024 / (1024 + weight_of_nice(19)))


def test_niced_newcomer_gets_little():
    assert newcomer_share(1.0, [spinner()], 1, weight_of_nice(19)) < 0.02


def test_real_time_task_takes_all_it_wants():
    assert newcomer_share(1.0, [Task(demand=0.8, weight=REALTIME_WEIGHT, cpus=BOTH)], 1) == pytest.approx(0.2)


def test_on_full_pinned_cpus_the_newcomer_shares_one_of_them():
    cpus = dict.fromkeys(range(64), 1.0)
    assert share_of_new(cpus, [spinner({c}) for c in cpus], 1) == pytest.approx(0.5)
    assert share_of_new(cpus, [spinner({c}) for c in cpus], 64) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("pinned", "spinners", "share"),
    # three on CPU 0, one on CPU 1, seven that may move and the newcomer: six on each
    [((0, 0, 0, 1), 7, 1 / 6), ((1,), 2, 1 / 2), ((0, 0, 0, 0, 0), 2, 1 / 3), ((0, 1), 0, 1 / 2)],
)
def test_share_beside_pinned_and_many_movable_is_balanced(pinned, spinners, share):
    tasks = [*(spinner({cpu}) for cpu in pinned), *[spinner()] * spinners]
    assert share_of_new(TWO, tasks, 1) == pytest.approx(share)


def test_newcomer_goes_where_nobody_is_pinned():
    assert share_of_new(TWO, [spinner({0})] * 3, 1) == pytest.approx(1.0)


def test_little_movable_work_does_not_open_a_second_cpu_to_one_process():
    pinned = [spinner({0}), spinner({1})]
    assert share_of_new(TWO, [*pinned, Task(demand=0.01, cpus=BOTH)], 1) == pytest.approx(0.5, abs=0.01)


def test_tasks_elsewhere_do_not_count():
    assert share_of_new({0: 1.0}, [spinner({1})] * 5, 1) == 1.0


def group(*members, weight=1024.0, limit=float("inf"), name="g"):
    return SchedulingGroup(name=name, weight=weight, members=members, limit=limit)


def test_group_has_one_weight_where_its_members_want_to_run():
    members = flattened([group(spinner({0}), spinner({0}, nice=19), spinner({1}))])
    assert sum(t.weight for t in members) == pytest.approx(weight_of_nice(0))
    assert members[0].weight == members[2].weight > 50 * members[1].weight


def test_group_of_idlers_keeps_its_members():
    idle = Task(demand=0.0, cpus=BOTH)
    assert flattened([group(idle)]) == [idle]


def test_members_of_a_group_want_no_more_than_its_quota():
    members = flattened([group(spinner(), group(spinner(), spinner(), limit=0.5), limit=0.75)])
    assert sum(t.demand for t in members) == pytest.approx(0.75)
    assert members[0].demand == pytest.approx(0.5)


def test_weights_of_nested_groups_multiply():
    light, heavy = group(spinner(), weight=256.0), group(spinner(), spinner(), weight=768.0)
    weights = [t.weight for t in flattened([spinner(), group(light, heavy)])]
    # of the inner demand 3, a part 256 · 1 against 768 · 2
    assert weights == pytest.approx([1024.0, 1024 / 7, 3 * 1024 / 7, 3 * 1024 / 7])


def test_newcomer_joins_the_group_it_comes_from():
    new = Task(demand=1.0, cpus=BOTH, new=True)
    found = joined([spinner(), group(group(spinner(), name="in"), name="out")], ("out", "in"), [new])
    weights = [(t.new, t.weight) for t in flattened(found)]
    assert weights == [(False, 1024.0), (False, 512.0), (True, 512.0)]
    assert list(tasks_of(found))[-1] is new


tasks = st.lists(
    st.builds(
        lambda demand, nice, cpus: Task(demand=demand, weight=weight_of_nice(nice), cpus=cpus),
        st.floats(0.0, 1.0),
        st.integers(-20, 19),
        st.frozensets(st.integers(0, 3), min_size=1),
    ),
    max_size=12,
)
FOUR = dict.fromkeys(range(4), 1.0)


@given(tasks, st.integers(1, 6))
def test_share_is_a_share(competitors, count):
    share = share_of_new(FOUR, competitors, count)
    assert 0.0 <= share <= 1.0
    assert share * count <= 4 + 1e-9


@given(tasks, st.floats(0.0, 1.0))
def test_one_more_competitor_never_helps_where_all_may_move(competitors, demand):
    movable = [Task(demand=t.demand, weight=t.weight, cpus=frozenset(FOUR)) for t in competitors]
    more = [*movable, Task(demand=demand, cpus=frozenset(FOUR))]
    assert share_of_new(FOUR, more, 1) <= share_of_new(FOUR, movable, 1) + 1e-9


@given(tasks, st.floats(0.01, 8.0))
def test_everything_is_handed_out_or_nobody_wants_more(competitors, capacity):
    """The newcomer's share is the level of a weighted max-min division: check it against its definition."""
    share = newcomer_share(capacity, competitors, 1, 1024.0)
    level = share / 1024.0
    handed_out = share + sum(min(t.demand, level * t.weight) for t in competitors)
    if share < 1.0 - 1e-9:
        assert handed_out == pytest.approx(capacity)
    else:
        assert handed_out <= capacity + 1e-9


hierarchies = st.recursive(
    st.lists(st.builds(lambda demand: Task(demand=demand, cpus=BOTH), st.floats(0.0, 1.0)), max_size=3),
    lambda inner: st.lists(
        st.builds(
            lambda members, weight, limit: group(*members, weight=weight, limit=limit),
            inner,
            st.floats(3.0, 1e5),
            st.floats(0.01, 4.0),
        ),
        max_size=3,
    ),
    max_leaves=6,
)


@given(hierarchies)
def test_flattening_keeps_tasks_weights_and_demands(members):
    flat = flattened(members)
    assert [t.cpus for t in flat] == [t.cpus for t in tasks_of(members)]
    assert sum(t.demand for t in flat) == pytest.approx(sum(m.demand for m in members), abs=1e-9)
    busy = [m for m in members if m.demand > 0]
    assert sum(t.weight for t in flattened(busy)) == pytest.approx(sum(m.weight for m in busy), rel=1e-3)
