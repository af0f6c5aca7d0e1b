"""What a fair scheduler gives a newcomer: known cases, and what must hold for any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nws.sensors.sharing import (
    REALTIME_WEIGHT,
    Task,
    as_one_group,
    newcomer_share,
    share_of_new,
    weight_of_nice,
)

BOTH = frozenset({0, 1})
TWO = {0: 1.0, 1: 1.0}


def spinner(cpus=BOTH, nice=0):
    return Task(demand=1.0, weight=weight_of_nice(nice), cpus=frozenset(cpus))


@pytest.mark.parametrize(("spinners", "share"), [(0, 1.0), (1, 1.0), (2, 2 / 3), (4, 2 / 5)])
def test_the_newcomer_is_one_of_equals(spinners, share):
    assert share_of_new(TWO, [spinner()] * spinners, 1) == pytest.approx(share)


def test_a_part_time_competitor_leaves_what_it_does_not_want():
    assert newcomer_share(1.0, [Task(demand=0.3, cpus=BOTH)], 1) == pytest.approx(0.7)


def test_a_niced_spinner_takes_little():
    assert newcomer_share(1.0, [spinner(nice=19)], 1) == pytest.approx(1024 / (1024 + weight_of_nice(19)))


def test_a_niced_newcomer_gets_little():
    assert newcomer_share(1.0, [spinner()], 1, weight_of_nice(19)) < 0.02


def test_a_real_time_task_takes_all_it_wants():
    assert newcomer_share(1.0, [Task(demand=0.8, weight=REALTIME_WEIGHT, cpus=BOTH)], 1) == pytest.approx(0.2)


def test_on_full_pinned_cpus_the_newcomer_shares_one_of_them():
    cpus = dict.fromkeys(range(64), 1.0)
    assert share_of_new(cpus, [spinner({c}) for c in cpus], 1) == pytest.approx(0.5)
    assert share_of_new(cpus, [spinner({c}) for c in cpus], 64) == pytest.approx(0.5)


def test_the_newcomer_goes_where_nobody_is_pinned():
    assert share_of_new(TWO, [spinner({0})] * 3, 1) == pytest.approx(1.0)


def test_a_little_movable_work_does_not_open_a_second_cpu_to_one_process():
    pinned = [spinner({0}), spinner({1})]
    assert share_of_new(TWO, [*pinned, Task(demand=0.01, cpus=BOTH)], 1) == pytest.approx(0.5, abs=0.01)


def test_tasks_elsewhere_do_not_count():
    assert share_of_new({0: 1.0}, [spinner({1})] * 5, 1) == 1.0


def test_a_session_has_the_weight_of_one_process_where_its_members_want_to_run():
    members = as_one_group([spinner({0}), spinner({0}, nice=19), spinner({1})])
    assert sum(t.weight for t in members) == pytest.approx(weight_of_nice(0))
    assert members[0].weight == members[2].weight > 50 * members[1].weight


def test_a_session_of_idlers_keeps_its_members():
    idle = [Task(demand=0.0, cpus=BOTH)]
    assert as_one_group(idle) == idle


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
def test_a_share_is_a_share(competitors, count):
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
