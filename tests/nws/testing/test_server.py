"""The service in memory: there between `with` and its end, with the test's own clock and tokens."""

import doctest
import time
from pathlib import Path

import pytest

import nws.testing
from nws.base.errors import Refused, Unauthorized
from nws.client import RemoteWeather
from nws.client.remote import ServiceClient
from nws.series import Measurement, Series
from nws.service.serviceconfig import ServiceConfig
from nws.testing import InMemoryServer

SHARE = Series.parse("cpu.new@alpha")


def test_example_of_the_documentation():
    assert doctest.testmod(nws.testing).failed == 0
    assert doctest.testmod(nws.testing).attempted > 5


def test_example_of_the_page():
    page = Path(__file__).parents[3] / "docs" / "weather.md"
    _, _, rest = page.read_text(encoding="utf-8").partition("## In tests")
    exec(compile(rest.partition("```python\n")[2].partition("```")[0], str(page), "exec"), {})


def test_it_leaves_no_file_behind(state_of_its_own, tmp_path):
    with InMemoryServer() as server:
        server.put([Measurement(SHARE, time.time(), 0.5)])
    assert list(tmp_path.rglob("*")) == []


def test_two_of_them_know_nothing_of_each_other():
    with InMemoryServer() as one, InMemoryServer() as other:
        assert one.put([Measurement(SHARE, time.time(), 0.5)]) == 1
        with RemoteWeather(other.url) as weather:
            assert weather.forecasts() == {}


def test_clock_decides_who_is_lost():
    now = [1.8e9]
    with InMemoryServer(ServiceConfig(lost_after_s=30.0), clock=lambda: now[0]) as server:
        server.register("alpha", cpus=4)
        now[0] += 31.0
        server.service.tick()
        with RemoteWeather(server.url) as weather:
            (alpha,) = weather.hosts()
    assert (alpha.name, alpha.cpus, alpha.lost) == ("alpha", 4, True)


def test_tokens_are_asked_for_when_there_are_some():
    with InMemoryServer(tokens={"read": ["reading-0123456789"], "admin": ["ruling-0123456789"]}) as server:
        server.put([Measurement(SHARE, time.time(), 0.5)])
        with server.client("reading-0123456789") as reader:
            assert len(reader.series()["series"]) == 1
        with ServiceClient(server.url) as nobody, pytest.raises(Unauthorized):
            nobody.series()


def test_many_measurements_go_in_batches():
    with InMemoryServer(clock=lambda: 1.8e9) as server:
        assert server.put(Measurement(SHARE, 1.8e9 - k, 0.5) for k in range(25_000)) == 25_000


def test_measurements_of_another_time_do_not_vanish_silently():
    with (
        InMemoryServer(clock=lambda: 1.8e9) as server,
        pytest.raises(Refused, match=r"1 measurements were refused; the service's clock is at 1800000000"),
    ):
        server.put([Measurement(SHARE, 1e9, 0.5)])


def test_before_and_after_it_is_nowhere():
    server = InMemoryServer()
    with pytest.raises(RuntimeError, match="use it in a `with` statement"):
        server.url.strip()


def test_names_that_are_not_published():
    with pytest.raises(AttributeError, match=r"nws.testing.* has no attribute 'Nothing'"):
        nws.testing.Nothing  # noqa: B018
