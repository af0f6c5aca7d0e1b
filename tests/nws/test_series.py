"""Names of series: the resources that are known, and those from elsewhere."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nws.base.errors import UsageError
from nws.series import External, Resource, Series

HOSTS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
EXTERNAL = st.from_regex(r"x\.[a-z0-9_.]{1,60}", fullmatch=True)


@given(st.sampled_from(list(Resource)), HOSTS, HOSTS)
def test_names_of_known_resources_go_there_and_back(resource, host, peer):
    series = Series(resource, host, peer if resource.is_pair else None)
    assert Series.parse(str(series)) == series
    assert series.is_pair == resource.is_pair


@given(EXTERNAL, HOSTS, HOSTS | st.none())
def test_names_from_elsewhere_go_there_and_back(name, host, peer):
    series = Series(External(name), host, peer)
    assert Series.parse(str(series)) == series
    assert (series.resource, series.resource.unit, series.is_pair) == (name, "", peer is not None)


@pytest.mark.parametrize(
    "name", ["x.", "x.Power", "x.a b", "y.power", "x.pow@er", "x." + "a" * 61, "x.é", "power", "x.a\n"]
)
def test_other_names_are_no_resource_from_elsewhere(name):
    with pytest.raises(UsageError, match=r"expected x\. and 1 to 60 of a-z, 0-9, _ and dot"):
        External(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("power@a", "unknown resource 'power'; legal are cpu.new, .*, and x.… for series from elsewhere"),
        ("x.Power@a", "'x.Power@a': 'x.Power' is not a resource from elsewhere: expected x."),
        ("cpu.new", "not a series name: expected RESOURCE@HOST or RESOURCE@FROM>TO"),
        ("cpu.new@a>b", "belongs to one host"),
        ("network.latency@a", "belongs to a pair of hosts"),
        ("x.hops@a>", "'' is not a host name"),
        ("x.hops@", "'' is not a host name"),
        ("x.hops@a>b>c", "'b>c' is not a host name"),
    ],
)
def test_names_that_are_none(name, message):
    with pytest.raises(UsageError, match=message):
        Series.parse(name)


def test_series_of_both_kinds_sort_by_name():
    names = ["cpu.new@b", "x.hops@a>b", "memory.free@a", "x.power@a", "network.latency@a>b"]
    assert [str(s) for s in sorted(map(Series.parse, names))] == sorted(names)


def test_a_series_from_elsewhere_can_be_sent_to_another_process():
    series = Series.parse("x.power@alpha")
    assert pickle.loads(pickle.dumps(series)) == series
