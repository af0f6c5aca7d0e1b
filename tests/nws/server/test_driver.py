"""Other monitors read at their periods: what they say is kept, what goes wrong is counted and told once."""

import threading

import pytest

from nws.base.errors import ProbeError
from nws.series import Measurement, Series
from nws.server.driver import DrivenSource, Driver
from nws.server.serve import sources
from nws.service.serviceconfig import ServiceConfig
from nws.sources.prometheussettings import PrometheusSettings

CPU = Series.parse("cpu.new@alpha")


class FakeSource:
    """Answers with one measurement, or fails; `reads` are the times it was told."""

    def __init__(self, failure=None):
        self.failure, self.reads = failure, []
        self.instances, self.faults = {"alpha": "a:1"}, {}
        self.held = threading.Event()
        self.held.set()

    def read(self, now):
        self.reads.append(now)
        self.held.wait(10)
        if self.failure:
            raise self.failure
        return [Measurement(CPU, now, 0.5), Measurement(CPU, now + 1, 0.25)]


@pytest.fixture
def source():
    return FakeSource()


@pytest.fixture
def driven(source):
    return DrivenSource(source=source, name="http://prometheus", period_s=0.1)


def counts(driven):
    return {name: count for name, count in driven.counts().items() if count}


def test_what_a_source_says_is_kept(service, driven):
    Driver(service, [driven], clock=lambda: 7.0).read(driven)
    assert service.kept == {"cpu.new@alpha": [(7.0, 0.5), (8.0, 0.25)]}
    assert driven.samples == 2
    assert counts(driven) == {"done": 1}


def test_source_with_nothing_new_is_no_failure(service, driven, monkeypatch):
    monkeypatch.setattr(driven.source, "read", lambda now: [])
    Driver(service, [driven], clock=lambda: 7.0).read(driven)
    assert (service.kept, counts(driven)) == ({}, {"done": 1})


@pytest.mark.parametrize("failure", [ProbeError("nobody answers"), ZeroDivisionError("bug")])
def test_source_that_fails_is_counted_every_time_and_told_once(service, source, driven, caplog, failure):
    driver = Driver(service, [driven], clock=lambda: 7.0)
    source.failure = failure
    for _ in range(3):
        driver.read(driven)
    source.failure = None
    driver.read(driven)
    assert counts(driven) == {"done": 1, "failed": 3}
    lines = [r.message for r in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith("source http://prometheus fails")
    assert lines[1] == "source http://prometheus works again"


def test_faults_of_hosts_are_logged_once_and_given_to_the_service(service, source, driven, caplog):
    driver = Driver(service, [driven], clock=lambda: 7.0)
    for failure, faults in (
        (None, {"beta": "why"}),
        (None, {"beta": "why"}),
        (ProbeError("off"), {}),
        (None, {}),
    ):
        source.failure, source.faults = failure, faults
        driver.read(driven)
    assert service.faults == [{"beta": "why"}, {"beta": "why"}, {"alpha": "off"}, {}]
    lines = [r.message.removeprefix("source http://prometheus") for r in caplog.records]
    first, *_, last = lines
    assert (first, last) == (": nothing of host beta: why", " works again")
    assert ": host beta is complete again" in lines
    assert len(lines) == 4


def test_sources_are_read_at_their_period_until_the_end(service, source, driven, eventually):
    others = set(threading.enumerate())
    with Driver(service, [driven], clock=lambda: 7.0):
        eventually(lambda: len(source.reads) >= 3)
    assert counts(driven)["done"] == len(source.reads)
    eventually(lambda: set(threading.enumerate()) <= others)


def test_source_that_takes_too_long_is_skipped_and_counted(service, source, driven, eventually):
    source.held.clear()
    with Driver(service, [driven], clock=lambda: 7.0):
        eventually(lambda: driven.counts()["skipped"] >= 2)
        source.held.set()
    assert len(source.reads) <= 2 + driven.done


def test_without_sources_nothing_is_started(service):
    before = threading.active_count()
    with Driver(service, [], clock=lambda: 7.0):
        assert threading.active_count() == before


def test_what_the_settings_name_is_driven():
    one = PrometheusSettings(url="http://127.0.0.1:9", every_s=7.0, hosts={"10.0.0.1:9100": "alpha"})
    (driven,) = sources(ServiceConfig(prometheus=(one,)))
    assert (driven.period_s, driven.name) == (7.0, "http://127.0.0.1:9")
    with pytest.raises(ProbeError, match=r"127\.0\.0\.1:9"):
        driven.source.read(0.0)
