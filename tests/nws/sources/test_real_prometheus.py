"""The real Prometheus and node_exporter on this machine, beside our own sensors."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from nws.base.errors import ProbeError
from nws.sensors.cpu import CpuSensor
from nws.sensors.freememory import MemorySensor
from nws.sources.httpapi import PrometheusApi
from nws.sources.prometheus import PrometheusSettings, PrometheusSource

_SPINNER = "while True:\n    pass\n"


@pytest.fixture(scope="module")
def scraped(real, tmp_path_factory):
    """URL of a Prometheus that scrapes this machine every quarter second, and the exporter's address."""
    with real.scraped(tmp_path_factory.mktemp("scraped")) as (url, instance, _):
        yield url, instance


@contextmanager
def spinning(count):
    command = [sys.executable, "-I", "-S", "-c", _SPINNER]
    processes = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def by_resource(measurements):
    return {m.series.resource.value: m.value for m in measurements}


def test_this_machine_as_prometheus_sees_it(scraped, real):
    url, instance = scraped
    began, found = time.time(), {}
    with PrometheusSource(
        PrometheusSettings(url=url, hosts={instance: "alpha"}, match='job="node"')
    ) as source:

        def all_read():
            # Scrapes that come late on a busy machine make a quarter second a gap for the CPU series.
            found.update({str(m.series): m for m in source.read(time.time())})
            return len(found) >= 4

        real.until(all_read, "four series")
    assert set(found) == {
        "cpu.new@alpha",
        "cpu.running@alpha",
        "cpu.capacity@alpha",
        "memory.free@alpha",
    }
    assert all(began - 60 < m.t < time.time() + 1 for m in found.values())
    values = by_resource(found.values())
    cpus = os.cpu_count()
    assert 0 <= values["cpu.new"] <= values["cpu.running"] <= 1
    assert values["cpu.new"] <= values["cpu.capacity"] <= cpus
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < values["memory.free"] <= total


def test_spinners_are_seen_as_our_own_sensor_sees_them(scraped, real):
    url, instance = scraped
    cpus = os.cpu_count()
    own = CpuSensor(host="alpha")
    options = {"url": url, "hosts": {instance: "alpha"}, "over_s": 2.0}
    with PrometheusSource(PrometheusSettings(**options)) as source, spinning(2 * cpus):
        own.measure()
        began = time.time()

        def later():
            found = source.read(time.time())
            return found if found and found[0].t > began + 2.5 else None

        theirs = by_resource(real.until(later, "two seconds under spinners"))
        ours = by_resource(own.measure())
    # 2 spinners a CPU leave no more than cpus / (2·cpus + 1); others on this machine may leave less
    assert theirs["cpu.new"] <= 1.3 * cpus / (2 * cpus + 1)
    assert ours["cpu.new"] <= 1.3 * cpus / (2 * cpus + 1)
    assert theirs["cpu.capacity"] <= 0.6 * cpus


def test_memory_is_what_our_own_sensor_says_where_no_cgroup_limits_it(scraped):
    url, _ = scraped
    with PrometheusSource(PrometheusSettings(url=url)) as source:
        theirs = by_resource(source.read(time.time()))["memory.free"]
    ours = MemorySensor(host="alpha").measure()[0].value
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert theirs >= ours - 0.2 * total


def test_scrape_counts_once(scraped, real):
    url, _ = scraped
    with PrometheusSource(PrometheusSettings(url=url)) as source:
        first = {m.series: m.t for m in source.read(time.time())}
        second = real.until(lambda: source.read(time.time()), "another scrape")
    assert all(m.t > first[m.series] for m in second)


def test_prometheus_says_itself_what_is_wrong_with_a_matcher(scraped):
    refused(scraped[0], r"refused \(400\): bad_data: .*; check match", match="job=node")


def test_job_that_is_not_there(scraped):
    refused(scraped[0], r'no host: .* with job="nobody"', match='job="nobody"')


def test_exporter_itself_is_no_prometheus(scraped):
    refused(f"http://{scraped[1]}", r"answers, but not as Prometheus does|has no /api/v1/query")


def test_dead_exporter_leaves_a_gap(real, tmp_path):
    with (
        real.scraped(tmp_path) as (url, _, exporter),
        PrometheusSource(PrometheusSettings(url=url)) as source,
    ):
        assert source.read(time.time())
        exporter.kill()
        with PrometheusApi(PrometheusSettings(url=url)) as api:
            real.until(lambda: not api.query("node_memory_MemAvailable_bytes").samples, "staleness")
        source.read(time.time())
        assert source.read(time.time()) == []


def refused(url, message, **options):
    with (
        PrometheusSource(PrometheusSettings(url=url, **options)) as source,
        pytest.raises(ProbeError, match=message),
    ):
        source.read(time.time())


def test_password_is_asked_for_and_given(real, tmp_path):
    # bcrypt of "open-sesame"
    users = 'basic_auth_users: {nws: "$2b$04$abcdefghijklmnopqrstuuXcjcm5avyCiJoD2uS24xa2lb6fjMB3G"}\n'
    command = real.prometheus_command(tmp_path, [], web=users)
    password = tmp_path / "password"
    password.write_text("open-sesame\n")
    password.chmod(0o600)
    with real.running(command, tmp_path) as (_, address):
        url = f"http://{address}"
        refused(url, r"401 Unauthorized\); set token_file, or user and password_file")
        # it lets us in, and has scraped nobody or is not ready yet
        refused(url, r"no host: |answered 503", user="nws", password_file=password)
