"""Spans of time: what people write, what they read, and what they are told when it is not one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apples.errors import ConfigError
from nws.base.durations import Duration, format_seconds, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("0.5", 0.5),
        ("15m", 900),
        ("2h", 7200),
        ("1.5h", 5400),
        ("1d", 86400),
        ("1h30m", 5400),
        ("1H 30M", 5400),
        ("5:00", 300),
        ("90:00", 5400),
        ("1:30:00", 5400),
        (" 00:00:01.5 ", 1.5),
        ("1-00:00:00", 86400),
        ("2-12", 216000),
        ("0-01:30", 5400),
        ("1-00:00:00.5", 86400.5),
    ],
)
def test_legal_forms(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "soon",
        "-5",
        "1h2d",
        "1:2:3:4",
        "1:60:00",
        "5:60",
        "1-24",
        "1-",
        "1-2:60",
        "nan",
        "inf",
        "٣",
        "2 x",
    ],
)
def test_everything_else_is_answered_with_the_legal_forms(text: str) -> None:
    with pytest.raises(ConfigError, match=r"time limit '.*1:30:00") as caught:
        parse_duration(text, what="time limit")
    assert repr(text) in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.01234, "0.0123 s"),
        (4.266, "4.27 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (90, "1 min 30 s"),
        (3599.7, "1 h"),
        (5400, "1 h 30 min"),
        (7199, "2 h"),
        (86400 * 3 + 4 * 3600 + 59, "3 d 4 h"),
        (-90, "-1 min 30 s"),
    ],
)
def test_for_people(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@given(st.floats(min_value=60, max_value=1e7))
def test_what_people_read_is_within_its_last_unit(seconds: float) -> None:
    text = format_seconds(seconds)
    read_back = parse_duration(text.replace("min", "m"))
    smallest = {"s": 1, "min": 60, "h": 3600, "d": 86400}[text.split()[-1]]
    assert abs(read_back - seconds) <= max(
        0.51 * smallest, 1800 if seconds >= 86000 else 31 if seconds >= 3590 else 1
    )


@pytest.mark.parametrize(("value", "seconds"), [("7d", 604800.0), (90, 90.0), (0.5, 0.5), ("1h30m", 5400.0)])
def test_a_span_in_a_settings_file(value, seconds):
    assert Duration().parse(value) == seconds


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("soon", "time 'soon' is not a span of time; legal are 90, 90s"),
        (0, "time must be more than 0; got 0"),
        ("0s", "time must be more than 0; got 0s"),
        (-1, "time must be more than 0; got -1"),
        (float("inf"), "time must be more than 0; got inf"),
        (True, "time True is not a span of time"),
        (None, "time None is not a span of time"),
    ],
)
def test_a_span_in_a_settings_file_that_is_none(value, says):
    with pytest.raises(ValueError, match=says):
        Duration().parse(value)


def test_zero_where_it_is_legal():
    assert Duration(zero=True).parse(0) == 0.0
    with pytest.raises(ValueError, match="time must be 0 or more; got -1"):
        Duration(zero=True).parse(-1)
