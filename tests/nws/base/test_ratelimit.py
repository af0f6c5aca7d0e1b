"""Token buckets: bursts up to a minute's worth, then an even rate, for each client, in bounded memory."""

import pytest
from hypothesis import given, strategies as st

from nws.base.ratelimit import RateLimit


def test_minutes_worth_at_once_and_then_evenly():
    limit = RateLimit(60)
    assert [limit.ask("a", 0.0) for _ in range(60)] == [0.0] * 60
    assert limit.ask("a", 0.0) == pytest.approx(1.0)
    assert limit.ask("a", 0.5) == pytest.approx(0.5)
    assert limit.ask("a", 1.0) == 0.0
    assert limit.ask("a", 1.0) == pytest.approx(1.0)


def test_who_waits_as_long_as_told_is_let_in():
    limit = RateLimit(7)
    while (wait_s := limit.ask("a", 3.0)) == 0:
        pass
    assert limit.ask("a", 3.0 + wait_s + 1e-9) == 0.0


def test_clients_do_not_pay_for_each_other():
    limit = RateLimit(1)
    assert limit.ask("a", 0.0) == 0.0
    assert limit.ask("a", 0.0) > 0
    assert limit.ask("b", 0.0) == 0.0


def test_table_is_bounded_and_forgets_who_came_longest_ago():
    limit = RateLimit(1, clients=2)
    limit.ask("a", 0.0)
    limit.ask("b", 0.0)
    limit.ask("a", 0.0)
    limit.ask("c", 0.0)
    assert len(limit) == 2
    assert limit.ask("a", 0.0) > 0, "a came after b, so b was forgotten"


def test_clock_that_goes_back_harms_nobody():
    limit = RateLimit(60)
    limit.ask("a", 100.0)
    assert limit.ask("a", 0.0) == 0.0
    assert limit.ask("a", 100.0) == 0.0


@given(
    per_minute=st.integers(1, 600),
    gaps=st.lists(st.floats(0, 30), min_size=1, max_size=200),
)
def test_never_more_than_the_burst_and_the_rate(per_minute, gaps):
    limit = RateLimit(per_minute)
    now, let_in = 0.0, 0
    for gap in gaps:
        now += gap
        let_in += limit.ask("a", now) == 0.0
    assert let_in <= per_minute + now * per_minute / 60 + 1e-6
