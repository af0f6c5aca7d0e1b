"""The weather of hosts as Prometheus tells it: whose, of when, each scrape once, and gaps where it knows nothing."""

from __future__ import annotations

import logging

import pytest

from nws.base.errors import ProbeError
from nws.sources.prometheus import PrometheusSettings, PrometheusSource
from tests.transcripts import recorded

#: When the fake's targets were scraped, when it evaluates, and when we ask.
SCRAPED, EVALUATED, NOW = 1_700_000_025.5, 1_700_000_030.0, 1_700_000_030.2
IDLE = {"idle": 3.9, "user": 0.06, "system": 0.04}


@pytest.fixture
def source(prometheus):
    """Make a source that reads the fake; options : of its settings."""
    made = []

    def make(**options):
        made.append(PrometheusSource(PrometheusSettings(url=prometheus.url, **options)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def named(measurements):
    return {str(m.series): m.value for m in measurements}


def test_idle_host_gives_a_newcomer_all_with_the_time_of_the_scrape(prometheus, source):
    prometheus.says(prometheus.node("10.0.0.1:9100", memory=8e9, **IDLE))
    found = source().read(NOW)
    assert {m.t for m in found} == {SCRAPED}
    assert named(found) == {
        "cpu.new@10.0.0.1": 1.0,
        "cpu.running@10.0.0.1": 1.0,
        "cpu.capacity@10.0.0.1": pytest.approx(3.9, abs=0.1),
        "memory.free@10.0.0.1": 8e9,
    }


def test_hosts_are_called_by_the_mapping_and_others_are_not_read(prometheus, source):
    prometheus.says(
        [
            *prometheus.node("10.0.0.1:9100", **IDLE),
            *prometheus.node("10.0.0.2:9100", **IDLE),
            *prometheus.node("c:9100", **IDLE),
        ]
    )
    found = source(hosts={"10.0.0.1:9100": "alpha", "10.0.0.2:9100": "beta", "gone:9100": "gamma"}).read(NOW)
    assert {m.series.host for m in found} == {"alpha", "beta"}


@pytest.mark.parametrize(
    ("instance", "host"), [("10.0.0.1:9100", "10.0.0.1"), ("node-7.lab", "node-7.lab"), ("b:80", "b")]
)
def test_without_a_mapping_hosts_are_called_by_their_address(prometheus, source, instance, host):
    prometheus.says(prometheus.node(instance, **IDLE))
    assert {m.series.host for m in source().read(NOW)} == {host}


def test_address_that_is_no_name_is_left_out_and_told_once(prometheus, source, caplog):
    prometheus.says([*prometheus.node("[fe80::1]:9100", **IDLE), *prometheus.node("b:9100", **IDLE)])
    reader = source()
    with caplog.at_level(logging.WARNING):
        assert {m.series.host for m in reader.read(NOW)} == {"b"}
        reader.read(NOW)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "instance '[fe80::1]:9100' gives no name of a host and is left out; name it under hosts"
    ]


def test_scrape_counts_once(prometheus, source):
    reader = source()
    prometheus.says(prometheus.node(**IDLE))
    assert len(reader.read(NOW)) == 4
    assert reader.read(NOW) == []
    prometheus.says(prometheus.node(t=SCRAPED + 15, **IDLE), t=EVALUATED + 15)
    assert {m.t for m in reader.read(NOW + 15)} == {SCRAPED + 15}


def test_memory_alone_where_cpus_have_been_scraped_once_only(prometheus, source):
    # rates need two scrapes: cpus and their time are there, modes are not yet
    labels = {"instance": "a:1", "job": "node"}
    first = [({**labels, "reading": "cpus"}, 4), ({**labels, "reading": "cpu_t"}, SCRAPED)]
    prometheus.says([*first, *prometheus.node("a:1", procs=None)])
    assert list(named(source().read(NOW))) == ["memory.free@a"]


def test_cpu_alone_where_the_kernel_is_too_old_to_say_what_memory_is_available(prometheus, source):
    prometheus.says(prometheus.node("a:1", memory=None, **IDLE))
    assert sorted(named(source().read(NOW))) == ["cpu.capacity@a", "cpu.new@a", "cpu.running@a"]


@recorded("nws/sources/prometheus_faults.txt", "wrong")
def test_cpus_that_make_no_sense_are_a_gap_with_a_reason(prometheus, source, answered, wrong):
    prometheus.says(prometheus.node("a:1", **wrong))
    reader = source()
    assert list(named(reader.read(NOW))) == ["memory.free@a"]
    assert reader.faults == {}  # one scrape may be late
    reader.read(NOW)
    answered(reader.faults["a"])
    prometheus.says(prometheus.node("a:1", **IDLE))
    reader.read(NOW)
    assert reader.faults == {}


def test_iowait_that_falls_costs_no_measurement(prometheus, source):
    # proc(5): iowait "may decrease", and Prometheus then counts its whole value
    prometheus.says(prometheus.node("a:1", iowait=250.0, **IDLE))
    assert named(source().read(NOW))["cpu.new@a"] == 1.0


def test_host_without_metrics_has_a_fault(prometheus, source):
    reader = source(hosts={"a:1": "alpha", "b:1": "beta"})
    prometheus.says(prometheus.node("a:1", memory=None, **IDLE))
    for _ in range(2):
        reader.read(NOW)
    assert reader.faults["alpha"] == "a:1: Prometheus has no node_memory_MemAvailable_bytes of it"
    assert reader.faults["beta"].startswith(
        "b:1: Prometheus has no node_cpu_seconds_total and no node_memory"
    )


@pytest.mark.parametrize("memory", ["NaN", "+Inf", -1])
def test_memory_that_makes_no_sense_is_a_gap(prometheus, source, memory):
    prometheus.says(prometheus.node("a:1", memory=memory, **IDLE))
    assert "memory.free@a" not in named(source().read(NOW))


def test_number_that_nobody_asked_for_is_not_looked_at(prometheus, source):
    prometheus.says(
        [*prometheus.node("a:1", **IDLE), ({"instance": "a:1", "job": "node", "reading": "labels"}, 1)]
    )
    assert len(source().read(NOW)) == 4


def test_no_node_exporter_at_all(prometheus, source):
    prometheus.says([])
    with pytest.raises(ProbeError, match=r'no host: .* with job="nodes" .* let it scrape node_exporter'):
        source(match='job="nodes"').read(NOW)
    with pytest.raises(ProbeError, match="node_memory_MemAvailable_bytes of the last minutes"):
        source().read(NOW)


def test_nothing_but_gaps(prometheus, source):
    prometheus.says([({"instance": "a:1", "job": "node", "reading": "cpus"}, "NaN")])
    with pytest.raises(ProbeError, match="no host: "):
        source().read(NOW)


def test_none_of_the_hosts_of_the_mapping(prometheus, source):
    prometheus.says([*prometheus.node("a:9100", **IDLE), *prometheus.node("b:9100", **IDLE)])
    with pytest.raises(
        ProbeError, match="none of the hosts that are wanted; its instances are a:9100, b:9100"
    ):
        source(hosts={"c:9100": "c"}).read(NOW)


def test_one_host_scraped_by_two_jobs_is_not_counted_twice(prometheus, source):
    prometheus.says([*prometheus.node("a:9100", "node", **IDLE), *prometheus.node("a:9100", "other", **IDLE)])
    with pytest.raises(ProbeError) as caught:
        source().read(NOW)
    assert (
        "two targets are host a: {instance='a:9100', job='node'} and {instance='a:9100', job='other'}"
        in str(caught.value)
    )
    assert "tell them apart with match" in str(caught.value)


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_clocks_that_disagree(prometheus, source, ahead):
    prometheus.says(prometheus.node(**IDLE), t=NOW + ahead)
    with pytest.raises(ProbeError) as caught:
        source().read(NOW)
    assert f"its clock is {ahead:+.0f} s from ours" in str(caught.value)


def test_after_an_outage_it_goes_on(prometheus, source):
    reader = source()
    prometheus.status = 503
    with pytest.raises(ProbeError, match="503"):
        reader.read(NOW)
    prometheus.says(prometheus.node(**IDLE))
    assert len(reader.read(NOW)) == 4


def test_everything_is_one_question_narrowed_as_the_user_says(prometheus, source):
    prometheus.says(prometheus.node(**IDLE))
    source(match='job="node", dc=~"e.*",', over_s=45.0).read(NOW)
    (asked,) = prometheus.questions
    assert asked.count('{job="node", dc=~"e.*"}') == 6
    assert asked.count('{mode="idle",job="node", dc=~"e.*"}') == 2
    assert asked.count("[45000ms]") == 3
    assert "irate" not in asked


def test_nice_counts_where_the_user_says_so(prometheus, source):
    prometheus.says(prometheus.node("a:1", nice=4.0, idle=0.0))
    new = {nice: named(source(nice_counts=nice).read(NOW))["cpu.new@a"] for nice in (False, True)}
    assert new[False] == pytest.approx(0.8)
    assert new[True] > 0.9
