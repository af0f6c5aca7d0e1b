"""All pairs at once are the pairs one by one."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nws.links import linkmatrix
from nws.links.composition import Link
from nws.links.linkmatrix import compose, compose_all

HOSTS = ("a", "b", "c", "d", "e", "f")
FIELDS = ("latency_s", "latency_error_s", "bandwidth_Bps", "bandwidth_error_Bps", "measured_at")


def link(latency_s, bandwidth_Bps=1e8, error=0.1, t=5.0):
    return Link(
        latency_s=latency_s,
        latency_error_s=error,
        bandwidth_Bps=bandwidth_Bps,
        bandwidth_error_Bps=bandwidth_Bps / 10,
        measured_at=t,
    )


PAIRS = st.lists(st.tuples(st.sampled_from(HOSTS), st.sampled_from(HOSTS)), unique=True, max_size=24)


@given(PAIRS, st.randoms(use_true_random=False), st.integers(1, 40))
def test_pair_is_what_composing_it_alone_gives(pairs, random, block):
    """Latencies are distinct sums of powers, so that no two paths are equally quick."""
    order = random.sample(range(len(pairs)), len(pairs))
    links = {
        pair: link(
            1.0 + 2.0**-k,
            math.nan if random.random() < 0.1 else 1e6 * (1 + random.random()),
            error=random.random(),
            t=random.random(),
        )
        for pair, k in zip(pairs, order, strict=True)
    }
    linkmatrix._BLOCK, kept = block, linkmatrix._BLOCK
    try:
        found = compose_all(HOSTS, links)
    finally:
        linkmatrix._BLOCK = kept
    alone = compose(links, [(a, b) for a in HOSTS for b in HOSTS])
    for i, a in enumerate(HOSTS):
        for j, b in enumerate(HOSTS):
            expected = alone.get((a, b))
            values = [getattr(found, name)[i, j] for name in FIELDS]
            if expected is None:
                assert all(map(math.isnan, values))
                assert (found.before[i, j], found.through(i, j)) == (-1, ())
            else:
                assert values == pytest.approx([getattr(expected, n) for n in FIELDS], nan_ok=True)
                assert found.through(i, j) == expected.through
                assert found.composed[i, j] == bool(expected.through)


def test_no_links_no_pairs():
    found = compose_all(HOSTS, {})
    assert np.isnan(found.latency_s).all()
    assert not found.composed.any()


def test_links_of_others_and_links_without_latency_are_not_used():
    links = {("a", "z"): link(1.0), ("z", "b"): link(1.0), ("a", "b"): link(math.nan)}
    assert compose_all(HOSTS, links).before[0, 1] == -1


def test_no_hosts():
    assert compose_all((), {}).latency_s.shape == (0, 0)
