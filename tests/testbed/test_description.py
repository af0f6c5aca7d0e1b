"""What a testbed file says, and what is said of one that is wrong."""

import pytest

from .description import delay, parse, rate, size
from .errors import TestbedError
from .limits import quota_us


def test_small_file_is_enough():
    spec = parse({"hosts": [{"name": "a"}, {"name": "b", "cpu": 0.5}]}, cpus=2)
    assert [(h.name, h.address, h.cpu, h.cpuset) for h in spec.hosts] == [
        ("a", "10.77.0.11", 1.0, 0),
        ("b", "10.77.0.12", 0.5, 1),
    ]


def test_hosts_are_pinned_to_the_emptiest_cpu_large_shares_first():
    hosts = [{"name": n, "cpu": c} for n, c in (("a", 0.3), ("b", 0.6), ("c", 0.3), ("d", 0.6))]
    spec = parse({"hosts": hosts}, cpus=2)
    assert {h.name: h.cpuset for h in spec.hosts} == {"b": 0, "d": 1, "a": 0, "c": 1}
    assert spec.crowded == ()
    assert parse({"hosts": hosts}, cpus=1).crowded == ("the shares on CPU 0 add up to 1.80",)


def test_sites_give_addresses_and_uplinks():
    document = {
        "sites": {"east": {"rate": "10mbit", "delay": "10ms"}, "west": {}},
        "hosts": [{"name": "e"}, {"name": "w", "site": "west"}],
    }
    spec = parse(document)
    assert [h.address for h in spec.hosts] == ["10.77.0.11", "10.77.1.12"]
    assert [(s.rate_bps, s.delay_s) for s in spec.sites] == [(10_000_000, 0.01), (None, 0.0)]


def test_problem_of_a_file_is_told_at_once():
    document = {
        "name": "Lab 1",
        "nodes": 3,
        "hosts": [
            {"name": "a", "cpu": 2},
            {"name": "a", "rate": "fast"},
            {"name": "c", "site": "x", "ram": 1},
        ],
    }
    with pytest.raises(TestbedError) as raised:
        parse(document, file="lab.yaml")
    assert str(raised.value).splitlines() == [
        "lab.yaml: nodes: unknown key; legal are name, defaults, sites, hosts",
        "lab.yaml: name: 'Lab 1' must be small letters, digits and dashes, a letter first",
        "lab.yaml: hosts.a.cpu: 2 is no share of a CPU; legal are 0.01 to 1",
        "lab.yaml: hosts.a: a host needs a name of its own, small letters, digits and dashes",
        "lab.yaml: hosts.a.rate: 'fast' is no rate; legal are 10mbit, 500kbit, 1gbit",
        "lab.yaml: hosts.c: no site 'x'; there are lan",
        "lab.yaml: hosts.c.ram: unknown key; legal are cpu, cpuset, memory, rate, delay, loss, login, clock, own_name, "
        "known, private, python",
    ]


def test_quantities():
    assert (rate("10mbit"), rate("1.5gbit"), size("256M"), size(1000)) == (
        10_000_000,
        1_500_000_000,
        2**28,
        1000,
    )
    assert (delay("10ms"), delay("200us"), delay(0)) == (0.01, pytest.approx(2e-4), 0.0)


@pytest.mark.parametrize(
    ("share", "expected"), [(1.0, (-1, 10_000)), (0.4, (4_000, 10_000)), (0.05, (1_000, 20_001))]
)
def test_quota_is_never_shorter_than_the_kernel_allows(share, expected):
    assert quota_us(share) == expected
