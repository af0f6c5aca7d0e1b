"""Turns of link probes, and which host is called slow for which reason."""

from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from apples.hosts.hostmessages import Survey
from apples.hosts.slowness import slowest, verdicts
from apples.hosts.speed import Kernel, LinkSpeed, tournament


@given(st.integers(0, 40))
def test_everybody_meets_everybody_once_and_nobody_two_at_a_time(count):
    turns = tournament(count)
    met = [frozenset(pair) for turn in turns for pair in turn]
    assert sorted(map(sorted, met)) == sorted(map(list, combinations(range(count), 2)))
    for turn in turns:
        busy = [host for pair in turn for host in pair]
        assert len(busy) == len(set(busy))


def survey(availability=0.95, quota=None, load=0.1):
    return Survey(availability=availability, capacity=1.0, quota=quota, cpus=1, memory_bytes=1e9, load=load)


def among(hosts, slow=(), latency_s=1e-4, bandwidth_Bps=1e8):
    links = []
    for a in hosts:
        for b in hosts:
            far = a in slow or b in slow
            if a != b:
                links.append(
                    LinkSpeed(
                        source=a,
                        target=b,
                        latency_s=latency_s * (100 if far else 1),
                        bandwidth_Bps=bandwidth_Bps / (100 if far else 1),
                    )
                )
    return links


HOSTS = ("a", "b", "c", "d")


def reasons(surveys=None, cells=None, links=None):
    surveys = {host: survey() for host in HOSTS} | (surveys or {})
    kernels = {host: Kernel(seconds_per_cell=1e-9) for host in HOSTS} | (cells or {})
    found = verdicts(surveys, kernels, among(HOSTS) if links is None else links)
    slow = slowest(found)
    return {v.host: v.reasons for v in found if v.reasons}, None if slow is None else slow.host


def test_nobody_is_slow():
    assert reasons() == ({}, None)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"surveys": {"b": survey(0.39, quota=0.4)}}, "throttled: its control groups leave it 0.40 of a CPU"),
        (
            {"surveys": {"b": survey(0.33, load=2.0)}},
            "busy: a new process gets 0.33 of a CPU where it could have 1.00 (load 2.0)",
        ),
        (
            {"cells": {"b": Kernel(seconds_per_cell=2e-9)}},
            "slow CPU: a cell takes it 2.00 times as long as the others",
        ),
        ({"cells": {"b": Kernel(seconds_per_cell=None, error="no MPI")}}, "the kernel did not run: no MPI"),
    ],
)
def test_one_host_is_slow_for_one_reason(more, expected):
    assert reasons(**more) == ({"b": (expected,)}, "b")


def test_slow_link_is_the_far_hosts_and_not_its_peers():
    found, slow = reasons(links=among(HOSTS, slow=("c",)))
    assert (found, slow) == (
        {
            "c": (
                "slow link: latency 10.00 ms, between the others 0.10 ms",
                "slow link: 8 Mbit/s, between the others 800 Mbit/s",
            )
        },
        "c",
    )


def test_fast_network_has_no_slow_links():
    assert reasons(links=among(HOSTS, slow=("c",), latency_s=1e-6, bandwidth_Bps=1e10)) == ({}, None)


def test_slowest_is_the_one_that_gets_least_done():
    found, slow = reasons(surveys={"a": survey(0.5), "d": survey(0.2)})
    assert (set(found), slow) == ({"a", "d"}, "d")


def test_probe_that_failed_is_told_for_both_ends():
    links = [*among(("a", "b")), LinkSpeed(source="a", target="c", error="timed out")]
    found, _ = reasons(links=links)
    assert found == {"a": ("no link: a → c: timed out",), "c": ("no link: a → c: timed out",)}


def test_lossy_link_is_a_reason_of_both_its_hosts():
    lossy = LinkSpeed(source="a", target="c", latency_s=1e-4, bandwidth_Bps=1e8, lost=0.025)
    sound = LinkSpeed(source="a", target="b", latency_s=1e-4, bandwidth_Bps=1e8, lost=0.0)
    found, _ = reasons(links=[lossy, sound])
    text = "lossy link: 2.5% of the messages a → c had to be sent again; ranks wait for each"
    assert [host for host in found if text in found[host]] == ["a", "c"]
