"""Settings of a source: every mistake at once, each saying what is legal."""

from __future__ import annotations

from pathlib import Path

import pytest

from nws.base.errors import ConfigError
from nws.sources.prometheussettings import PrometheusSettings


def test_address_is_enough():
    settings = PrometheusSettings(url="http://127.0.0.1:9090/")
    assert settings.url == "http://127.0.0.1:9090"
    assert settings.every_s == 30.0
    assert not settings.hosts


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"url": "127.0.0.1:9090"}, "url: '127.0.0.1:9090' is no address"),
        ({"url": "http://me:secret@here:9090"}, "holds a name or password"),
        ({"every_s": 0.0}, "every_s: expected 0.1 to 86400 seconds; got 0"),
        ({"every_s": float("nan")}, "every_s: expected 0.1 to 86400 seconds; got nan"),
        ({"timeout_s": 1e6}, "timeout_s: expected 0.1 to 86400 seconds; got 1e+06"),
        ({"over_s": -1.0}, "over_s: expected 0.1 to 86400 seconds; got -1"),
        ({"user": "me"}, "user and password_file belong together"),
        ({"password_file": Path("p")}, "user and password_file belong together"),
        ({"user": "a:b", "password_file": Path("p")}, "user: expected a name without a colon; got 'a:b'"),
        ({"token_file": Path("t"), "user": "me", "password_file": Path("p")}, "exclude each other; keep one"),
        ({"match": '{job="node"}'}, "without braces"),
        ({"hosts": {"a:1": "al pha"}}, "hosts: a:1 is called 'al pha', which is not a host name; legal are"),
        ({"hosts": {"a:1": "alpha", "b:1": "alpha"}}, "two instances are called alpha"),
    ],
)
def test_mistake_is_told_with_what_is_legal(wrong, message):
    with pytest.raises(ConfigError) as caught:
        PrometheusSettings(**{"url": "http://here:9090", **wrong})
    assert len(caught.value.problems) == 1
    assert message in caught.value.problems[0]
    assert "secret" not in caught.value.problems[0]


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        PrometheusSettings(url="nowhere", every_s=0.0, user="me")
    assert [p.split(": ")[1] for p in caught.value.problems][:2] == ["url", "every_s"]
    assert len(caught.value.problems) == 3
