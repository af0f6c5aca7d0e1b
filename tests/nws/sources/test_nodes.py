"""From seconds in each mode to what a newcomer gets: the same answers as for competitors that are seen."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nws.sources.prometheus import Target


def target(*, cpus=4, waiting=None, runnable=None, **modes):
    modes.setdefault("idle", cpus - sum(modes.values()))
    return Target(labels={}, modes=modes, cpus=float(cpus), waiting=waiting, runnable=runnable)


def new(**load):
    return target(**load).shares().new


def test_idle_machine():
    shares = target().shares()
    assert (shares.new, shares.running, shares.capacity) == (1.0, 1.0, 4.0)


def test_spinners_on_half_of_the_cpus_leave_the_other_half():
    assert new(user=2.0) == 1.0
    assert target(user=2.0).shares().capacity == pytest.approx(4 * 4 / 6)


@pytest.mark.parametrize("spinners", [4, 5, 8, 12])
def test_spinners_on_all_cpus_share_with_the_newcomer(spinners):
    fair = 4 / (spinners + 1)
    assert new(user=4.0, waiting=spinners - 4.0) == pytest.approx(fair, abs=0.01)
    assert new(user=4.0, runnable=spinners + 1.0) == pytest.approx(fair, abs=0.01)


def test_in_the_place_of_one_that_runs_there_is_one_competitor_less():
    shares = target(user=4.0, waiting=4.0).shares()
    assert shares.running == pytest.approx(4 / 8)
    assert shares.new == pytest.approx(4 / 9)


def test_without_word_of_who_waits_full_cpus_are_taken_to_have_one_process_each():
    assert new(user=4.0) == pytest.approx(4 / 5)


def test_processes_seen_at_the_scrape_do_not_count_where_cpus_are_idle():
    # the scrape itself wakes a dozen threads for a moment
    assert new(user=1.0, runnable=12.0) == 1.0


def test_exporter_that_counts_is_no_competitor():
    assert new(user=4.0, runnable=5.0) == pytest.approx(4 / 5)


def test_niced_load_weighs_less_only_where_nice_counts_between_sessions():
    niced = target(nice=4.0)
    assert niced.shares().new == pytest.approx(4 / 5)
    assert niced.shares(nice_counts=True).new > 0.9


def test_where_nice_counts_those_who_got_little_are_many():
    # 4 spinners and 4 more at nice 10 on 4 CPUs: the niced get a tenth of the time, and are half of who waits
    weight = 1.25**-10
    mixed = target(user=4 / (1 + weight), nice=4 * weight / (1 + weight), waiting=4.0)
    assert mixed.shares(nice_counts=True).new == pytest.approx(4 / (5 + 4 * weight), abs=0.01)
    assert mixed.shares().new == pytest.approx(4 / 9)


def test_waiting_for_disks_is_idle_time():
    assert new(iowait=3.0, idle=1.0) == 1.0


def test_interrupts_and_stolen_time_are_nobodys():
    assert new(irq=0.4, softirq=0.4) == pytest.approx(0.8)
    assert new(steal=2.0, user=2.0, idle=0.0) == pytest.approx(0.5, abs=0.1)
    assert new(steal=0.04, idle=3.96) == pytest.approx(0.99)


def test_counters_need_not_agree_to_the_last_tick_with_the_clock():
    assert target(user=2.0, idle=2.06).shares().new == 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        Target(labels={}, modes={"idle": 4.0}),
        Target(labels={}, cpus=4.0),
        Target(labels={}, cpus=0.0, modes={"idle": 0.0}),
        Target(labels={}, cpus=4.0, modes={"user": 4.0}),
        Target(labels={}, cpus=4.0, modes={"idle": 900.0, "user": 1.0}),
        Target(labels={}, cpus=4.0, modes={"idle": 5.0, "user": -1.0}),
    ],
)
def test_what_cannot_be_is_not_divided(wrong):
    assert wrong.shares() is None


@given(
    st.integers(1, 64),
    st.lists(st.floats(0, 1), min_size=6, max_size=6).filter(lambda parts: sum(parts) > 0.01),
    st.none() | st.floats(0, 100),
    st.none() | st.floats(0, 100),
    st.booleans(),
)
def test_shares_are_shares_whatever_is_measured(cpus, parts, waiting, runnable, nice_counts):
    names = ("idle", "user", "system", "nice", "softirq", "steal")
    modes = {name: cpus * part / sum(parts) for name, part in zip(names, parts, strict=True)}
    shares = target(cpus=cpus, waiting=waiting, runnable=runnable, **modes).shares(nice_counts=nice_counts)
    assert 0.0 <= shares.new <= 1.0 + 1e-9
    assert 0.0 <= shares.running <= 1.0 + 1e-9
    assert 0.0 <= shares.capacity <= cpus + 1e-9


@given(st.floats(0, 3.99), st.floats(0, 3.99), st.floats(0, 10), st.floats(0, 10))
def test_more_load_never_leaves_much_more(less, more, few, many):
    """Monotone but for the seams between whole competitors."""
    less, more = sorted((less, more))
    few, many = sorted((few, many))
    assert new(user=more, waiting=many) <= new(user=less, waiting=few) + 0.2
