"""Paths that stand for pairs nobody measures: fewest hops, then lowest latency, against all paths there are."""

import math
from itertools import pairwise, permutations

import pytest
from hypothesis import given, strategies as st

from nws.links.composition import Link
from nws.links.linkmatrix import compose


def link(latency_s, bandwidth_Bps=1e8, t=100.0, errors=(0.0, 0.0)):
    return Link(
        latency_s=latency_s,
        latency_error_s=errors[0],
        bandwidth_Bps=bandwidth_Bps,
        bandwidth_error_Bps=errors[1],
        measured_at=t,
    )


def test_path_adds_latencies_and_is_as_wide_as_its_narrowest_part():
    links = {
        ("a", "b"): link(1e-3, 3e8, t=50.0, errors=(3e-4, 1e7)),
        ("b", "c"): link(2e-3, 1e8, t=70.0, errors=(4e-4, 2e7)),
    }
    found = compose(links, [("a", "c")])["a", "c"]
    assert found.latency_s == pytest.approx(3e-3)
    assert found.latency_error_s == pytest.approx(5e-4)
    assert (found.bandwidth_Bps, found.bandwidth_error_Bps) == (1e8, 2e7)
    assert (found.measured_at, found.through) == (50.0, ("b",))


def test_fewer_hops_go_before_lower_latency():
    links = {("a", "d"): link(9.0), ("d", "z"): link(9.0)}
    links |= {("a", "b"): link(0.1), ("b", "c"): link(0.1), ("c", "z"): link(0.1)}
    assert compose(links, [("a", "z")])["a", "z"].through == ("d",)


def test_of_as_many_hops_the_quickest_path_is_taken():
    links = {("a", m): link(latency) for m, latency in (("m1", 3.0), ("m2", 1.0), ("m3", 2.0))}
    links |= {(m, "z"): link(1.0) for m in ("m1", "m2", "m3")}
    assert compose(links, [("a", "z")])["a", "z"].through == ("m2",)


def test_measured_pair_is_itself():
    found = compose({("a", "b"): link(1.0), ("a", "c"): link(0.1), ("c", "b"): link(0.1)}, [("a", "b")])
    assert (found["a", "b"].latency_s, found["a", "b"].through) == (1.0, ())


def test_directions_are_not_each_other():
    links = {("a", "b"): link(1.0), ("b", "c"): link(1.0)}
    assert list(compose(links, [("c", "a"), ("a", "c")])) == [("a", "c")]


@pytest.mark.parametrize("wanted", [("a", "z"), ("z", "a"), ("a", "a"), ("y", "z")])
def test_no_path_no_answer(wanted):
    assert compose({("a", "b"): link(1.0)}, [wanted]) == {}


def test_host_and_itself_is_only_what_was_measured():
    links = {("a", "a"): link(1e-5), ("a", "b"): link(1.0), ("b", "a"): link(1.0)}
    assert compose(links, [("a", "a"), ("b", "b")]).keys() == {("a", "a")}


def test_link_without_latency_is_none_and_unknown_bandwidth_stays_unknown():
    links = {("a", "b"): link(math.nan), ("a", "c"): link(1.0, math.nan), ("c", "d"): link(1.0, 5.0)}
    found = compose(links, [("a", "b"), ("a", "d")])
    assert found.keys() == {("a", "d")}
    assert math.isnan(found["a", "d"].bandwidth_Bps)
    assert math.isnan(found["a", "d"].bandwidth_error_Bps)
    assert found["a", "d"].latency_s == 2.0


def test_order_of_measuring_does_not_matter():
    pairs = [("a", "m"), ("a", "n"), ("m", "z"), ("n", "z")]
    one = compose({p: link(1.0) for p in pairs}, [("a", "z")])
    other = compose({p: link(1.0) for p in reversed(pairs)}, [("a", "z")])
    assert one == other


HOSTS = "abcde"
PAIRS = st.dictionaries(
    st.tuples(st.sampled_from(HOSTS), st.sampled_from(HOSTS)), st.integers(1, 9), max_size=20
)


@given(PAIRS, st.sampled_from(HOSTS), st.sampled_from(HOSTS))
def test_no_path_is_better_than_the_one_taken(latencies, start, end):
    """All simple paths of five hosts are tried."""
    links = {pair: link(float(latency)) for pair, latency in latencies.items()}
    found = compose(links, [(start, end)]).get((start, end))
    others = [h for h in HOSTS if h not in (start, end)]
    paths = [
        (start, *between, end)
        for n in range(len(others) + 1)
        for between in permutations(others, n)
        if all(pair in links for pair in zip((start, *between), (*between, end), strict=True))
    ]
    if start == end:
        assert (found is not None) == ((start, end) in links)
    elif not paths:
        assert found is None
    else:
        best = min((len(p), sum(latencies[q] for q in pairwise(p))) for p in paths)
        assert (len(found.through) + 2, found.latency_s) == best
