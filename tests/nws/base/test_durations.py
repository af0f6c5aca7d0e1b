"""Spans of time: what people write, what they read, and what they are told when it is not one."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from apples.errors import ConfigError
from nws.base.durations import Duration, format_seconds, parse_duration, slurm_seconds
from tests.transcripts import recorded


@recorded("nws/base/durations.txt", "text")
def test_legal_forms(answered, text):
    answered(parse_duration(text))


@recorded("nws/base/slurm_durations.txt", "text")
def test_slurm_seconds_printed_duration_returns_seconds(answered, text):
    answered(slurm_seconds(text))


@recorded("nws/base/duration_problems.txt", "text")
def test_everything_else_is_answered_with_the_legal_forms(answered, text: str) -> None:
    with pytest.raises(ConfigError, match=r"time limit '.*1:30:00") as caught:
        parse_duration(text, what="time limit")
    answered(str(caught.value))
    assert caught.value.exit_code == 2


@recorded("nws/base/durations_for_people.txt", "seconds")
def test_for_people(answered, seconds):
    answered(format_seconds(seconds))


@given(st.floats(min_value=60, max_value=1e7))
def test_what_people_read_is_within_its_last_unit(seconds: float) -> None:
    text = format_seconds(seconds)
    read_back = parse_duration(text.replace("min", "m"))
    smallest = {"s": 1, "min": 60, "h": 3600, "d": 86400}[text.split()[-1]]
    assert abs(read_back - seconds) <= max(
        0.51 * smallest, 1800 if seconds >= 86000 else 31 if seconds >= 3590 else 1
    )


@pytest.mark.parametrize(("value", "seconds"), [("7d", 604800.0), (90, 90.0), (0.5, 0.5), ("1h30m", 5400.0)])
def test_span_in_a_settings_file(value, seconds):
    assert Duration().parse(value) == seconds


@recorded("nws/base/span_problems.txt", "value")
def test_span_in_a_settings_file_that_is_none(answered, value):
    with pytest.raises(ValueError, match=r"^time ") as caught:
        Duration().parse(value)
    answered(str(caught.value))


def test_zero_where_it_is_legal():
    assert Duration(zero=True).parse(0) == 0.0
    with pytest.raises(ValueError, match="time must be 0 or more; got -1"):
        Duration(zero=True).parse(-1)
